"""Reads what a session keeps in files: the logs of its servers, screenshots, exports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyio import to_thread
from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import Result
from pilothouse.core.declare.resource import resource
from pilothouse.core.declare.tool import Example, tool
from pilothouse.e2e.app_server.logs.reader import onward, tail
from pilothouse.e2e.model import LogFileNotFound, LogReadFailed
from pilothouse.e2e.ports import Sessions
from pilothouse.e2e.tools.shared import E2E, FOUND, InSession

if TYPE_CHECKING:
    from pilothouse.e2e.model import LogPaths
    from pilothouse.e2e.ports import AppServer
    from pilothouse.e2e.session import E2eSession


class ReadServerLogs(InSession):
    log_type: Literal["stdout", "stderr", "combined"] = Field(
        default="combined", description="Which"
    )
    lines: int = Field(default=100, ge=1, le=10_000, description="Last")
    next: int | None = Field(default=None, ge=0, description="From")
    service: str | None = Field(default=None, description="Name or URL")


class ServerLogs(Result):
    content: str = Field(description="The last lines, or those that follow `next`")
    path: str = Field(description="The file")
    size: int = Field(description="Bytes of the whole log")
    truncated: bool = Field(description="Whether something was cut, or more lines follow")
    next: int = Field(description="Hand it in to read on")
    missed: int | None = Field(
        default=None, description="Bytes that followed `next` and are not there any more"
    )
    restarted: bool | None = Field(
        default=None, description="The log was cut or replaced: this is its beginning"
    )


@tool(
    E2E,
    effect="read",
    profile="default",
    raises=(*FOUND, LogFileNotFound, LogReadFailed),
    examples=(Example(title="What did it say?", args={"logType": "stderr", "lines": 50}),),
)
async def read_server_logs(args: ReadServerLogs, sessions: Sessions) -> ServerLogs:
    """Read the server's log."""

    async def read(logs: LogPaths, folders: tuple[Path, ...]) -> ServerLogs:
        path = getattr(logs, args.log_type) or logs.combined
        if not path:
            raise LogFileNotFound(
                f"this server has no {args.log_type} log",
                hint="an app that ran before has none, unless startSession was given `logs`",
                path=path,
            )
        if args.next is not None:
            return await read_on(path, args.next, folders)
        found = await to_thread.run_sync(lambda: tail(Path(path), args.lines, within=folders))
        return ServerLogs(
            content=sessions.mask(found.text),
            path=path,
            size=found.size,
            truncated=found.truncated,
            next=found.size,
        )

    async def read_on(path: str, place: int, folders: tuple[Path, ...]) -> ServerLogs:
        found = await to_thread.run_sync(
            lambda: onward(Path(path), place, args.lines, within=folders)
        )
        return ServerLogs(
            content=sessions.mask(found.text),
            path=path,
            size=found.size,
            truncated=found.truncated,
            next=found.next,
            missed=found.missed or None,
            restarted=found.restarted or None,
        )

    failed, folders = sessions.failed_logs(args.session_id)
    if failed:
        logs = failed.get(args.service or "") or next(iter(failed.values()))
        try:
            return await read(logs, folders)
        except LogFileNotFound as missing:
            if why := sessions.why_swept(args.session_id):
                missing.message += f" The files of its session were {why}."
            raise
    async with sessions.using(args.session_id) as session:
        return await read(server_of(session, args.service).info.logs, session.log_folders)


def server_of(session: E2eSession, wanted: str | None) -> AppServer:
    """Return a server of a session by its name, number or URL; the first without one."""
    named = list(zip(session.server_names, session.servers, strict=True))
    for number, (name, server) in enumerate(named):
        if wanted in (None, name, str(number), server.info.url):
            return server
    if not named:
        raise LogFileNotFound(
            "this session has no server", hint="it was started without one", path=""
        )
    raise InvalidInput(
        f"this session has no server {wanted}",
        hint=f"it has {', '.join(session.server_names)}; getSessionStatus says how they are",
        field="service",
        expected=f"one of {', '.join(session.server_names)}",
        received=wanted,
    )


@resource(E2E, "e2e://artifact/{sessionId}/{name}", mime_type="application/octet-stream")
async def artifact(
    sessionId: str, name: str, sessions: Sessions
) -> bytes:  # camelCase as on the wire
    """A file of a session: screenshot, dossier, export."""
    session = sessions.find(sessionId)
    path = session.folder / name
    if path.parent != session.folder or not _is_file(path):
        why = session.files.why_gone(name)
        raise LogFileNotFound(
            f"this session has no file {name}{why and f': {why}'}", hint="check the uri", path=name
        )
    return await to_thread.run_sync(path.read_bytes)


def _is_file(path: Path) -> bool:
    """Tell whether a file lies there itself; names that no system takes are none."""
    return not os.path.islink(path) and os.path.isfile(path)


TOOLS = (read_server_logs,)
RESOURCES = (artifact,)

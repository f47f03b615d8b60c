"""What is left of a session: a test that repeats it, Playwright's trace, the video."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import Result
from pilothouse.core.declare.tool import Example, tool
from pilothouse.core.timeline.clock import iso
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.export.trace_file import write_masked
from pilothouse.e2e.model import ActionFailed, BrowserCrashed, SessionNotFound
from pilothouse.e2e.ports import Sessions
from pilothouse.e2e.session import VIDEOS
from pilothouse.e2e.tools.shared import E2E, InSession

if TYPE_CHECKING:
    from pilothouse.e2e.session import E2eSession

LOCATE_S = 2
"""Seconds for what is still asked of pages; one that answers nothing gets no more time."""
VIDEO_PATH_S = 2


class ExportSession(InSession):
    as_: Literal["test", "trace", "video"] = Field(
        default="test",
        alias="as",
        description="pytest-playwright file; trace.zip or video if startSession recorded it",
    )


class ExportedFile(Result):
    path: str = Field(description="The file")
    uri: str = Field(description="Resource of the same")
    bytes: int = Field(description="Its size")
    complete: bool = Field(default=True, description="A video is, once its tab is closed")


class ExportedSession(Result):
    files: list[ExportedFile] = Field(description="What was written")
    steps: int | None = Field(default=None, description="Steps that the test repeats")
    left_out: list[str] = Field(default_factory=list, description="Steps that it cannot repeat")
    variables: list[str] = Field(
        default_factory=list, description="Environment variables that the test needs"
    )
    message: str = Field(default="", description="What to do with it")


@tool(
    E2E,
    effect="read",
    raises=(SessionNotFound, BrowserCrashed, ActionFailed),
    examples=(Example(title="Make it a test", args={"as": "test"}),),
)
async def export_session(args: ExportSession, sessions: Sessions) -> ExportedSession:
    """Write the session down: as a runnable test, as Playwright's trace, or as video."""
    async with sessions.using(args.session_id) as session:
        session.check_alive()
        match args.as_:
            case "test":
                return await _test(session)
            case "trace":
                return await _trace(session)
            case "video":
                return await _video(session)


async def _test(session: E2eSession) -> ExportedSession:
    from pilothouse.e2e.export.pytest_file import DEFAULT_VIEWPORT, write_test

    await session.locating.settle(LOCATE_S)
    size = next((tab.page.viewport_size for tab in session.tabs.values()), None)
    is_resized = any(step.tool == "resize" for step in session.steps)
    written = write_test(
        session.steps,
        base=session.base,
        opened=session.opened,
        is_secret=lambda text: session.mask(text) != text,
        viewport=(size["width"], size["height"]) if size and not is_resized else DEFAULT_VIEWPORT,
        title=f"Written by Pilothouse from a session of {iso(session.clock())}",
    )
    if not written.steps:
        raise InvalidInput(
            "no step of this session can be repeated", hint="navigate, click or type first"
        )
    name = f"test_session_{session.steps[-1].number}.py"
    path = session.save(name, written.source.encode("utf-8", "backslashreplace"))
    return ExportedSession(
        files=[_file(session, path)],
        steps=written.steps,
        left_out=list(written.left_out),
        variables=list(written.variables),
        message=f"copy it into your project; run it with: pytest {name} (pytest-playwright)"
        + (f"; it fails at {written.fails_at}, as the session did" if written.fails_at else ""),
    )


async def _trace(session: E2eSession) -> ExportedSession:
    _must_record(session, "trace")
    writing = asyncio.ensure_future(_next_trace(session))
    session.traces.add(writing)
    writing.add_done_callback(session.traces.discard)
    try:
        # Not cancelled with us: the driver would still write what nobody is there to remove.
        path, told = await asyncio.shield(writing)
    except Exception as error:
        if not error_name(error):
            raise
        raise ActionFailed(str(error).split("\n", 1)[0], hint="check getSessionStatus") from None
    return ExportedSession(
        files=[_file(session, path)],
        message=f"open it with: playwright show-trace {path}; the next one begins here. {told}",
    )


async def _next_trace(session: E2eSession) -> tuple[Path, str]:
    assert session.browser is not None
    assert session.browser.context is not None
    tracing = session.browser.context.tracing
    async with session.tracing:
        number = session.traces_written + 1
        # Its name says what is in it: who is killed here leaves it behind.
        raw = session.folder / f".trace-{number}.unmasked.raw"
        part = session.folder / f".trace-{number}.part"
        try:
            try:
                await tracing.stop_chunk(path=raw)
            finally:
                # What comes next is the next trace's.
                await tracing.start_chunk()
            path, told = await asyncio.to_thread(_write_trace, session, number, raw, part)
            session.traces_written = number
            session.files.keep(path.name)
            return path, told
        finally:
            raw.unlink(missing_ok=True)
            part.unlink(missing_ok=True)


def _write_trace(session: E2eSession, number: int, raw: Path, part: Path) -> tuple[Path, str]:
    """Write a trace as it may be shown; return its path, and what is not masked in it."""
    if session.redactor.reveal:
        path = session.folder / f"trace-{number}.unmasked.zip"
        raw.chmod(0o600)
        raw.replace(path)
        return path, "Nothing in it is masked: the server reveals secrets."
    written = write_masked(raw, part, session.redactor)
    told = "Secrets in its texts are masked"
    mark = ""
    if written.pictures:
        mark = ".unmasked-pictures"
        told += f"; its {written.pictures} pictures show what the page showed"
    if written.drawn:
        mark = ".unmasked-pictures"
        told += f"; {written.drawn} images, fonts or media of its pages are as they came"
    if written.not_learned:
        told += (
            f"; {written.not_learned} values of headers, fields and cookies are masked only where"
            " their names stand: there are too many to look for all of them everywhere"
        )
    if written.left_out:
        told += f"; left out, since they cannot be masked: {written.left_out} bodies or lines"
    return part.replace(session.folder / f"trace-{number}{mark}.zip"), f"{told}."


async def _video(session: E2eSession) -> ExportedSession:
    _must_record(session, "video")
    open_now = {await _video_path(tab.page) for tab in list(session.tabs.values())}
    files = []
    for number, video in enumerate(sorted((session.folder / VIDEOS).glob("*.webm")), start=1):
        # Beside the other files of the session, where a resource can be read from.
        linked = session.folder / f"video-{number}.unmasked.webm"
        video.chmod(0o600)
        linked.unlink(missing_ok=True)
        os.link(video, linked)
        files.append(_file(session, linked, complete=video not in open_now))
    return ExportedSession(
        files=files,
        message="a tab's video is complete when the tab is closed, at the latest with endSession,"
        " which keeps the file unless removeLogs is true. It shows what the page showed: nothing in"
        " it is masked.",
    )


async def _video_path(page: Any) -> Path | None:
    with suppress(TimeoutError):
        async with asyncio.timeout(VIDEO_PATH_S):
            return Path(await page.video.path()) if page.video else None
    return None


def _must_record(session: E2eSession, what: str) -> None:
    if what not in session.records:
        raise InvalidInput(
            f"as: this session records no {what}",
            hint=f'start one with startSession and record: ["{what}"]',
            field="as",
            expected=f"a session that was started with record: [{what}]",
            received=what,
        )


def _file(session: E2eSession, path: Path, *, complete: bool = True) -> ExportedFile:
    return ExportedFile(
        path=str(path),
        uri=session.uri(path.name),
        bytes=path.stat().st_size,
        complete=complete,
    )


TOOLS = (export_session,)

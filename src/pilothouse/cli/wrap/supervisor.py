"""The process that stays with a server which `pilothouse wrap` started, and answers for it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.core.child_env import without_own_settings
from pilothouse.core.declare.faults import Envelope, Fault
from pilothouse.core.timeline.clock import anchored, iso
from pilothouse.e2e.model import ServerStartFailed, ServiceSpec
from pilothouse.machine.held_folders import held
from pilothouse.machine.state.places import WRAP_FOLDER

if TYPE_CHECKING:
    from pilothouse.e2e.app_server.plain import PlainServer
    from pilothouse.e2e.model import ServerInfo

START_MS = 28_000
"""Milliseconds of a start: less than the contract's 30 s, so that our own error is read."""
GRACE_S = 10.0
"""Seconds of the contract's 15 s for --shutdown in which the server may stop by itself."""
SOCKET, LAST = "socket", "last.json"
"""Files of the folder in which processes with the same order meet, their working directory."""

type Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CommandOrder:
    """A verb and the command that it is for, with its folder and limits."""

    verb: str
    command: tuple[str, ...]
    cwd: str
    port: int = 0
    timeout_ms: int = START_MS
    log_mb: int = 100
    """Megabytes that one log of the server may take."""

    @property
    def name(self) -> str:
        """Name of the folder in which processes with the same order meet."""
        words = "\0".join((self.cwd, *self.command))
        return hashlib.sha256(words.encode(errors="surrogateescape")).hexdigest()[:20]


class Supervisor:
    """Stays with one server and answers the processes that come after."""

    def __init__(self, server: PlainServer, folder: Path, command: str) -> None:
        self._server = server
        self._folder = folder
        self._command = command
        self._clock = anchored(time.time, time.monotonic)
        self._since = self._clock()
        self.done = asyncio.Event()
        self.server: asyncio.Server

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one question."""
        question = (await reader.readline()).strip()
        answers = {b"status": self.status, b"restart": self.restart, b"shutdown": self.shutdown}
        try:
            answer = await answers[question]()
        except Fault as fault:
            answer = {"error": fault.render(Envelope.TYPE)}
        writer.write(json.dumps(answer).encode())
        with suppress(OSError):
            await writer.drain()
        writer.close()
        if question == b"shutdown":
            self.done.set()

    async def status(self) -> Answer:
        health = await self._server.health()
        return {
            **shown(self._server.info),
            "status": health.status,
            "uptime": health.uptime,
            "healthy": health.healthy,
            "message": f"{self._command} is {health.status} at {health.url}.",
        }

    async def restart(self) -> Answer:
        before = self._server.info
        try:
            now = await self._server.restart()
        except Fault:
            self.done.set()
            raise
        self._since = self._clock()
        previous = {"previousPid": before.pid, "previousPort": before.port}
        return {**shown(now), **previous, "status": "restarted", "message": f"It is at {now.url}."}

    async def shutdown(self) -> Answer:
        before = self._server.info
        # Whoever comes from now on finds nobody, and may start anew.
        self.server.close()
        gently = await self._server.stop(GRACE_S)
        now = self._clock()
        remember("It was shut down.", self._folder, asdict(before.logs))
        return {
            "status": "stopped" if gently else "force_stopped",
            "previousPid": before.pid,
            "previousPort": before.port,
            "stoppedAt": iso(now),
            "uptime": round((now - self._since) / 1000, 3),
            "message": "It has stopped." if gently else "It did not stop by itself in time.",
        }


def remember(message: str, folder: Path, logs: object) -> None:
    """Leave behind what --status reports, and what the next start or a sweep cleans up."""
    last = {"message": message, "logs": logs, "folder": str(folder)}
    draft = Path(f"{LAST}.draft")
    draft.write_text(json.dumps(last))
    draft.replace(LAST)


def shown(info: ServerInfo) -> Answer:
    """Return the facts about a server as the contract has them."""
    return {
        "status": info.status,
        "url": info.url,
        "port": info.port,
        "pid": info.pid,
        "startedAt": info.started_at,
        "logs": asdict(info.logs),
        "message": info.message or f"It answers at {info.url}.",
    }


async def keep(order: CommandOrder) -> None:
    """Start the server, report how that went, and stay until it ends."""
    # Logs that a command names are read only in the temp folder and in the working directory.
    folder = Path(tempfile.mkdtemp(prefix=WRAP_FOLDER))
    # Now, and not at the end: a killed process writes nothing, and nobody else knows the folder.
    remember("It is not running.", folder, None)
    ended = asyncio.Event()
    try:
        server = await _server(order, folder, ended)
    except Fault as fault:
        remember(fault.message, folder, fault.details.get("logs"))
        _say({"error": fault.render(Envelope.TYPE)})
        return
    remember("It ended with the process that kept it.", folder, asdict(server.info.logs))
    supervisor = Supervisor(server, folder, shlex.join(order.command) or "the app")
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, supervisor.done.set)
    supervisor.server = await asyncio.start_unix_server(supervisor.meet, SOCKET)
    async with supervisor.server:
        _say(shown(server.info))
        waits = {asyncio.create_task(ended.wait()), asyncio.create_task(supervisor.done.wait())}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    if server.exit_code is not None:
        said = f"It ended by itself with exit code {server.exit_code}."
        remember(said, folder, asdict(server.info.logs))
    await server.stop(GRACE_S)


async def _server(order: CommandOrder, folder: Path, ended: asyncio.Event) -> PlainServer:
    from pilothouse.e2e.app_server.detect import detect, local_program
    from pilothouse.e2e.app_server.plain import start_plain
    from pilothouse.machine.child import start_child

    cwd = Path(order.cwd)
    command = order.command
    if not command:
        plan = detect(cwd)
        if plan is None:
            raise ServerStartFailed(
                f"Nothing in {cwd} says how the app is started.",
                hint="Name the command: `pilothouse wrap -- npm run dev --start`.",
            )
        command = plan.argv
    argv = local_program(command, cwd)
    # Whoever ran `wrap` has chosen all else: a user's terminal, or the `env` of a startSession.
    env = without_own_settings(os.environ)
    argv[0] = shutil.which(argv[0], path=env.get("PATH")) or argv[0]
    return await start_plain(
        ServiceSpec(cwd=order.cwd, port=order.port, timeout_ms=order.timeout_ms),
        argv,
        spawn=start_child,
        folder=folder,
        env=env,
        clock=anchored(time.time, time.monotonic),
        on_exit=lambda _: ended.set(),
        most_log_bytes=order.log_mb << 20,
    )


def _say(answer: Answer) -> None:
    """Tell the process that waits for us, and let go of it."""
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    with held(Path.cwd()):
        asyncio.run(keep(CommandOrder(**{**given, "command": tuple(given["command"])})))

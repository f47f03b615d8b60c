"""Runs a server command of the contract: start, restart, status, shutdown.

The first complete JSON object on its output that fits decides, whatever the command does after it.
A command that stays in the foreground, or leaves a server behind, lives on as the child that is
handed back; its output is read to its end, so that a full pipe never holds it up.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import anyio

from pilothouse.core.declare.faults import Fault
from pilothouse.e2e.app_server.contract import (
    Excerpt,
    JsonFinder,
    Logs,
    Response,
    ServerRestartResponse,
    ServerShutdownResponse,
    ServerStartResponse,
    ServerStatusResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from pilothouse.e2e.app_server.logs.output import Output
    from pilothouse.machine.spawn import Process, Spawn

START_S = 30.0
ASK_S = 15.0
"""Seconds for --status and --shutdown."""
END_GRACE_S = 0.5
"""Seconds that a command which failed or took too long is given to end."""
SETTLE_S = 0.5
"""Seconds after the answer to --start or --restart in which an exit is part of that answer."""
STDERR_CHARS = 4_000
_PIECE = 1 << 16


def _nothing() -> None:
    pass


class CommandFailed(Exception):
    """A command did not do what the contract asks; `cause` is the contract's CommandError."""

    def __init__(self, cause: dict[str, object], logs: Logs | None = None) -> None:
        """Keep why it failed; `logs` are those that the command named before it did."""
        super().__init__(str(cause["type"]))
        self.cause = cause
        self.logs = logs

    @property
    def reason(self) -> str:
        """Type of the failure, and why if that is known: such as that it may not run any more."""
        why = self.cause.get("reason")
        return f"{self.cause['type']}: {why}" if why else str(self.cause["type"])


@dataclass(frozen=True, slots=True)
class ContractCommand:
    """A command that may be started, with what it is always given."""

    path: Path
    args: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    spawn: Spawn
    log_folders: tuple[Path, ...] = ()
    """Folders of logs that it may name, beside `cwd`: the temp and the session folder."""
    start_s: float = START_S
    ask_s: float = ASK_S
    output: Output | None = None
    """Log files for what --start and --restart write until they have answered."""
    check: Callable[[], object] = _nothing
    """Function that judges the command anew, each time that it is to run."""
    _readers: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def start(self) -> tuple[ServerStartResponse, Process]:
        """Start the server; return it and the process that it lives in, the caller's from here on.

        Raises:
            CommandFailed: there is no server; nothing that was started lives.
        """
        return await self._launch("--start", ServerStartResponse)

    async def restart(self) -> tuple[ServerRestartResponse, Process]:
        """Restart as `start` does. What the earlier child still runs is for the caller to end."""
        return await self._launch("--restart", ServerRestartResponse)

    async def status(self) -> ServerStatusResponse:
        """Ask the command how its server is. Raises CommandFailed."""
        return await self._ask("--status", ServerStatusResponse)

    async def shutdown(self) -> ServerShutdownResponse:
        """Ask the command to end its server. Raises CommandFailed."""
        return await self._ask("--shutdown", ServerShutdownResponse)

    async def _launch[M: Response](self, flag: str, model: type[M]) -> tuple[M, Process]:
        run = await self._run(flag, self.output)
        try:
            response = await run.answer(model, self.start_s)
            await run.check_settled(getattr(response, "logs", None))
        except BaseException:
            await run.end()
            raise
        return response, run.child

    async def _ask[M: Response](self, flag: str, model: type[M]) -> M:
        deadline = asyncio.get_running_loop().time() + self.ask_s
        run = await self._run(flag)
        try:
            response = await run.answer(model, self.ask_s)
            # It may have more to do after its answer: it ends by itself, or when its time is up.
            await asyncio.wait(
                [asyncio.ensure_future(run.child.wait())],
                timeout=deadline - asyncio.get_running_loop().time(),
            )
        finally:
            await run.end()
        return response

    async def _run(self, flag: str, output: Output | None = None) -> _Run:
        path = str(self.path)
        try:
            self.check()
        except Fault as fault:
            raise CommandFailed(
                {"type": "permission_denied", "path": path, "reason": fault.message}
            ) from None
        try:
            child = await self.spawn(
                [path, flag, *self.args],
                cwd=self.cwd,
                env=self.env,
                stdout="pipe",
                stderr="pipe",
            )
        except FileNotFoundError as error:
            missing = str(error.filename or path)
            raise CommandFailed({"type": "command_not_found", "path": missing}) from None
        except PermissionError:
            raise CommandFailed({"type": "permission_denied", "path": path}) from None
        except OSError as error:
            # Such as a script without its first line, which only a shell would run.
            reason = error.strerror or str(error)
            raise CommandFailed(
                {"type": "permission_denied", "path": path, "reason": reason}
            ) from None
        folders = (self.cwd, *self.log_folders)
        return _Run(f"{path} {flag}", child, folders, self._readers, output)


class _Run:
    """One run of a command."""

    def __init__(
        self,
        command: str,
        child: Process,
        log_folders: tuple[Path, ...],
        readers: set[asyncio.Task[None]],
        output: Output | None = None,
    ) -> None:
        self.child = child
        self._output = output
        self._command = command
        self._log_folders = tuple(os.path.realpath(folder) for folder in log_folders)
        self._stderr = Excerpt(head=0, tail=STDERR_CHARS)
        self._readers = readers
        self._reading: list[asyncio.Task[None]] = []

    async def answer[M: Response](self, model: type[M], limit: float) -> M:
        """Return the answer that came within `limit` seconds. Raises CommandFailed."""
        finder = JsonFinder(model)
        found: asyncio.Future[M | None] = asyncio.get_running_loop().create_future()
        self._start_reading(self._search(finder, found))
        self._start_reading(self._collect())
        try:
            async with asyncio.timeout(limit):
                response = await self._decided(found)
        except TimeoutError:
            if self.child.exit_code is None:
                await self.end()
                raise CommandFailed(
                    {
                        "type": "timeout",
                        "command": self._command,
                        "timeout": round(limit * 1000),
                        "stderr": self._stderr.text(),
                    }
                ) from None
            response = None  # it exited long ago, and what it left behind never answered
        if response is None:
            await self.end()
            raise CommandFailed(self._failure(finder))
        self._check_logs(response)
        return response

    async def check_settled(self, logs: Logs | None) -> None:
        """Wait a moment for an exit that takes the answer back.

        Raises:
            CommandFailed: the command exited with another code than 0.
        """
        leaving = asyncio.ensure_future(self.child.wait())
        await asyncio.wait([leaving], timeout=SETTLE_S)
        leaving.cancel()
        if self.child.exit_code:
            await self.end()
            raise CommandFailed(self._exit(self.child.exit_code), logs)
        self._output = None  # from here on the server writes the logs that it named

    async def _decided[M](self, found: asyncio.Future[M | None]) -> M | None:
        """Return the answer, or None once there cannot be one any more."""
        leaving = asyncio.ensure_future(self.child.wait())
        try:
            either: list[asyncio.Future[Any]] = [found, leaving]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if found.done() and found.result() is not None:
                return found.result()
            if await leaving != 0:
                # All that it wrote has been read by now; what it left behind does not count.
                return found.result() if found.done() else None
            # A server that it left behind may still be about to answer on the same output.
            return await found
        finally:
            leaving.cancel()

    async def end(self) -> None:
        """End everything that was started and read the rest of its output."""
        with anyio.CancelScope(shield=True):
            await self.child.stop(END_GRACE_S)
            if self._reading:
                await asyncio.wait(self._reading)

    def _failure(self, finder: JsonFinder[Response]) -> dict[str, object]:
        if code := self.child.exit_code:
            return self._exit(code)
        return {
            "type": "invalid_json",
            "stdout": finder.excerpt.text(),
            "parseError": finder.problem,
        }

    def _exit(self, code: int) -> dict[str, object]:
        return {"type": "non_zero_exit", "exitCode": code, "stderr": self._stderr.text()}

    def _check_logs(self, response: Response) -> None:
        logs = getattr(response, "logs", None)
        for path in (logs.stdout, logs.stderr, logs.combined) if isinstance(logs, Logs) else ():
            if path and not self._may_read(path):
                allowed = list(self._log_folders)
                raise CommandFailed({"type": "log_path_refused", "path": path, "allowed": allowed})

    def _may_read(self, path: str) -> bool:
        if "\0" in path or not os.path.isabs(path):
            return False
        real = os.path.realpath(path)
        return any(os.path.commonpath([real, folder]) == folder for folder in self._log_folders)

    async def _search[M: Response](
        self, finder: JsonFinder[M], found: asyncio.Future[M | None]
    ) -> None:
        """Read stdout to its end, and set `found` as soon as the answer is there or cannot be."""
        stream = self.child.stdout
        while stream is not None and (piece := await stream.read(_PIECE)):
            self._log("stdout", piece)
            if not found.done() and (response := finder.feed(piece)) is not None:
                found.set_result(response)
        if not found.done():
            found.set_result(finder.close())

    async def _collect(self) -> None:
        """Read stderr to its end."""
        stream = self.child.stderr
        while stream is not None and (piece := await stream.read(_PIECE)):
            self._log("stderr", piece)
            self._stderr.add(piece)

    def _log(self, kind: Literal["stdout", "stderr"], piece: bytes) -> None:
        if self._output is not None:
            self._output.append(kind, piece)

    def _start_reading(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._reading.append(task)
        # The tasks outlive this run where the server does.
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)

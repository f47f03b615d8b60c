"""The owner's end of the engine: started when it is first needed, and again when it has died."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import sys
import time
from collections import deque
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from pilothouse.core.child_env import own_environment
from pilothouse.core.declare.faults import COMMON, Fault, Internal, NotAvailable
from pilothouse.intercept.model import (
    BadConfig,
    BadFilter,
    EngineUnreachable,
    JobNotFound,
    PacketNotFound,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from pilothouse.machine.spawn import Process, Spawn

MODULE = "pilothouse.intercept.engine"
START_S = 30.0
"""Seconds that a start may take: the first one on a machine compiles what it imports."""
ANSWER_S = 10.0
PING_S = 5.0
GRACE_S = 5.0
SETTLED_S = 5.0
SHORT_LIVES = 3
"""Lives in a row shorter than `SETTLED_S` after which an engine that died is still started again at
once; after more of them, only for the next call."""
LONGEST_LINE = 64 << 20
TAIL = 40
"""Lines of its standard error that are kept for the reason of its death."""

_ANSWERED: tuple[type[Fault], ...] = (
    *COMMON,
    NotAvailable,
    EngineUnreachable,
    BadFilter,
    PacketNotFound,
    BadConfig,
    JobNotFound,
)
_FAULTS = {fault.code: fault for fault in _ANSWERED}


class Ask(Protocol):
    async def __call__(self, do: str, *, within: float = ANSWER_S, **args: Any) -> Any:
        """Ask the engine; raises EngineUnreachable, and whatever fault it answers."""


type OnEvent = Callable[[dict[str, Any]], None]
type OnStart = Callable[[Ask], Awaitable[None]]


class EngineProcess:
    """The engine of one folder, made by `open_engine`."""

    def __init__(
        self,
        folder: Path,
        spawn: Spawn,
        on_event: OnEvent,
        on_start: OnStart | None,
        options: Sequence[str],
    ) -> None:
        self._folder = folder
        self._spawn = spawn
        self._on_event = on_event
        self._on_start = on_start
        self._options = options
        self._starting = asyncio.Lock()
        self._running: _Process | None = None
        self._closed = False
        self._again: asyncio.Task[None] | None = None
        self._short_lives = 0

    @property
    def is_running(self) -> bool:
        return self._running is not None and self._running.is_alive

    @property
    def silent_s(self) -> float:
        """Seconds since the engine last sent anything; infinite for one that does not run."""
        running = self._running
        return time.monotonic() - running.heard_at if running else math.inf

    @property
    def pid(self) -> int | None:
        return self._running.child.pid if self._running and self._running.is_alive else None

    async def ask(self, do: str, *, within: float = ANSWER_S, **args: Any) -> Any:
        """Return the engine's answer, starting the engine if it does not run.

        Raises:
            EngineUnreachable: it cannot be started, died over it, or did not answer in time.
            Fault: the engine answers with it.
        """
        process = await self._process()
        return await process.ask(do, within=within, **args)

    async def close(self) -> None:
        self._closed = True
        if self._again:
            self._again.cancel()
            with suppress(asyncio.CancelledError):
                await self._again
        async with self._starting:  # one that is just being started has to end as well
            if self._running:
                await self._running.close()

    async def _process(self) -> _Process:
        async with self._starting:
            if self._running is None or not self._running.is_alive:
                if self._running:
                    await self._running.buried()
                self._running = await self._start()
            return self._running

    async def _start(self) -> _Process:
        if self._closed:
            raise EngineUnreachable("the proxy's engine is being shut down")
        process = await _Process.start(self._folder, self._spawn, self._options, self._on_event)
        process.on_death = self._died
        if self._on_start:
            try:
                await self._on_start(process.ask)
            except BaseException:
                process.on_death = None
                await process.close()
                raise
        return process

    def _died(self, process: _Process) -> None:
        self._on_event(
            {"event": "log", "level": "error", "class": "engine", "message": process.epitaph()}
        )
        lived = time.monotonic() - process.since
        self._short_lives = 0 if lived >= SETTLED_S else self._short_lives + 1
        if not self._closed and self._short_lives <= SHORT_LIVES:
            self._again = asyncio.create_task(self._start_again())

    async def _start_again(self) -> None:
        try:
            await self._process()
        except Fault as fault:
            message = f"the proxy's engine was not started again: {fault.message}"
            self._on_event(
                {"event": "log", "level": "error", "class": "engine", "message": message}
            )


class _Process:
    """One life of the engine."""

    def __init__(
        self,
        child: Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_event: OnEvent,
    ) -> None:
        self.child = child
        self.since = self.heard_at = time.monotonic()
        self.on_death: Callable[[_Process], None] | None = None
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        self._reading = [
            asyncio.create_task(self._read()),
            asyncio.create_task(self._read_errors()),
        ]
        self._checking: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls, folder: Path, spawn: Spawn, options: Sequence[str], on_event: OnEvent
    ) -> _Process:
        """Start an engine and wait until it is ready; raises EngineUnreachable."""
        ours, theirs = socket.socketpair()
        # -P: the folder it runs in is no place to import from. No -O: QUIC needs its assertions.
        argv = [sys.executable, "-P", "-m", MODULE, "--folder", str(folder), *options]
        try:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
            child = await spawn(
                argv,
                cwd=folder,
                env=own_environment(os.environ),
                stdout=theirs.fileno(),
                stderr="pipe",
            )
        except OSError as error:
            ours.close()
            raise EngineUnreachable(f"the proxy's engine cannot be started: {error}") from error
        finally:
            theirs.close()
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
        process = cls(child, reader, writer, on_event)
        try:
            await process._wait_until_ready()
        except BaseException:
            await process.close()
            raise
        return process

    @property
    def is_alive(self) -> bool:
        """True while it may be asked: its socket is open."""
        return not self._writer.is_closing()

    async def buried(self) -> None:
        """Wait until it has ended and all who waited for its answers know."""
        await self._ended.wait()

    def epitaph(self) -> str:
        """Describe how it ended, with the last lines that it wrote."""
        code = self.child.exit_code
        how = f" with exit code {code}" if code is not None else ""
        tail = "".join(f"\n  {line}" for line in self._tail)
        return f"the proxy's engine has ended{how}{tail}"

    async def ask(self, do: str, *, within: float = ANSWER_S, **args: Any) -> Any:
        if not self.is_alive:
            raise self._unreachable(self.epitaph())
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._writer.write(_line({"id": number, "do": do, "args": args}))
            return await asyncio.wait_for(answer, within)
        except TimeoutError:
            self._check()
            raise self._unreachable(
                f"the proxy's engine did not answer {do} within {within:g} s"
            ) from None
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        """End the process; what it recorded is in the file by then."""
        self.on_death = None
        self._writer.close()
        try:
            await asyncio.wait_for(self.child.wait(), GRACE_S)
        except TimeoutError:
            pass
        await self.child.stop(0)
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def _wait_until_ready(self) -> None:
        ready, ended = (asyncio.create_task(one.wait()) for one in (self._ready, self._ended))
        try:
            await asyncio.wait([ready, ended], timeout=START_S, return_when="FIRST_COMPLETED")
        finally:
            ready.cancel()
            ended.cancel()
        if self._ended.is_set():
            raise self._unreachable(self.epitaph())
        if not self._ready.is_set():
            raise self._unreachable(f"the proxy's engine was not ready within {START_S:g} s")

    def _check(self) -> None:
        """Start a ping: an engine that does not even answer that is of no use, and is ended."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._ping_or_kill())

    async def _ping_or_kill(self) -> None:
        number = next(self._ids)
        self._waiting[number] = pong = asyncio.get_running_loop().create_future()
        self._writer.write(_line({"id": number, "do": "ping", "args": {}}))
        try:
            await asyncio.wait_for(pong, PING_S)
        except (TimeoutError, Fault):
            self.child.kill_now()
        finally:
            del self._waiting[number]

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(_parsed(line))
        except (OSError, ValueError) as error:
            self._tail.append(f"its socket broke: {error}")
        finally:
            self._writer.close()
        # Its exit code and its last lines come a moment after its socket's end.
        with suppress(TimeoutError):
            await asyncio.wait_for(self.child.wait(), GRACE_S)
        self._bury()

    def _take(self, message: dict[str, Any]) -> None:
        self.heard_at = time.monotonic()
        if message.get("event") == "ready":
            self._ready.set()
        if "event" in message:
            self._on_event(message)
        elif (answer := self._waiting.get(message["id"])) and not answer.done():
            if error := message.get("error"):
                answer.set_exception(_fault(error))
            else:
                answer.set_result(message.get("result"))

    def _bury(self) -> None:
        self._ended.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._unreachable(self.epitaph()))
        if self.on_death:
            self.on_death(self)

    async def _read_errors(self) -> None:
        if self.child.stderr is None:
            return
        with suppress(ValueError):
            while line := await self.child.stderr.readline():
                self._tail.append(line.decode("utf-8", "replace").rstrip())

    def _unreachable(self, reason: str) -> EngineUnreachable:
        return EngineUnreachable(
            reason,
            hint="call again: the engine is started anew; get_logs has what it said before",
            log=list(self._tail) or None,
        )


def _line(message: dict[str, Any]) -> bytes:
    import orjson

    return orjson.dumps(message) + b"\n"


def _parsed(line: bytes) -> dict[str, Any]:
    """Return the event or answer of a line.

    Raises:
        ValueError: it is neither; no engine of ours writes that.
    """
    import orjson

    message = orjson.loads(line)
    if not isinstance(message, dict) or not ("event" in message or "id" in message):
        raise ValueError("a line is neither an event nor an answer")
    if error := message.get("error"):
        if not isinstance(error, dict) or not _FAULT_NAMES <= error.keys():
            raise ValueError("an answer's error lacks what each has")
    return message


_FAULT_NAMES = {"code", "message", "hint", "details"}


def _fault(error: dict[str, Any]) -> Fault:
    kind = _FAULTS.get(error["code"], Internal)
    return kind(error["message"], hint=error["hint"], **error["details"])


@asynccontextmanager
async def open_engine(
    folder: Path,
    spawn: Spawn,
    on_event: OnEvent,
    *,
    on_start: OnStart | None = None,
    options: Sequence[str] = (),
) -> AsyncIterator[EngineProcess]:
    """Hold the engine of a folder for the block; it starts with the first thing it is asked.

    `on_event` receives the engine's events, in the event loop. `on_start` is called after each
    start, before anything else is asked, with an `ask` of its own: to apply what a new process does
    not know. `options` are further arguments of its command line.
    """
    engine = EngineProcess(folder, spawn, on_event, on_start, options)
    try:
        yield engine
    finally:
        with anyio.CancelScope(shield=True):  # what it recorded has to be in the file
            await engine.close()

"""Any MCP server as a worker, by its command line: over HTTP, or over stdio by a bridge."""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from pilothouse.hub.http.client import NoAnswer
from pilothouse.hub.mcp.template_probe import START_S, capture
from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.ports import Upstream
from pilothouse.hub.workers import StartFailed
from pilothouse.hub.workers.breaker import Breaker
from pilothouse.hub.workers.bridges.stdio_to_http import BridgedWorker
from pilothouse.hub.workers.spawned import CommandOutput, SpawnedWorker
from pilothouse.machine.net.local_ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.workers import Running
    from pilothouse.hub.workers.spawned import CommandLaunch
    from pilothouse.machine.spawn import Spawn

    type Plan = Callable[[SessionRecord], CommandLaunch]
    """Returns how a session's command is started."""

ADDRESS = re.compile(
    r"https?://(localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\]):(\d{1,5})(/[^\s\"',]+)?"
)
"""Text by which a server says where it listens: host, port, and the path of its endpoint."""
PORT_WORD = "{port}"
"""Word in a command line for a free port, where a server does not choose one itself."""
TRY_AGAIN_S = 0.05
DYING_S = 0.5
"""Seconds that one that does not answer may take to be known as dead."""
TEMPLATE_S = 8.0
"""Seconds that a client waits for the template, as for any other worker (pool.py). Starting the one
that is asked for it, and asking, go on for the next client (hub/mcp/template_probe.py); one that
ends sooner than this is started once more."""
_BOTH = ("127.0.0.1", "::1")
"""Addresses that `localhost` may stand for: which of them a server takes is its own choice."""
_ADDRESSES = {"127.0.0.1": _BOTH[:1], "0.0.0.0": _BOTH[:1], "[::1]": _BOTH[1:]}
_NOBODY = Key("local", "template")


class ListenAddress(NamedTuple):
    """Address at which a server says that it listens."""

    host: str
    port: int
    path: str = ""


class CommandKind(ABC):
    """Base of all kinds that start a command."""

    def __init__(self, spawn: Spawn, plan: Plan) -> None:
        self._spawn = spawn
        self._plan = plan
        self.report: Callable[..., None] = lambda event, **details: None
        """Callback for a template that could not be had."""
        self._capturing: asyncio.Task[Template] | None = None
        self._is_late = False
        """It was reported that the answers are late."""
        self._trouble = ""
        """Why the template could not be had; empty when it could, or nobody has asked."""
        self._breaker = Breaker(time.monotonic)
        self._workers: set[SpawnedWorker] = set()

    async def prepare(self) -> None:
        return  # commands share nothing

    async def start(self, key: Key, record: SessionRecord, within: float) -> Running:
        return await self._start(self._plan(record), within)

    def _keep(self, worker: SpawnedWorker) -> None:
        self._workers.add(worker)
        worker.died.add_done_callback(lambda _: self._workers.discard(worker))

    @abstractmethod
    async def _start(self, launch: CommandLaunch, within: float) -> Running:
        """Start a worker. Raises StartFailed."""

    async def template(self) -> Template:
        """Capture it once, from a worker of its own; when that failed again, not too often."""
        task = self._begin_to_capture()
        await asyncio.wait([task], timeout=TEMPLATE_S)
        if not task.done():
            why = f"it did not answer within {TEMPLATE_S:g} s"
            self._report_late(why)
            raise StartFailed(f"{why}; it may be about to: call again", retry_after=TEMPLATE_S)
        return task.result()

    def trouble(self) -> str:
        if self._trouble:
            self._begin_to_capture()
        return self._trouble

    def _begin_to_capture(self) -> asyncio.Task[Template]:
        """Return what runs or went well, else begin anew, unless it failed too often lately."""
        task = self._capturing
        failed = task is not None and task.done() and (task.cancelled() or task.exception())
        if task is None or (failed and not self._breaker.wait(_NOBODY)):
            self._is_late = False
            task = self._capturing = asyncio.create_task(self._try_to_capture())
            task.add_done_callback(_retrieve)
        return task

    def _report_late(self, why: str) -> None:
        self._trouble = why
        if not self._is_late:
            self._is_late = True
            self.report("worker_start_failed", agent=_NOBODY.shown, why=why)

    async def _try_to_capture(self) -> Template:
        try:
            template = await self._capture()
        except StartFailed as failed:
            self._report_late(str(failed))
            self._breaker.failed(_NOBODY)
            raise StartFailed(str(failed), retry_after=self._breaker.wait(_NOBODY)) from None
        self._breaker.went_well(_NOBODY)
        self._trouble = ""
        return template

    async def _capture(self) -> Template:
        await self.prepare()
        record = SessionRecord("", _NOBODY, "2025", 0.0, 0.0)
        begun = time.monotonic()
        try:
            worker = await self.start(_NOBODY, record, START_S)
        except StartFailed:
            if time.monotonic() - begun >= TEMPLATE_S:
                raise
            worker = await self.start(_NOBODY, record, START_S)
        try:
            return await capture(worker.address)
        except NoAnswer as error:
            await asyncio.wait([worker.died], timeout=DYING_S)
            why = "it ended before it answered" if worker.died.done() else str(error)
            raise StartFailed(f"{why}; it said: {worker.last_words or 'nothing'}") from None
        finally:
            await worker.stop(0)

    async def close(self) -> None:
        if self._capturing is not None:
            self._capturing.cancel()
        await asyncio.gather(*(worker.stop(0) for worker in self._workers))


class HttpCommand(CommandKind):
    """A server that listens on a port of this machine."""

    def __init__(self, spawn: Spawn, plan: Plan, announces: re.Pattern[str] = ADDRESS) -> None:
        super().__init__(spawn, plan)
        self._announces = announces

    async def _start(self, launch: CommandLaunch, within: float) -> Running:
        told: asyncio.Future[ListenAddress] = asyncio.get_running_loop().create_future()
        what = "say on which port it can be reached"
        if any(PORT_WORD in word for word in launch.argv):
            port = free_port()
            argv = [word.replace(PORT_WORD, str(port)) for word in launch.argv]
            launch = replace(launch, argv=argv)
            told.set_result(ListenAddress("localhost", port))
            what = f"listen on port {port}"
        said = CommandOutput(self._ear(told))
        worker = await SpawnedWorker.open(self._spawn, launch, said, self._keep)
        reaching = asyncio.create_task(_reach(told))
        try:
            worker.address = await worker.started(reaching, what, within)
        finally:
            reaching.cancel()
        return worker

    def _ear(self, told: asyncio.Future[ListenAddress]) -> Callable[[str], None]:
        def listen(line: str) -> None:
            said = self._announces.search(line)
            if said and not told.done():
                host, port, path = said.groups(default="")
                told.set_result(ListenAddress(host, int(port), path))

        return listen


class StdioCommand(CommandKind):
    """A server that speaks on its standard input and output."""

    def __init__(self, spawn: Spawn, plan: Plan, sockets: Path) -> None:
        """Take `sockets`, a folder that is nobody else's."""
        super().__init__(spawn, plan)
        self._sockets = sockets
        self._numbers = count(1)

    async def _start(self, launch: CommandLaunch, within: float) -> Running:
        path = self._sockets / f"s{next(self._numbers)}"
        return await BridgedWorker.open_at(path, self._spawn, launch, self._keep)


def _retrieve(task: asyncio.Task[Template]) -> None:
    """Have asyncio know that a failure was seen, also when nobody waited for it."""
    if not task.cancelled():
        task.exception()


async def _reach(told: asyncio.Future[ListenAddress]) -> Upstream:
    """Return where it listens, once it does: some say so a moment too early."""
    place = await told
    name = f"{place.host}:{place.port}"
    while True:
        for host in _ADDRESSES.get(place.host, _BOTH):
            with suppress(OSError):
                _, writer = await asyncio.open_connection(host, place.port)
                writer.close()
                return Upstream(name, host=host, port=place.port, endpoint=place.path or "/mcp")
        await asyncio.sleep(TRY_AGAIN_S)

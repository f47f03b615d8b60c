"""One life of a dev server's process: its streams are copied, its address is found out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.app_server import probe
from pilothouse.e2e.app_server.logs.crashes import CrashFinder
from pilothouse.e2e.app_server.probe import AppAddress, patience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.e2e.app_server.logs.output import Output
    from pilothouse.machine.spawn import Process

UNANNOUNCED_S = 2.0
"""Seconds for which a port has to be the only one before it counts without an announcement."""
MAX_ANNOUNCED = 20
CRASH_S = 1.0
"""Seconds that a server has to answer nevertheless after its output showed a crash."""
_SILENCE_S = 0.5
_DRAIN_S = 1.0
_FIRST_DELAY_S, _LAST_DELAY_S, _ANSWERS_DELAY_S = 0.02, 0.25, 0.5


class Ended(Exception):
    """The command ended before it answered."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class Crashed(Exception):
    """The server crashed, but the command lives on and waits for an edit; the message says why."""


class Run:
    """A process that shall serve on `port`, and may choose to do so elsewhere."""

    def __init__(self, child: Process, port: int, output: Output, known: AppAddress | None) -> None:
        """Copy the streams of a process; `known` is where the same command has answered before."""
        self.child = child
        self.port = port
        self.not_ours: tuple[int, ...] = ()
        """Ports that the output names, on which no process of this one listens."""
        self._announced = {known.port: known} if known else {}
        self._crash = CrashFinder()
        self._crashed = asyncio.Event()
        assert child.stdout is not None
        assert child.stderr is not None
        self._copying = {
            asyncio.create_task(output.copy("stdout", child.stdout, self._listen)),
            asyncio.create_task(output.copy("stderr", child.stderr, self._listen)),
        }

    async def ready(self, within: float) -> tuple[AppAddress, int]:
        """Return the address that answers, and the HTTP status.

        Raises:
            TimeoutError: none does in time.
            Ended: the process has ended.
            Crashed: the process lives, but its server does not.
        """
        answering = asyncio.create_task(self._answering(within))
        ending = asyncio.create_task(self.child.wait())
        crashing = asyncio.create_task(self._crashing())
        tasks: tuple[asyncio.Task[Any], ...] = (answering, ending, crashing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            if ending.done():
                raise Ended(ending.result())
            raise Crashed(self._crash.error)
        finally:
            for task in tasks:
                task.cancel()

    async def _crashing(self) -> None:
        """Wait for a crash after which no port of the command's is open."""
        await self._crashed.wait()
        await asyncio.sleep(CRASH_S)
        # What listens is another server below the same command, and may answer later.
        while await asyncio.to_thread(probe.listening_ports, self.child.pid):  # noqa: ASYNC110
            await asyncio.sleep(CRASH_S)

    async def end(self, grace: float) -> bool:
        """End it; tell whether it went by itself when asked. Nothing that it started lives then."""
        gently = await self.child.stop(grace)
        await self.drain()
        return gently

    async def drain(self) -> None:
        """Wait for what is still in the pipes; a descendant may hold them open for ever."""
        await asyncio.wait(self._copying, timeout=_DRAIN_S)
        for task in self._copying:
            task.cancel()

    def _listen(self, line: str) -> None:
        if self._crash.feed(line):
            self._crashed.set()
        address = probe.announced(line)
        if address and len(self._announced) < MAX_ANNOUNCED:
            known = self._announced.get(address.port)
            if known is None or (address.main and not known.main):
                self._announced[address.port] = address

    async def _answering(self, within: float) -> tuple[AppAddress, int]:
        now = asyncio.get_running_loop().time
        started = now()
        deadline = started + within
        seen: dict[tuple[int, int], float] = {}
        delay = _FIRST_DELAY_S
        while True:
            failing = None
            async for address, least in self._candidates(now() - started):
                left = max(deadline - now(), 0.05)
                status = await probe.status_of(address, min(probe.TRY_S, left))
                if status is None:
                    continue
                first = seen.setdefault((address.port, status), now())
                if now() - first >= max(patience(status), least):
                    return address, status
                failing = failing or (address, status)
            if now() >= deadline:
                if failing:
                    return failing  # it answers, if only with errors: the agent shall see them
                raise TimeoutError
            # Each request stands in the server's log: one that answers is not asked often.
            pause = _ANSWERS_DELAY_S if failing else delay
            await asyncio.sleep(min(pause, max(0.0, deadline - now())))
            delay = min(delay * 1.2, _LAST_DELAY_S)

    async def _candidates(self, waited: float) -> AsyncIterator[tuple[AppAddress, float]]:
        """Yield where to ask, best first, and for how long an answer has to last there."""
        yield self._announced.get(self.port, AppAddress(self.port)), 0.0
        named = [one for port, one in self._announced.items() if port != self.port]
        if not named and waited < _SILENCE_S:
            return
        listening = await asyncio.to_thread(probe.listening_ports, self.child.pid)
        self.not_ours = tuple(one.port for one in named if one.port not in listening)
        for one in sorted(named, key=lambda one: not one.main):
            if one.port in listening:
                yield one, 0.0
        if not named and len(listening) == 1:
            yield AppAddress(listening.pop()), UNANNOUNCED_S

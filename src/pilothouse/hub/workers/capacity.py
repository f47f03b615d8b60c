"""Whether there is room for another worker, and who waits for it. Nothing is ended here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from pilothouse.hub.model import TooBusy

QUEUE = 10
QUEUE_S = 30.0
"""Seconds that a call waits for room."""
RETRY_S = 10.0
"""Seconds after which a client should come again that found none."""
NEW_WORKER_BYTES = 32 << 20
"""Bytes that a worker that was not measured yet is taken for."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Limits on how much may run, and for how long."""

    workers: int = 200
    memory: int = 0
    """Bytes of all workers together; 0: no limit."""
    idle_s: float = 600.0
    start_s: float = 8.0
    grace_s: float = 30.0
    """Seconds between asking an idle worker to end and ending it by force."""
    queue_s: float = QUEUE_S


class Claimant(Protocol):
    """A worker, or one to be, that takes a place."""

    memory: int
    has_place: bool

    def __hash__(self) -> int: ...


class Capacity:
    """The places of all workers."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._claimants: set[Claimant] = set()
        self._queue: dict[Claimant, asyncio.Future[None]] = {}

    def __len__(self) -> int:
        """Return the number of those who wait."""
        return len(self._queue)

    @property
    def memory(self) -> int:
        return sum(claimant.memory for claimant in self._claimants)

    def ask(self, claimant: Claimant) -> None:
        """Get a place, or one in the queue. Raises TooBusy when that is full."""
        if len(self._queue) >= QUEUE:
            raise self._busy(f"and {QUEUE} calls wait for one already")
        self._queue[claimant] = asyncio.get_running_loop().create_future()
        self.give()

    async def wait(self, claimant: Claimant) -> None:
        """Wait until the claimant has the place it asked for. Raises TooBusy after a while."""
        if claimant.has_place:
            return
        try:
            async with asyncio.timeout(self._limits.queue_s):
                await self._queue[claimant]
        except TimeoutError:
            raise self._busy(f"and none got free in {self._limits.queue_s:g} s") from None

    def leave(self, claimant: Claimant) -> None:
        """Take a claimant's place, which it wants no more, or its turn to wait for one."""
        self._queue.pop(claimant, None)
        self._claimants.discard(claimant)
        claimant.has_place = False
        self.give()

    def give(self) -> None:
        """Let those in who waited longest, as far as there is room."""
        while self._queue and self._has_room:
            claimant, waiting = next(iter(self._queue.items()))
            del self._queue[claimant]
            claimant.has_place = True
            self._claimants.add(claimant)
            if not waiting.done():
                waiting.set_result(None)

    def lacking(self, soon_free: int) -> bool:
        """Return whether somebody else has to leave, beside those who are about to."""
        too_heavy = 0 < self._limits.memory < self.memory and not soon_free
        return too_heavy or len(self._queue) > soon_free

    @property
    def _has_room(self) -> bool:
        limits = self._limits
        if len(self._claimants) >= limits.workers:
            return False
        # One is always let in: a machine so small would serve nobody else.
        fits = self.memory + NEW_WORKER_BYTES <= limits.memory
        return not limits.memory or fits or not self._claimants

    def _busy(self, why: str) -> TooBusy:
        if len(self._claimants) >= self._limits.workers:
            full = f"all {self._limits.workers} workers are in use"
        else:
            full = f"workers use {self.memory >> 20} MB, of {self._limits.memory >> 20} MB allowed,"
        return TooBusy(
            f"{full} {why}; call again in {RETRY_S:.0f} s, end sessions that are done,"
            " or raise --max-workers or --max-memory",
            retry_after=RETRY_S,
        )

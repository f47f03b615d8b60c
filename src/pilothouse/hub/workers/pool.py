"""The workers of one hub, by key: started once, kept while they are needed, ended when not.

Nothing here touches a process, a file or the time: the kind of workers, the clock and the measure
of memory are handed in.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from pilothouse.hub.model import GatewayFault, SessionUnknown, WorkerStartFailed
from pilothouse.hub.workers import StartFailed, Use
from pilothouse.hub.workers.breaker import Breaker
from pilothouse.hub.workers.capacity import NEW_WORKER_BYTES, Capacity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from pilothouse.hub.model import Key, SessionRecord
    from pilothouse.hub.workers import Kind, Running
    from pilothouse.hub.workers.capacity import WorkerLimits

    type Measure = Callable[[Iterable[int]], Awaitable[Mapping[int, int]]]
    """Bytes by pid, each with all that runs below it."""

    type Why = Literal["over", "idle", "evicted", "stale", "closing"]
    """A worker is ended: with its session, because nobody needs it, to make room, because another
    gateway serves its session, with the hub."""

TRIES = 2
RETRY_S = 1.0
LOOK_S = 1.0
"""Seconds between two looks for idle workers."""
WEIGH_S = 10.0
"""Seconds between two measurements of memory."""
EVICT_GRACE_S = 5.0
"""Seconds for a worker to end that makes room for another: somebody waits."""
SETTLED_S = 10.0
"""Seconds after its start before which a worker that dies has died of it."""
LOST_KEPT = 10_000


@dataclass(eq=False, slots=True)
class PoolEntry:
    """One worker, who uses it, and what it takes."""

    key: Key
    worker: Running | None = None
    starting: asyncio.Task[Running] | None = None
    leases: int = 0
    idle_since: float = 0.0
    started: float = 0.0
    memory: int = NEW_WORKER_BYTES
    is_weighed: bool = False
    """The memory was measured, and is not what any new worker is taken for."""
    has_place: bool = False
    is_fresh: bool = False
    """Nobody was told yet that the state of the one before was lost."""
    is_over: bool = False
    """The session has ended."""

    @property
    def is_idle(self) -> bool:
        return self.worker is not None and not self.leases


class PoolLease:
    """Keeps a worker for as long as its block lasts."""

    def __init__(self, pool: Pool, entry: PoolEntry, worker: Running) -> None:
        self.worker = worker
        self.is_fresh, entry.is_fresh = entry.is_fresh, False
        self._pool = pool
        self._entry = entry

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool._release(self._entry)


class Pool:
    """All workers of this hub; a `Workers` port."""

    def __init__(
        self,
        kind: Kind,
        limits: WorkerLimits,
        clock: Callable[[], float],
        measure: Measure,
        *,
        on_start: Callable[[int], None] = lambda pid: None,
        on_end: Callable[[int], None] = lambda pid: None,
        report: Callable[..., None] = lambda event, **details: None,
    ) -> None:
        """Give `on_start` and `on_end` the pid of each worker, `report` what happens."""
        self._kind = kind
        self._limits = limits
        self._clock = clock
        self._measure = measure
        self._on_start = on_start
        self._on_end = on_end
        self._report = report
        # By last use, the longest unused first.
        self._entries: OrderedDict[Key, PoolEntry] = OrderedDict()
        self._leaving: dict[PoolEntry, asyncio.Task[None]] = {}
        self._room = Capacity(limits)
        self._evicting: asyncio.Task[None] | None = None
        self._look_again = False
        """Something changed since it was looked who could make room."""
        self._breaker = Breaker(clock)
        self._lost: OrderedDict[Key, None] = OrderedDict()
        """Keys whose last worker ended with whatever state it had."""
        self._is_closed = False

    # What is asked of it

    async def get(self, key: Key, record: SessionRecord) -> PoolLease:
        """Return the key's worker, started if there is none, and busy from now on.

        Raises:
            WorkerStartFailed: it did not start.
            TooBusy: there is no room for another one.
            SessionUnknown: `end` was called meanwhile.
        """
        while not self._is_closed:
            entry = self._entries.get(key) or self._open(key, record)
            self._entries.move_to_end(key)
            entry.leases += 1
            try:
                worker = await self._worker_of(entry)
            except BaseException:
                self._release(entry)
                raise
            if worker is not None and self._is_current(entry):
                return PoolLease(self, entry, worker)
            self._release(entry)
            if entry.is_over:
                raise SessionUnknown
        raise WorkerStartFailed("the hub is about to end")

    def running(self, key: Key) -> Running | None:
        entry = self._entries.get(key)
        return entry.worker if entry is not None else None

    async def end(self, key: Key) -> None:
        """End the worker of a session that is over; nobody is told of a lost state."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.is_over = True
            self._retire(entry, self._limits.grace_s, "over")
        self._lost.pop(key, None)

    def drop(self, key: Key) -> None:
        """End a worker whose state is out of date: who asks next gets a new one, and is told."""
        entry = self._entries.get(key)
        if entry is not None:
            self._retire(entry, EVICT_GRACE_S, "stale")

    def entries(self) -> Iterator[PoolEntry]:
        """Yield all that take room, those on their way out last."""
        yield from self._entries.values()
        yield from self._leaving

    def age(self, entry: PoolEntry) -> float:
        """Return the seconds since it started, 0 if it has not."""
        return self._clock() - entry.started if entry.worker is not None else 0.0

    @property
    def memory(self) -> int:
        """Bytes of all workers that were measured."""
        return sum(entry.memory for entry in self.entries() if entry.is_weighed)

    @property
    def queued(self) -> int:
        """Number of calls that wait for room."""
        return len(self._room)

    async def run(self) -> None:
        """Look after the workers until cancelled."""
        weighed = self._clock()
        while True:
            await asyncio.sleep(LOOK_S)
            if self._clock() - weighed >= WEIGH_S:
                await self.weigh()
                weighed = self._clock()
            await self.cull()

    async def close(self) -> None:
        """End every worker, and what they shared."""
        self._is_closed = True
        for entry in list(self._entries.values()):
            self._retire(entry, EVICT_GRACE_S, "closing")
        while self._leaving:
            await asyncio.wait(self._leaving.values())
        await self._kind.close()

    # Starting

    def _open(self, key: Key, record: SessionRecord) -> PoolEntry:
        entry = PoolEntry(key)
        self._entries[key] = entry
        entry.starting = asyncio.create_task(self._start(entry, record))
        entry.starting.add_done_callback(_take_failure)
        return entry

    async def _worker_of(self, entry: PoolEntry) -> Running | None:
        """Return the worker once it has started, None if it was given up. Raises GatewayFault."""
        if entry.worker is not None:
            return entry.worker
        task = entry.starting
        assert task is not None
        # Unlike waiting for the task itself this does not end it for the others when one leaves.
        await asyncio.wait([task])
        return None if task.cancelled() else task.result()

    async def _start(self, entry: PoolEntry, record: SessionRecord) -> Running:
        try:
            self._check(entry, record)
            self._room.ask(entry)
            self._evict()
            await self._room.wait(entry)
            worker = await self._try(entry, record)
        except BaseException:
            if self._is_current(entry):
                del self._entries[entry.key]
            self._room.leave(entry)
            raise
        entry.worker = worker
        entry.started = entry.idle_since = self._clock()
        if self._is_current(entry):
            entry.is_fresh = entry.key in self._lost
            self._lost.pop(entry.key, None)
        self._on_start(worker.pid)
        worker.died.add_done_callback(lambda _: self._died(entry, worker))
        self._report("worker_started", agent=entry.key.shown, pid=worker.pid)
        return worker

    async def _try(self, entry: PoolEntry, record: SessionRecord) -> Running:
        """Start a worker. Raises WorkerStartFailed after the last try."""
        for left in reversed(range(TRIES)):
            try:
                await self._kind.prepare()
                worker = await self._kind.start(entry.key, record, self._limits.start_s)
                self._breaker.went_well(_order(record))
                return worker
            except StartFailed as failed:
                self._breaker.failed(_order(record))
                self._report("worker_start_failed", agent=entry.key.shown, why=str(failed))
                wait = self._breaker.wait(_order(record))
                if wait or not left:
                    why = f"the worker did not start: {failed}"
                    raise WorkerStartFailed(why, retry_after=wait or RETRY_S) from None
        raise AssertionError("unreachable")

    def _check(self, entry: PoolEntry, record: SessionRecord) -> None:
        """Check for a pause. Raises WorkerStartFailed when starts failed too often lately."""
        names = {_order(record): "did not start", entry.key: "died soon after its start"}
        for name, what in names.items():
            if wait := self._breaker.wait(name):
                why = f"workers {what} several times in a row; the next try is in {wait:.0f} s"
                raise WorkerStartFailed(why, retry_after=wait)

    # Ending

    def _release(self, entry: PoolEntry) -> None:
        entry.leases -= 1
        if entry.leases:
            return
        entry.idle_since = self._clock()
        if not entry.has_place and self._is_current(entry):
            self._give_up(entry)  # it waits for room that nobody wants any more
        self._evict()

    def _died(self, entry: PoolEntry, worker: Running) -> None:
        self._on_end(worker.pid)
        if not self._is_current(entry):
            return  # it was asked to
        del self._entries[entry.key]
        self._lose(entry.key)
        if self._clock() - entry.started < SETTLED_S:
            self._breaker.failed(entry.key)
        else:
            self._breaker.went_well(entry.key)
        self._report("worker_died", agent=entry.key.shown, pid=worker.pid, said=worker.last_words)
        self._room.leave(entry)

    def _retire(self, entry: PoolEntry, grace: float, why: Why) -> None:
        """Take the worker from its key; who asks for one from now on gets a new one."""
        if not entry.has_place:
            self._give_up(entry)
            return
        del self._entries[entry.key]
        if entry.worker is not None:
            self._lose(entry.key)
        self._leaving[entry] = asyncio.create_task(self._leave(entry, grace, why))

    def _give_up(self, entry: PoolEntry) -> None:
        """Drop an entry that has not begun to start."""
        del self._entries[entry.key]
        assert entry.starting is not None
        entry.starting.cancel()

    async def _leave(self, entry: PoolEntry, grace: float, why: Why) -> None:
        try:
            with suppress(GatewayFault):
                worker = await self._worker_of(entry)
                if worker is not None:
                    await worker.stop(grace)
                    self._report("worker_ended", agent=entry.key.shown, pid=worker.pid, why=why)
        finally:
            del self._leaving[entry]
            self._room.leave(entry)
            self._evict()

    def _lose(self, key: Key) -> None:
        self._lost[key] = None
        if len(self._lost) > LOST_KEPT:
            self._lost.popitem(last=False)

    # Idle ones

    async def cull(self) -> None:
        """End workers that nobody needed for too long."""
        for entry in list(self._entries.values()):
            if self._is_due(entry) and entry.worker and await entry.worker.use():
                entry.idle_since = self._clock()
            elif self._is_due(entry):
                self._retire(entry, self._limits.grace_s, "idle")

    def _is_due(self, entry: PoolEntry) -> bool:
        idle = self._clock() - entry.idle_since
        return entry.is_idle and self._is_current(entry) and idle >= self._limits.idle_s

    def _is_current(self, entry: PoolEntry) -> bool:
        return self._entries.get(entry.key) is entry

    async def weigh(self) -> None:
        """Measure the memory; too much of it ends idle workers."""
        weighed = {entry.worker.pid: entry for entry in self.entries() if entry.worker}
        for pid, size in (await self._measure(weighed)).items():
            weighed[pid].memory = size
            weighed[pid].is_weighed = True
        self._room.give()
        self._evict()

    async def weigh_new(self) -> None:
        """Measure now if there are workers that were not measured yet."""
        if any(entry.worker and not entry.is_weighed for entry in self.entries()):
            await self.weigh()

    def _evict(self) -> None:
        """Have idle workers make room, if there is too little."""
        self._look_again = True
        if self._evicting is None and self._room.lacking(len(self._leaving)):
            self._evicting = asyncio.create_task(self._make_room())

    async def _make_room(self) -> None:
        try:
            while self._look_again:
                self._look_again = False
                # One that was called lately goes if none goes that was not.
                for most in (Use.NONE, Use.LATELY):
                    await self._end_unused(most)
        finally:
            self._evicting = None

    async def _end_unused(self, most: Use) -> None:
        """End workers that are of no more use than this, as far as room is needed."""
        for entry in list(self._entries.values()):
            if not self._room.lacking(len(self._leaving)):
                return
            unused = entry.worker and entry.is_idle and await entry.worker.use() <= most
            # Somebody may have come while it was asked.
            if unused and entry.is_idle and self._is_current(entry):
                self._retire(entry, EVICT_GRACE_S, "evicted")


def _take_failure(task: asyncio.Task[Running]) -> None:
    """Have asyncio know that a failure was seen: when everybody has left it is nobody's error."""
    if not task.cancelled():
        task.exception()


def _order(record: SessionRecord) -> tuple[str, str]:
    """Return what is started: it fails for everybody who wants the same."""
    return record.cwd, json.dumps(record.settings, sort_keys=True)

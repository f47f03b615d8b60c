"""A pool with workers that only exist on paper, and a clock that is set by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.ports import Upstream
from pilothouse.hub.workers import StartFailed, Use
from pilothouse.hub.workers.capacity import WorkerLimits
from pilothouse.hub.workers.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pilothouse.hub.mcp.template import Template

GUARD_S = 30.0


class PaperWorker:
    """Ends when it is told to; may hold something, or not heed the grace."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.address = Upstream("localhost", path=f"/{pid}")
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.last_words = "so long"
        self.is_used = Use.NONE
        self.stopped_with: list[float] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def use(self) -> Use:
        await asyncio.sleep(0)
        return self.is_used

    async def stop(self, grace: float) -> None:
        self.stopped_with.append(grace)
        await self.may_end.wait()
        self.die()

    def die(self) -> None:
        if not self.died.done():
            self.died.set_result(None)


class PaperKind:
    """Starts paper workers, or fails as often as it is told to."""

    def __init__(self) -> None:
        self.started: list[PaperWorker] = []
        self.tries = 0
        self.failures = 0
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.closed = False

    async def prepare(self) -> None: ...

    async def start(self, key: Key, record: SessionRecord, within: float) -> PaperWorker:
        self.tries += 1
        await self.may_start.wait()
        if self.failures:
            self.failures -= 1
            raise StartFailed("it said: no such option")
        worker = PaperWorker(1000 + len(self.started))
        self.started.append(worker)
        return worker

    async def template(self) -> Template:
        raise NotImplementedError

    def trouble(self) -> str:
        return ""

    async def close(self) -> None:
        self.closed = True

    @property
    def alive(self) -> list[PaperWorker]:
        return [worker for worker in self.started if not worker.died.done()]


class Rig:
    """A pool, its clock, and what it was told to weigh."""

    def __init__(self, limits: WorkerLimits | None = None) -> None:
        self.now = 1000.0
        self.kind = PaperKind()
        self.sizes: dict[int, int] = {}
        self.running: set[int] = set()
        self.pool = Pool(
            self.kind,
            limits or WorkerLimits(),
            lambda: self.now,
            self.measure,
            on_start=self.running.add,
            on_end=self.running.remove,
        )

    async def measure(self, pids: Iterable[int]) -> dict[int, int]:
        return {pid: self.sizes.get(pid, 1 << 20) for pid in pids}

    async def call(self, name: str = "a", settings: dict[str, str] | None = None) -> PaperWorker:
        """One call that ends at once."""
        async with await self.get(name, settings) as lease:
            assert isinstance(lease.worker, PaperWorker)
            return lease.worker

    async def get(self, name: str = "a", settings: dict[str, str] | None = None):  # type: ignore[no-untyped-def]
        async with asyncio.timeout(GUARD_S):
            return await self.pool.get(key(name), replace(record(name), settings=settings or {}))

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def key(name: str) -> Key:
    return Key("session", name)


def record(name: str) -> SessionRecord:
    return SessionRecord(name, key(name), "2025", 0.0, 0.0)

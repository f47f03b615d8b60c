"""Time limits that only a slow program breaks, not a machine that stood still for a moment.

What takes too long is tried again, and counts if it does so each time: a program that holds its
event loop or looks at too much does so at every try, a busy machine does not.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

TRIES = 3
BEAT_S = 0.005


@dataclass
class Try:
    """One of them. What is asserted beside its times must hold each time."""

    late: list[str] = field(default_factory=list)

    def took(self, seconds: float, within: float, about: object = "it") -> None:
        """Says how long something lasted, and how long it may."""
        if seconds > within:
            self.late.append(f"{about} took {seconds:.3f} s, not {within:g}")

    @contextmanager
    def within(self, seconds: float, about: object = "it") -> Iterator[None]:
        """What is done inside may last that long."""
        began = time.perf_counter()
        yield
        self.took(time.perf_counter() - began, seconds, about)


def tries() -> Iterator[Try]:
    """Until one of them was in time; fails when none of three was."""
    failed: list[str] = []
    for _ in range(TRIES):
        once = Try()
        yield once
        if not once.late:
            return
        failed += once.late
    raise AssertionError("\n".join(failed))


@asynccontextmanager
async def beating() -> AsyncIterator[list[float]]:
    """For how many seconds, meanwhile, this event loop stood still between two beats."""
    stalls: list[float] = []
    is_over = asyncio.Event()

    async def beat() -> None:
        while not stalls or not is_over.is_set():
            before = time.perf_counter()
            await asyncio.sleep(BEAT_S)
            stalls.append(time.perf_counter() - before - BEAT_S)

    task = asyncio.create_task(beat())
    try:
        yield stalls
    finally:
        is_over.set()
        await task

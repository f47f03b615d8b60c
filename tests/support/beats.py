"""Tells whether an event loop went on while something was done beside it."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BEAT_S = 0.005


@asynccontextmanager
async def beating() -> AsyncIterator[list[float]]:
    """Collect the moments at which this loop came round while the block was running."""
    beats: list[float] = []

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            beats.append(time.perf_counter())

    task = asyncio.create_task(beat())
    try:
        yield beats
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

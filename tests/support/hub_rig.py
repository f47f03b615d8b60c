"""A hub with real workers behind its listener, in the test's own process, so that its limits can be
set by hand."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pilothouse.hub.workers.capacity import WorkerLimits
from pilothouse.hub.workers.pool import Pool
from pilothouse.machine import processes
from tests.support.listener_rig import listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.workers import Kind
    from tests.support.listener_rig import Rig


@asynccontextmanager
async def hub(
    kind: Kind,
    limits: WorkerLimits | None = None,
    template: Template | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Rig[Pool]]:
    """Until the block ends, and then until its workers have ended too."""
    pool = Pool(kind, limits or WorkerLimits(), clock, processes.memory)
    running = asyncio.create_task(pool.run())
    try:
        async with listen(pool, template or await kind.template()) as rig:
            yield rig
    finally:
        running.cancel()
        await pool.close()

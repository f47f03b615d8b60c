"""When the state is swept: soon after the start of a hub or of a process without one, and daily."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from anyio import to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.core.settings import Settings
    from pilothouse.server.logs import Log
    from pilothouse.wiring.state_sweep import Report

START_S = 3.0
"""Seconds after the start, when those who waited for it have been served."""
AGAIN_S = 86_400.0


def _nobody(_: Report) -> None:
    pass


async def keep_swept(
    settings: Settings, log: Log, tell: Callable[[Report], None] = _nobody
) -> None:
    """Sweep soon and then daily, until cancelled. Trouble is logged and harms nothing."""
    await asyncio.sleep(START_S)
    over = threading.Event()
    try:
        await _sweep_daily(settings, log, tell, over)
    finally:
        over.set()  # the process ends no earlier than its threads


async def _sweep_daily(
    settings: Settings, log: Log, tell: Callable[[Report], None], over: threading.Event
) -> None:
    while True:
        try:
            # In a thread, imports included: no call waits for it.
            report = await to_thread.run_sync(_sweep, settings, over, abandon_on_cancel=True)
        except Exception as error:
            log.error("sweep_failed", error)
        else:
            tell(report)
            if report.removed:
                kinds = Counter(one.kept.kind for one in report.removed)
                log.info("swept", bytes=report.freed, kinds=dict(kinds))
            for failure in report.failed:
                log.warn("not_swept", what=failure)
        await asyncio.sleep(AGAIN_S)


def _sweep(settings: Settings, over: threading.Event) -> Report:
    from pilothouse.wiring.state_sweep import sweep

    return sweep(settings, os.environ, time.time, over.is_set)

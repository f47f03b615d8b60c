"""Pages that a script keeps busy: they answer nothing, and looking at them ends in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pilothouse.e2e.tab import Tab

GRACE_S = 2.0
"""Playwright's own limit comes first, because it says more."""
SILENT_S = 1.0
"""A page that does not answer the simplest question for so long is busy."""
REST_S = 0.4
"""For the answer that says so."""


class Busy(Exception):  # not an error of ours: the page's own script runs
    """The page answered nothing in the time that it had."""


async def unless_busy[T](tab: Tab, doing: Awaitable[T], limit_ms: int, tool: str) -> T:
    """Look at a page, for so long as it can answer at all.

    Raises:
        Busy: it does not; this is known before the limit.
        TimeoutError: it took longer, though the page answers.
    """
    limit = limit_ms / 1000
    silent = min(SILENT_S, limit / 2)
    rest = min(REST_S, limit / 4)
    task = asyncio.ensure_future(doing)
    try:
        if not (await asyncio.wait((task,), timeout=limit - silent - rest))[0]:
            answers = await tab.answers(silent)
            if not answers and not task.done():
                raise Busy
        if not (await asyncio.wait((task,), timeout=silent + rest + GRACE_S))[0]:
            raise TimeoutError(f"{tool} did not end within {limit_ms} ms")
        return task.result()
    finally:
        task.cancel()

"""Pages that a script keeps busy: they answer nothing, and looking at them ends in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pilothouse.e2e.tab import Tab

GRACE_S = 2.0
"""Seconds beyond the limit: Playwright's own comes first, because it says more."""
SILENT_S = 1.0
"""Seconds after which a page that has not answered the simplest question is busy."""
REST_S = 0.4
"""Seconds for the answer that says so."""


class Busy(Exception):  # not an error of ours: the page's own script runs
    """The page answered nothing in the time that it had."""


async def unless_busy[T](tab: Tab, doing: Awaitable[T], limit_ms: int, tool: str) -> T:
    """Look at a page, for so long as it can answer at all.

    Raises:
        Busy: it does not; this is known before the limit.
        TimeoutError: it took longer, though the page answers.
    """
    watch = _Watch(tab, limit_ms, tool)
    try:
        return await doing
    except asyncio.CancelledError:
        if watch.has_cancelled():
            raise watch.found from None
        raise
    finally:
        watch.stop()


class _Watch:
    """Ends a task that looks at a page which does not answer, or that takes too long.

    While there is no reason to, it costs a timer: a task of its own would cost each step turns of
    the event loop.
    """

    def __init__(self, tab: Tab, limit_ms: int, tool: str) -> None:
        self.found: Exception = TimeoutError(f"{tool} did not end within {limit_ms} ms")
        self._tab = tab
        limit = limit_ms / 1000
        self._silent = min(SILENT_S, limit / 2)
        self._rest = min(REST_S, limit / 4)
        self._asking: asyncio.Task[None] | None = None
        self._cancelled = False
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(limit - self._silent - self._rest, self._begin_asking)

    def stop(self) -> None:
        """Watch no more."""
        self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def has_cancelled(self) -> bool:
        """Tell whether it was this that cancelled the task, and nobody else did."""
        return self._cancelled and self._task.uncancel() <= self._cancelling

    def _begin_asking(self) -> None:
        self._asking = self._loop.create_task(self._ask())

    async def _ask(self) -> None:
        try:
            if await self._tab.answers(self._silent):
                rest = self._silent + self._rest + GRACE_S
                self._timer = self._loop.call_later(rest, self._cancel)
                return
            self.found = Busy()
        except Exception as error:
            self.found = error
        self._cancel()

    def _cancel(self) -> None:
        self._cancelled = True
        self._task.cancel()

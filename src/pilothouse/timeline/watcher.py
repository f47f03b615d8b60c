"""The watches of one agent, kept by the event loop.

While there is none, nothing is followed and no producer pays. While there is one, each new moment
starts a timer unless one runs; all that is new is judged when it ends, or before the next answer.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.timeline.clock import iso
from pilothouse.core.timeline.lanes import MomentKey, counted_by_several, one_line, shown
from pilothouse.timeline.conditions import Gone
from pilothouse.timeline.model import (
    WATCHES_URI,
    BrowserSessionNotFound,
    ElementVanished,
    TooManyWatches,
    WatchNotFound,
)
from pilothouse.timeline.watches import Hit, Judge, Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyio.abc import TaskGroup, TaskStatus

    from pilothouse.core.timeline.timeline import Moment
    from pilothouse.timeline.conditions import Condition
    from pilothouse.timeline.ports import Moments, Scope, Vanishing
    from pilothouse.timeline.watches import Show

MOST_WATCHES = 50
MOST_CHARACTERS = 200
"""Most characters that are shown of what a page or server wrote."""
SOON_S = 0.05
"""Seconds for which new moments are gathered before they are judged together."""
AT_ONCE = 1_000
"""Moments that are read at a time."""


@dataclass(slots=True, eq=False)
class _ActiveWatch:
    """A watch with what it takes to keep it."""

    watch: Watch
    judge: Judge
    scope: Scope | None
    looking: anyio.CancelScope | None = None
    """Cancel scope of the task that waits in a page."""


class Watchkeeper:
    """Implementation of the `Watches` port for one agent."""

    def __init__(
        self,
        moments: Moments,
        vanishing: Vanishing,
        changed: Callable[[str], None],
        tasks: TaskGroup,
    ) -> None:
        self._moments = moments
        self._vanishing = vanishing
        self._changed = changed
        self._tasks = tasks
        self._active: dict[str, _ActiveWatch] = {}
        self._number = 0
        self._cursor: dict[str, int] = {}
        self._stop: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._alarm: asyncio.TimerHandle | None = None

    # The port

    async def add(self, when: str, condition: Condition, session_id: str | None) -> Watch:
        if len(self._active) >= MOST_WATCHES:
            raise TooManyWatches(
                f"{MOST_WATCHES} watches stand already",
                hint="remove one: watch with action remove and its id",
            )
        scope = self._moments.scope(session_id)
        if scope is not None and scope.is_over:
            raise BrowserSessionNotFound(
                f"session {str(session_id)[:80]!r} has ended: nothing more happens in it",
                hint="leave sessionId out to watch all sessions, or call startSession first",
                sessionId=str(session_id)[:80],
            )
        self.judge()  # so that the new one does not fire for what is over by now
        self._number += 1
        watch = Watch(f"w{self._number}", when, condition, self._moments.clock(), session_id or "")
        active = _ActiveWatch(watch, Judge(condition), scope)
        if isinstance(condition, Gone):
            active.looking = await self._tasks.start(self._look, watch, condition.selector)
        self._active[watch.id] = active
        self._follow()
        self._tell(watch)
        return watch

    async def remove(self, watch_id: str) -> Watch:
        active = self._active.pop(watch_id, None)
        if active is None:
            known = ", ".join(self._active) or "none"
            raise WatchNotFound(
                f"there is no watch {watch_id[:40]!r}",
                hint=f"watch with action list shows them (now: {known})",
                id=watch_id[:40],
            )
        if active.looking is not None:
            active.looking.cancel()
        self._follow()
        self._tell(active.watch)
        return active.watch

    def reported(self, session_id: str | None = None) -> list[dict[str, Any]]:
        self.judge()
        watches = [active.watch for active in self._active.values()]
        show = self._shower()
        return [w.reported(show) for w in watches if session_id in (None, w.session_id)]

    def take_news(self) -> list[dict[str, Any]]:
        """Return what no answer has reported yet, each once."""
        self.judge()
        fired = [s.watch for s in self._active.values() if s.watch.news.count]
        if not fired:
            return []
        show = self._shower()
        return [news for watch in fired if (news := watch.take_news(show)) is not None]

    def _shower(self) -> Show:
        several, mask = counted_by_several(self._moments.timeline), self._moments.mask

        def show(hit: Hit) -> dict[str, Any]:
            text = one_line(mask(hit.text), MOST_CHARACTERS)
            return {"key": shown(hit.key, several), "at": iso(hit.at), "text": text}

        return show

    # Following

    @property
    def _reads(self) -> bool:
        """True while a watch is judged by the moments of the timeline."""
        return any(active.looking is None for active in self._active.values())

    def _follow(self) -> None:
        """Listen exactly as long as there is a watch to listen for."""
        timeline = self._moments.timeline
        if self._reads and self._stop is None:
            self._cursor = timeline.tail(0).cursor
            self._stop = timeline.wait(self._receive)
        elif not self._reads and self._stop is not None:
            self.close()

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
        for timer in (self._timer, self._alarm):
            if timer is not None:
                timer.cancel()
        self._stop = self._timer = self._alarm = None

    def _receive(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SOON_S, self.judge)

    def judge(self) -> None:
        """Judge everything that was kept since the last time."""
        if self._stop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Before anything is read: each ring calls once, and what it then gets is read below.
        self._stop()
        self._stop = self._moments.timeline.wait(self._receive)
        while moments := self._next():
            for moment in moments:
                self._judge(moment)
        now = self._moments.clock()
        for active in self._active.values():
            for hit in active.judge.overdue(now):
                self._fire(active.watch, hit)
        self._set_alarm(now)

    def _next(self) -> list[Moment]:
        reading = self._moments.timeline.read(self._cursor, AT_ONCE)
        self._cursor = reading.cursor
        return reading.moments

    def _judge(self, moment: Moment) -> None:
        for active in self._active.values():
            if active.scope is None or active.scope.has(moment):
                for hit in active.judge.judge(moment):
                    self._fire(active.watch, hit)
                if active.watch.ends_with(moment.event):
                    self._tell(active.watch)

    def _set_alarm(self, now: float) -> None:
        """Wake up when the next request will have waited for too long."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due = [at for s in self._active.values() if (at := s.judge.next_due()) is not None]
        if due:
            wait = max(0.0, (min(due) - now) / 1000) + SOON_S
            self._alarm = asyncio.get_running_loop().call_later(wait, self.judge)

    # Reporting

    def _fire(self, watch: Watch, hit: Hit) -> None:
        watch.fire(hit)
        self._tell(watch)

    def _tell(self, watch: Watch) -> None:
        self._changed(WATCHES_URI)
        if watch.session_id:
            self._changed(f"{WATCHES_URI}/{watch.session_id}")

    # Elements

    async def _look(
        self, watch: Watch, selector: str, *, task_status: TaskStatus[anyio.CancelScope]
    ) -> None:
        """Wait in the page for an element to go, until it or the watch ends."""
        with anyio.CancelScope() as scope:
            goings = await self._vanishing.gone(watch.session_id or None, selector)
            task_status.started(scope)
            async for url in goings:
                self._vanished(watch, selector, url)
            watch.ended = "its tab was closed"
            self._tell(watch)

    def _vanished(self, watch: Watch, selector: str, url: str) -> None:
        now = self._moments.clock()
        event = ElementVanished(at=now, selector=selector, url=url, session_id=watch.session_id)
        seq = self._moments.timeline.emit(event)
        self._fire(watch, Hit(MomentKey("browser", str(seq)), now, event))


@asynccontextmanager
async def open_watches(
    moments: Moments, vanishing: Vanishing, changed: Callable[[str], None]
) -> AsyncIterator[Watchkeeper]:
    """Hold the watches of an agent for the block."""
    async with anyio.create_task_group() as tasks:
        watchkeeper = Watchkeeper(moments, vanishing, changed, tasks)
        try:
            yield watchkeeper
        finally:
            watchkeeper.close()
            tasks.cancel_scope.cancel()

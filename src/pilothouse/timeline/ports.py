"""Ports of the timeline's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.core.timeline.timeline import Moment, Timeline
    from pilothouse.timeline.conditions import Condition
    from pilothouse.timeline.watches import Watch


class Scope(Protocol):
    """Part of a timeline that belongs to one browser session."""

    @property
    def is_over(self) -> bool:
        """True once the session has ended: nothing more will happen in it."""

    def has(self, moment: Moment) -> bool: ...


class Moments(Protocol):
    """Timeline of one agent's session, with its clock and its mask."""

    @property
    def timeline(self) -> Timeline: ...

    @property
    def clock(self) -> Clock: ...

    def mask(self, text: str) -> str:
        """Return a text as it may be shown."""

    def scope(self, session_id: str | None) -> Scope | None:
        """Return the scope of a session, None without an id; raises BrowserSessionNotFound."""


class Vanishing(Protocol):
    """Waiting, in the page of a browser session, for an element to go."""

    async def gone(self, session_id: str | None, selector: str) -> AsyncIterator[str]:
        """Return an iterator that has the page's address for each time that the element was there
        and is no more, until the tab closes; raises BrowserSessionNotFound, BadWatch."""


class Watches(Protocol):
    """The standing watches of one agent's session."""

    async def add(self, when: str, condition: Condition, session_id: str | None) -> Watch:
        """Add a watch; raises BrowserSessionNotFound, BadWatch, TooManyWatches."""

    async def remove(self, watch_id: str) -> Watch:
        """Remove a watch; raises WatchNotFound."""

    def reported(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """Return the watches as they stand, of all sessions or of one."""

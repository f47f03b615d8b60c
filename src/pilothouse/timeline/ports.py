"""What the timeline's tools ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.core.timeline.timeline import Moment, Timeline
    from pilothouse.timeline.conditions import Condition
    from pilothouse.timeline.watches import Watch


class Scope(Protocol):
    """What belongs to one browser session."""

    @property
    def is_over(self) -> bool:
        """Whether the session has ended: nothing more will happen in it."""

    def has(self, moment: Moment) -> bool: ...


class Moments(Protocol):
    """What happened in one agent's session."""

    @property
    def timeline(self) -> Timeline: ...

    @property
    def clock(self) -> Clock: ...

    def mask(self, text: str) -> str:
        """A text as it may be shown."""

    def scope(self, session_id: str | None) -> Scope | None:
        """None without an id; raises SessionNotFound."""


class Vanishing(Protocol):
    """Waits in the page of a browser session for an element to go."""

    async def gone(self, session_id: str | None, selector: str) -> AsyncIterator[str]:
        """The address of the page for each time that the element was to be seen and is no more,
        until the tab closes; raises SessionNotFound, BadWatch."""


class Watches(Protocol):
    """The standing watches of one agent's session."""

    async def add(self, when: str, condition: Condition, session_id: str | None) -> Watch:
        """Raises SessionNotFound, BadWatch, TooManyWatches."""

    async def remove(self, watch_id: str) -> Watch:
        """Raises WatchNotFound."""

    def reported(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """The watches as they stand, of all sessions or of one."""

"""Records and faults of the timeline group."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from pilothouse.core.declare.faults import Fault
from pilothouse.core.timeline.events import Event

if TYPE_CHECKING:
    from pilothouse.core.timeline.lanes import Lane, Level

WATCHES_URI = "pilothouse://watches"

type How = Literal["id", "time"]
"""`id`: both carry the same one, which is certain. `time`: a guess, and the link says why."""


@dataclass(slots=True, kw_only=True)
class TimelineItem:
    """One thing that happened: a moment, or the several moments of one exchange."""

    key: str
    lane: Lane
    at: float
    """Epoch milliseconds of its beginning."""
    ended: float
    """The same as `at` for what has no length; infinity for what goes on."""
    answered: float = math.inf
    """Epoch milliseconds at which an exchange's response began, or it failed."""
    text: str
    level: Level
    name: str
    """Name of its event, or of the first one."""
    keys: frozenset[str] = frozenset()
    """Keys that it may share with other items."""
    aliases: list[str] = field(default_factory=list)
    """Other public keys that mean it."""
    tab: str = ""
    """The beginning of its target's id."""
    session: str = ""
    """The browser session that it is known to belong to."""
    method: str = ""
    url: str = ""
    """Address of a request; a packet's is without the scheme."""
    type: str = ""
    """Kind of resource that the browser loads: Document, Fetch, XHR …"""
    ids: frozenset[str] = frozenset()
    """Values of headers by which servers name a request in their log."""
    line: str = ""
    """Line, or joined lines, that a server wrote."""
    failed: bool = False
    looks: bool = False
    """True for a step that can have caused nothing."""
    navigates: bool = False
    """True for a step that asks for a page."""

    @property
    def kind(self) -> str:
        """The first part of its key."""
        return self.key.partition(":")[0]


@dataclass(frozen=True, slots=True)
class ItemLink:
    """Link from an item to another that it led to."""

    cause: str
    effect: str
    how: How
    why: str

    @property
    def is_guess(self) -> bool:
        return self.how == "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementVanished(Event):
    """An element that is watched was in its page and is no more."""

    source: ClassVar[str] = "browser"

    selector: str
    url: str
    session_id: str = ""


class MomentNotFound(Fault):
    """Nothing of that key is kept: it never was, or it made room for newer events."""

    code = "moment_not_found"
    status = 404


class BrowserSessionNotFound(Fault):
    """No browser session of that id is or was open here."""

    code = "session_not_found"
    status = 404


class WatchNotFound(Fault):
    """There is no watch of that id."""

    code = "watch_not_found"
    status = 404


class BadWatch(Fault):
    """The condition cannot be read; `position` says where."""

    code = "bad_watch"
    status = 400


class TooManyWatches(Fault):
    """So many watches stand already that one more is not taken."""

    code = "too_many_watches"
    status = 409

"""Facts that cross a boundary: frozen, typed, in the past tense.

Each source (console, network, server log, steps, packets …) has its own ring, so that a flood in
one never pushes another out. `keys` are plain strings such as `request:41` or `step:7`; two
events of a session are related when they share a key. A key names one action or exchange, never
a container such as a page, or everything would be related to everything.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol

NO_KEYS: frozenset[str] = frozenset()


class Occurrence(Protocol):
    """An item of a timeline: an `Event`, or a group's own packed record."""

    @property
    def at(self) -> float:
        """Epoch milliseconds on the session's clock."""

    @property
    def keys(self) -> frozenset[str]: ...

    @property
    def name(self) -> str:
        """The name of what happened, in the past tense."""

    def facts(self) -> dict[str, Any]:
        """Return the facts about it by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in one session."""

    source: ClassVar[str] = ""
    """The ring that keeps it."""

    at: float
    """Epoch milliseconds on the session's clock, which never goes back."""
    keys: frozenset[str] = NO_KEYS

    @property
    def name(self) -> str:
        return type(self).__name__

    def facts(self) -> dict[str, Any]:
        return {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if entry.name not in ("at", "keys")
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted(Event):
    source: ClassVar[str] = "session"

    session_id: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerminated(Event):
    source: ClassVar[str] = "session"

    session_id: str
    reason: Literal["manual", "timeout", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvoked(Event):
    source: ClassVar[str] = "calls"

    tool: str
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvocationFailed(Event):
    source: ClassVar[str] = "calls"

    tool: str
    duration_ms: float
    code: str
    message: str

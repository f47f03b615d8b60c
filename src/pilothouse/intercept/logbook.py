"""The proxy's log of itself, with who changed what.

Kept in memory, bounded. Who changed what is also in a file, and there again after a restart.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.regex import BadPattern, compile_pattern
from pilothouse.core.timeline.clock import iso
from pilothouse.intercept.ports import LogPage

if TYPE_CHECKING:
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.intercept.ports import LogAsk
    from pilothouse.machine.audit_file import AuditFile

KEPT = 10_000
LONGEST = 4_000
"""Most characters of a message."""
LEVELS = {"debug": 10, "info": 20, "warn": 30, "error": 40}


@dataclass(frozen=True, slots=True)
class LogbookEntry:
    at: float
    level: str
    message: str
    thread: str
    component: str

    def shown(self) -> dict[str, Any]:
        """Return the entry as the spec shows it."""
        return {
            "timestamp": iso(self.at),
            "level": self.level,
            "message": self.message,
            "thread": self.thread,
            "class": self.component,
        }


class Logbook:
    """The newest entries, read newest first."""

    def __init__(self, clock: Clock, file: AuditFile | None = None) -> None:
        self._clock = clock
        self._file = file
        self._entries: deque[LogbookEntry] = deque(maxlen=KEPT)
        for at, message in file.read() if file else ():
            self._entries.append(LogbookEntry(at, "info", message, "main", "audit"))

    def write(
        self, level: str, message: str, component: str = "pilothouse", thread: str = "main"
    ) -> None:
        level = level if level in LEVELS else "info"
        entry = LogbookEntry(self._clock(), level, message[:LONGEST], thread, component)
        self._entries.append(entry)

    def audit(self, who: str, what: str) -> None:
        """Log a change with who made it, also in the file if there is one."""
        self.write("info", f"{what} (by {who})", component="audit")
        if self._file:
            self._file.add(self._entries[-1].at, self._entries[-1].message)

    def read(self, ask: LogAsk) -> LogPage:
        """Return a page of entries; raises InvalidInput for a bad level, time or pattern."""
        if ask.level not in LEVELS:
            raise InvalidInput(
                f"level: {ask.level!r} is none",
                hint=f"use one of {', '.join(LEVELS)}",
                field="level",
                expected=f"one of {', '.join(LEVELS)}",
                received=ask.level,
            )
        least = LEVELS[ask.level]
        since = moment(ask.since) if ask.since else 0.0
        fits = _pattern(ask.filter)
        found = [
            entry
            for entry in reversed(self._entries)
            if LEVELS[entry.level] >= least and entry.at >= since and fits(entry.message)
        ]
        shown = [entry.shown() for entry in found[: ask.limit]]
        return LogPage(logs=shown, total_count=len(found), has_more=len(found) > len(shown))


def moment(text: str) -> float:
    """Return the epoch milliseconds of an ISO 8601 time; without a zone it is UTC.

    Raises:
        InvalidInput: it is none.
    """
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"since: {text[:40]!r} is no time",
            hint="write it as 2025-01-15T00:00:00Z",
            field="since",
            expected="ISO 8601",
            received=text[:80],
        ) from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000


def _pattern(text: str) -> Any:
    if not text:
        return lambda _: True
    try:
        pattern = compile_pattern(text, ignore_case=True)
    except BadPattern as error:
        raise InvalidInput(
            f"filter: {error}", hint="use RE2 syntax", field="filter", received=text[:80]
        ) from None
    return lambda message: pattern.search(message) is not None

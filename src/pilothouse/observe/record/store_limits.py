"""A store's caps: the oldest events go, some at a time, and it is known which are gone."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

EVENTS_AT_ONCE = 500
LOOK_S = 5.0
"""Seconds between looks whether there is too much, or something too old."""
TABLE = """
CREATE TABLE IF NOT EXISTS trimmed (
    owner TEXT NOT NULL, target TEXT NOT NULL, first INTEGER NOT NULL, next INTEGER NOT NULL,
    PRIMARY KEY (owner, target)
) WITHOUT ROWID;
"""
"""Events of a target that have made room: from `first` up to, and without, `next`."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits of a store; 0 is no limit."""

    age_s: float
    max_bytes: int


def _wall_ms() -> float:
    return time.time() * 1000


class StoreRoom:
    """The part of a store that makes room, in the thread that writes."""

    def __init__(
        self, connection: sqlite3.Connection, caps: Caps, clock: Callable[[], float] = _wall_ms
    ) -> None:
        self._connection = connection
        self._caps = caps
        self._clock = clock
        self._look_at = 0.0

    def step(self) -> bool:
        """Delete some of the oldest events; False if there is nothing to do, or it is not time.

        Raises:
            sqlite3.Error: nothing was deleted by this step.
        """
        if time.monotonic() < self._look_at:
            return False
        oldest = min(self._targets(), default=None)
        if oldest is None or not self._trim(*oldest):
            self._look_at = time.monotonic() + LOOK_S
            return False
        return True

    def _targets(self) -> Iterator[tuple[float, str, str]]:
        """Yield each target with the time of its first event, without going through all events."""
        owner = target = ""
        while found := self._connection.execute(
            "SELECT owner, target, at FROM events WHERE (owner, target) > (?, ?)"
            " ORDER BY owner, target, seq LIMIT 1",
            (owner, target),
        ).fetchone():
            owner, target, at = found
            yield at, owner, target

    def _trim(self, _: float, owner: str, target: str) -> bool:
        """Delete the first events of a target, as far as they are too old or too much."""
        rows = self._connection.execute(
            "SELECT seq, at, request_id FROM events WHERE owner = ? AND target = ?"
            " ORDER BY seq LIMIT ?",
            (owner, target, EVENTS_AT_ONCE),
        ).fetchall()
        if not (self._caps.max_bytes and self._used() > self._caps.max_bytes):
            since = self._clock() - self._caps.age_s * 1000 if self._caps.age_s else 0.0
            rows = list(takewhile(lambda row: row[1] < since, rows))
        if not rows:
            return False
        first, following = rows[0][0], rows[-1][0] + 1
        whose = (owner, target)
        with self._connection:
            self._connection.execute(
                "DELETE FROM events WHERE owner = ? AND target = ? AND seq < ?",
                (*whose, following),
            )
            self._connection.executemany(
                "DELETE FROM bodies WHERE owner = ?1 AND target = ?2 AND request_id = ?3 AND NOT"
                " EXISTS (SELECT 1 FROM events WHERE owner = ?1 AND target = ?2"
                " AND request_id = ?3 AND request_id != '')",
                {(*whose, row[2]) for row in rows if row[2]},
            )
            self._connection.execute(
                "INSERT INTO trimmed VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET next = excluded.next",
                (*whose, first, following),
            )
            # Numbers go on after them, also when nothing else is left of the target.
            self._connection.execute(
                "INSERT INTO marks VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET next_seq = max(next_seq, excluded.next_seq)",
                (*whose, following),
            )
        return True

    def _used(self) -> int:
        pragmas = ("page_count", "freelist_count", "page_size")
        pages, free, size = (
            int(self._connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in pragmas
        )
        return (pages - free) * size


def trim_store(
    path: Path, caps: Caps, clock: Callable[[], float], is_over: Callable[[], bool]
) -> None:
    """Make all the room that the caps ask for, or until it is over; others may have it open.

    Raises:
        sqlite3.Error: it is no store, or somebody writes it for long.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        connection.execute("SELECT 1 FROM events LIMIT 1")  # another file stays as it is
        connection.executescript(TABLE)
        room = StoreRoom(connection, caps, clock)
        while not is_over() and room.step():
            pass


def trimmed(connection: sqlite3.Connection, owner: str, target: str, start: int, stop: int) -> int:
    """Return how many events of `[start, stop)` have made room."""
    found = connection.execute(
        "SELECT first, next FROM trimmed WHERE owner = ? AND target = ?", (owner, target)
    ).fetchone()
    return max(0, min(stop, found[1]) - max(start, found[0])) if found else 0

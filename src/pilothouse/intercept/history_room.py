"""The history's size cap: the oldest exchanges go, a few milliseconds of work at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pilothouse.intercept.history_file import fact, set_fact, transaction

if TYPE_CHECKING:
    import sqlite3

KEPT = 0.95
"""What is left of the cap's bytes after room was made."""
STEP_S = 0.010
MOST_AT_ONCE = 2048
PAGES_AT_ONCE = 64

# Both packets of an exchange or none: one whose other packet is younger waits for it.
_OLD = "FROM packets WHERE id <= ?1 AND coalesce(peer_id, 0) <= ?1"


class Room:
    """Evicts when the file holds more than `max_bytes`."""

    def __init__(self, connection: sqlite3.Connection, max_bytes: int) -> None:
        self._connection = connection
        self._max_bytes = max_bytes
        self._page_size = self._pragma("page_size")
        self._at_once = 64
        self._is_evicting = False
        self._is_shrinking = False

    def _pragma(self, name: str) -> int:
        (found,) = self._connection.execute(f"PRAGMA {name}").fetchone()
        return int(found)

    def step(self) -> bool:
        """Make some room; False if there is enough.

        Raises:
            sqlite3.Error: nothing was evicted by this step.
        """
        free = self._pragma("freelist_count")
        pages = self._pragma("page_count")
        used = (pages - free) * self._page_size
        limit = self._max_bytes * (KEPT if self._is_evicting else 1.0)
        self._is_evicting = used > limit and self._evict()
        if self._is_evicting:
            return True
        was_shrinking = self._is_shrinking
        self._is_shrinking = free > 0 and pages * self._page_size > self._max_bytes
        if self._is_shrinking:
            # Each page is a row of the answer: those that are not fetched are not given back.
            self._connection.execute(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})").fetchall()
        elif was_shrinking:
            # The file itself is cut when the log is carried over into it.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return self._is_shrinking

    def _evict(self) -> bool:
        """Delete the oldest; False if there is nothing left."""
        begun = time.monotonic()
        with transaction(self._connection):
            before = fact(self._connection, "evicted_to")
            to = self._reach(before)
            if to <= before:
                return False
            self._connection.execute(f"DELETE FROM contents WHERE id IN (SELECT id {_OLD})", (to,))
            deleted = self._connection.execute(f"DELETE {_OLD}", (to,)).rowcount
            set_fact(self._connection, "rows", fact(self._connection, "rows") - deleted)
            set_fact(self._connection, "evicted_to", to)
        took = time.monotonic() - begun
        if took > STEP_S:
            self._at_once = max(1, self._at_once // 2)
        elif took < STEP_S / 3:
            self._at_once = min(MOST_AT_ONCE, self._at_once * 2)
        return True

    def _reach(self, before: int) -> int:
        """The last id of the next step; that of the last packet if there are not so many."""
        found = self._connection.execute(
            "SELECT id FROM packets ORDER BY id LIMIT 1 OFFSET ?", (self._at_once - 1,)
        ).fetchone()
        (last,) = self._connection.execute("SELECT coalesce(max(id), 0) FROM packets").fetchone()
        return min(max(found[0], before + 1), last) if found else int(last)

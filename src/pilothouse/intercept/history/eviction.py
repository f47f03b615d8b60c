"""The history's caps: the oldest exchanges go, a few milliseconds of work at a time."""

from __future__ import annotations

import time
from itertools import takewhile
from typing import TYPE_CHECKING

from pilothouse.intercept.history.file import facts, set_facts, transaction
from pilothouse.intercept.history.pacing import Pace

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from pilothouse.core.timeline.clock import Clock

KEPT = 0.95
"""Part of the cap's bytes that is left after room was made."""
STEP_S = 0.010
MOST_AT_ONCE = 2048
PAGES_AT_ONCE = 64
LOOK_S = 60.0
"""Seconds between two looks at the age of the oldest packet."""

# Both packets of an exchange or none: one whose other packet is younger waits for it.
_OLD = "FROM packets WHERE id <= ?1 AND coalesce(peer_id, 0) <= ?1"


class Evictor:
    """Evictor for a file of more than `max_bytes`, and of packets older than `max_age_s`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        max_bytes: int,
        max_age_s: float = 0.0,
        clock: Clock = lambda: time.time() * 1000,
    ) -> None:
        """Take the caps; without an age, packets may be as old as they like."""
        self._connection = connection
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._look_at = 0.0
        self._page_size = self._pragma("page_size")
        self._pace = Pace(STEP_S, least=1, most=MOST_AT_ONCE)
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
        self._is_evicting = used > limit and self._evict(self._reach)
        if self._is_evicting or self._evict_old():
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

    def _evict_old(self) -> bool:
        """Delete some that are too old; False if there are none, or it is not time to look."""
        if not self._max_age_s or time.monotonic() < self._look_at:
            return False
        found = self._evict(self._reach_old)
        if not found:
            self._look_at = time.monotonic() + LOOK_S
        return found

    def _evict(self, reach: Callable[[int, int], int]) -> bool:
        """Delete the oldest; False if there is nothing left to."""
        with self._pace.step() as packets, transaction(self._connection):
            known = facts(self._connection)
            before = known["evicted_to"]
            to = reach(before, packets)
            if to <= before:
                return False
            for table in ("contents", "chunks"):
                sql = f"DELETE FROM {table} WHERE id IN (SELECT id {_OLD})"
                self._connection.execute(sql, (to,))
            deleted = self._connection.execute(f"DELETE {_OLD}", (to,)).rowcount
            left = {"rows": known["rows"] - deleted, "evicted_to": to}
            set_facts(self._connection, left)
        return True

    def _reach(self, before: int, packets: int) -> int:
        """Return the last id of the next step; that of the last packet if there are not so many."""
        found = self._connection.execute(
            "SELECT id FROM packets ORDER BY id LIMIT 1 OFFSET ?", (packets - 1,)
        ).fetchone()
        (last,) = self._connection.execute("SELECT coalesce(max(id), 0) FROM packets").fetchone()
        return min(max(found[0], before + 1), last) if found else int(last)

    def _reach_old(self, before: int, packets: int) -> int:
        """Return the last id of the next step that is too old; where it begins if there is none."""
        since = self._clock() - self._max_age_s * 1000
        rows = self._connection.execute(
            "SELECT id, time FROM packets WHERE id > ? ORDER BY id LIMIT ?", (before, packets)
        )
        old = [row[0] for row in takewhile(lambda row: row[1] < since, rows.fetchall())]
        return int(old[-1]) if old else before

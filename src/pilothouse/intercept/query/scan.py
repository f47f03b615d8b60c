"""Scans of the history that judge packets in order, a stretch of ids at a time."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from pilothouse.intercept.query.text_index import TextIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilothouse.intercept.filter.sql import Lookup, Lookups, QueryPlan
    from pilothouse.intercept.query.connection import FileState, ReadConnection

FIRST = 1_024
WIDEST = 16_384
"""Rows that are looked at between two looks at the clock."""
FIRST_HITS = 512
WIDEST_NARROWED = 65_536
"""Rows left by the index of a column that are looked through without a look at the clock."""
COUNTED = 32_768
FEW = 200
NULLABLE = frozenset({"method", "status"})

type Found = tuple[int, Any]
"""A packet's id and its value in the column that orders the page."""
type Piece = tuple[int, int, set[int] | None]
"""Ids from and to, and those among them that may match; None where nothing is known of them."""


def stretches(low: int, high: int, *, descending: bool) -> Iterator[Piece]:
    """Yield the ids from `low` to `high` in growing pieces, of which nothing is known."""
    width = FIRST
    while low <= high:
        if descending:
            start = max(low, high - width + 1)
            yield start, high, None
            high = start - 1
        else:
            end = min(high, low + width - 1)
            yield low, end, None
            low = end + 1
        width = min(width * 2, WIDEST)


class Walk:
    """One filter carried out over one snapshot, until the deadline says that time is over."""

    def __init__(
        self, reading: ReadConnection, snapshot: FileState, plan: QueryPlan, session: str | None
    ) -> None:
        self._db = reading.db
        self._watch = reading.watch
        self._snapshot = snapshot
        self._plan = plan
        self._index = TextIndex(snapshot, reading.watch)
        self._whose = "" if session is None else " AND p.session IN (?, '')"
        self._who: tuple[str, ...] = () if session is None else (session,)
        self.complete = False
        """True once everything was judged that was to be."""
        self.reached = 0
        """Last id that was judged if not all were, in the order of the scan."""

    def by_id(
        self, low: int, high: int, *, descending: bool, column: str = "id"
    ) -> Iterator[Found]:
        """Yield what matches from `low` to `high`."""
        low, high = max(low, self._snapshot.oldest), min(high, self._snapshot.newest)
        for first, last, candidates in self._pieces(low, high, descending):
            if candidates is None:
                yield from self._scanned(first, last, descending, column)
            else:
                yield from self._verified(sorted(candidates, reverse=descending), column)
            if self._watch.stopped:
                further = min if descending else max
                self.reached = further(self.reached or self._watch.judged, self._watch.judged)
                return
            self.reached = first if descending else last
            if self._watch.over and self.reached != (low if descending else high):
                return
        self.complete = True

    def by_index(
        self, index: str, column: str, after: Found | None, *, descending: bool
    ) -> Iterator[Found]:
        """Yield what matches behind `after`, in an index's order; those without a value last."""
        sign, direction = ("<", "DESC") if descending else (">", "ASC")
        bands: list[tuple[str, tuple[Any, ...]]] = []
        if after is None:
            bands = [(f"p.{column} IS NOT NULL", ()), (f"p.{column} IS NULL", ())]
        elif after[1] is None:
            bands = [(f"p.{column} IS NULL AND p.id {sign} ?", (after[0],))]
        else:
            behind = f"(p.{column}, p.id) {sign} (?, ?)"
            bands = [(behind, (after[1], after[0])), (f"p.{column} IS NULL", ())]
        for band, place in bands[: 2 if column in NULLABLE else 1]:
            sql = (
                f"SELECT keep(p.id, p.{column}), p.{column} FROM packets p INDEXED BY {index}"
                f" WHERE {band} AND visit(p.id){self._whose} AND {self._plan.sql}"
                f" ORDER BY p.{column} {direction}, p.id {direction}"
            )
            yield from self._run(sql, (*place, *self._who, *self._plan.values))
            if self._watch.stopped:
                self.reached = self._watch.judged
                return
        self.complete = True

    def count(self) -> tuple[int, bool]:
        """Return how many rows match, and whether all were counted before time was over."""
        if self._plan.coarse is not None or self._plan.lookup is not None:
            found = self.by_id(0, self._snapshot.newest, descending=True)
            return sum(1 for _ in found), self.complete
        total, low, high = 0, self._snapshot.oldest, self._snapshot.newest
        while high >= low:
            start = max(low, high - COUNTED + 1)
            sql, values = self._within("count(*)", start, high, self._plan.sql, self._plan.values)
            (more,) = self._db.execute(sql, values).fetchone()
            total, high = total + more, start - 1
            if self._watch.over and high >= low:
                return total, False
        return total, True

    def _pieces(self, low: int, high: int, descending: bool) -> Iterator[Piece]:
        """Yield all ids in order: those that the index has got to with what it says of them."""
        if self._plan.lookup is None:
            yield from stretches(low, high, descending=descending)
            return
        border = self._snapshot.indexed_to
        tail = stretches(max(low, border + 1), high, descending=descending)
        looked_up = self._looked_up(self._plan.lookup, low, min(high, border), descending)
        for pieces in (tail, looked_up) if descending else (looked_up, tail):
            yield from pieces

    def _looked_up(
        self, lookup: Lookup | Lookups, low: int, high: int, descending: bool
    ) -> Iterator[Piece]:
        most = FIRST_HITS
        while low <= high:
            first, last, found = self._narrowed(low, high, descending)
            if found is None:
                found, edge = self._index.candidates(
                    lookup, low, high, descending=descending, most=most
                )
                first, last = (edge, high) if descending else (low, edge)
            yield first, last, found
            low, high = (low, first - 1) if descending else (last + 1, high)
            most = min(most * 2, WIDEST)

    def _narrowed(self, low: int, high: int, descending: bool) -> Piece:
        """Return what columns' indexes leave, if it is so little that no text need be looked up."""
        if not self._plan.equalities:
            return low, high, None
        if descending:
            low = max(low, high - WIDEST_NARROWED + 1)
        else:
            high = min(high, low + WIDEST_NARROWED - 1)
        sql, values = self._within("p.id", low, high, *self._coarse)
        found = {id for (id,) in self._db.execute(f"{sql} LIMIT {FEW + 1}", values)}
        return low, high, found if len(found) <= FEW else None

    @property
    def _coarse(self) -> tuple[str, tuple[str | int, ...]]:
        """The filter as far as SQL alone can judge it."""
        if self._plan.coarse is None:
            return self._plan.sql, self._plan.values
        return self._plan.coarse, self._plan.coarse_values

    def _scanned(self, low: int, high: int, descending: bool, column: str) -> Iterator[Found]:
        order = f" ORDER BY p.id {'DESC' if descending else 'ASC'}"
        if self._plan.coarse is None:
            sql, values = self._within(f"p.id, p.{column}", low, high, *self._coarse)
            yield from self._run(sql + order, values)
            return
        sql, values = self._within("p.id", low, high, *self._coarse)
        candidates = [id for (id,) in self._db.execute(sql + order, values)]
        yield from self._verified(candidates, column)

    def _within(
        self, what: str, low: int, high: int, condition: str, values: tuple[str | int, ...]
    ) -> tuple[str, tuple[str | int, ...]]:
        sql = (
            f"SELECT {what} FROM packets p WHERE p.id BETWEEN ? AND ?{self._whose} AND {condition}"
        )
        return sql, (low, high, *self._who, *values)

    def _verified(self, candidates: list[int], column: str) -> Iterator[Found]:
        """Yield those that match, in the order given: a cross join keeps that of its left side."""
        sql = (
            f"SELECT keep(p.id, p.{column}), p.{column}"
            " FROM json_each(?) hit CROSS JOIN packets p NOT INDEXED"
            f" WHERE p.id = hit.value AND visit(p.id){self._whose} AND {self._plan.sql}"
        )
        yield from self._run(sql, (json.dumps(candidates), *self._who, *self._plan.values))

    def _run(self, sql: str, values: tuple[Any, ...]) -> Iterator[Found]:
        given: Found | None = None
        self._watch.matched = None
        try:
            for given in self._db.execute(sql, values):
                yield given
        except sqlite3.OperationalError:
            if not self._watch.stopped:
                raise
            if self._watch.matched != given and self._watch.matched is not None:
                yield self._watch.matched

"""Which packets the text index names for a filter. It may name too many, never too few."""

from __future__ import annotations

import json
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pilothouse.intercept.filter_sql import FAR, FAR_APART, FAR_INDEX, Lookup, Lookups
from pilothouse.intercept.schema import SEGMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pilothouse.intercept.reading import Snapshot


class TextIndex:
    """Asked for one range of ids after the other."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._db = snapshot.db
        self._names = snapshot.names
        self._oldest = snapshot.oldest
        self._last = snapshot.indexed_to

    def candidates(self, lookup: Lookup | Lookups, low: int, high: int) -> set[int]:
        """Ids from `low` to `high`, both within the index, that may match."""
        if isinstance(lookup, Lookups):
            sets = [self.candidates(part, low, high) for part in lookup.parts]
            return reduce(set.intersection if lookup.every else set.union, sets)
        if lookup.table == "url":
            return set(self._hits(lookup, low, high))
        return self._exchanges(lookup, low, high)

    def _exchanges(self, lookup: Lookup, low: int, high: int) -> set[int]:
        """A hit in one packet is one for the other, which may lie outside the range."""
        hits = self._hits(lookup, max(low - FAR, self._oldest), min(high + FAR, self._last))
        found = {id for id in hits if low <= id <= high}
        found.update(self._peers(hits, low, high))
        found.update(self._far_ones(low, high))
        found.update(id for id in self._of_the_tail if low <= id <= high)
        return found

    def _hits(self, lookup: Lookup, low: int, high: int) -> list[int]:
        found: list[int] = []
        for segment in range(low // SEGMENT, high // SEGMENT + 1):
            name = f"{lookup.table}_{segment}"
            first = max(low, segment * SEGMENT)
            last = min(high, segment * SEGMENT + SEGMENT - 1)
            if name in self._names:
                sql = f"SELECT rowid FROM {name} WHERE {name} MATCH ? AND rowid BETWEEN ? AND ?"
                found.extend(id for (id,) in self._db.execute(sql, (lookup.query, first, last)))
            elif lookup.table == "text":
                found.extend(range(first, last + 1))
        return found

    def _peers(self, ids: Iterable[int], low: int, high: int) -> Iterator[int]:
        sql = (
            "SELECT p.peer_id FROM json_each(?) hit CROSS JOIN packets p NOT INDEXED"
            " WHERE p.id = hit.value AND p.peer_id BETWEEN ? AND ?"
        )
        return (id for (id,) in self._db.execute(sql, (json.dumps(list(ids)), low, high)))

    def _far_ones(self, low: int, high: int) -> Iterator[int]:
        """Their other packet may be in a part of the index that is not asked."""
        index = f"INDEXED BY {FAR_INDEX}" if FAR_INDEX in self._names else ""
        sql = f"SELECT id FROM packets {index} WHERE id BETWEEN ? AND ? AND {FAR_APART}"
        return (id for (id,) in self._db.execute(sql, (low, high)))

    @cached_property
    def _of_the_tail(self) -> list[int]:
        """Packets whose other one the index has not got to."""
        sql = "SELECT peer_id FROM packets WHERE id > ? AND peer_id <= ?"
        return [id for (id,) in self._db.execute(sql, (self._last, self._last))]

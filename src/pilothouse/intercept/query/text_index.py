"""Packets that the text index names for a filter. It may name too many, never too few."""

from __future__ import annotations

import json
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from pilothouse.intercept.filter.sql import FAR, FAR_APART, FAR_INDEX, Lookup, Lookups
from pilothouse.intercept.history.segments import segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pilothouse.intercept.query.connection import Deadline, FileState


class TextIndex:
    """The text index, asked for one stretch of ids after the other, in either direction.

    How far an answer goes depends on what is found: a word that hardly ever occurs is looked up
    once in each segment, one that is everywhere costs no more than the page needs.
    """

    def __init__(self, snapshot: FileState, watch: Deadline) -> None:
        self._db = snapshot.db
        self._names = snapshot.names
        self._oldest = snapshot.oldest
        self._last = snapshot.indexed_to
        self._segments = segments(snapshot.names)
        self._watch = watch

    def candidates(
        self, lookup: Lookup | Lookups, low: int, high: int, *, descending: bool, most: int
    ) -> tuple[set[int], int]:
        """Return ids that may match, and how far from the stretch's start all of them are there.

        Both ends lie within the index. From about `most` hits on it goes no further.
        """
        if isinstance(lookup, Lookups):
            return self._joined(lookup, low, high, descending, most)
        hits, edge = self._hits(lookup, low, high, descending, most)
        if lookup.table == "url":
            return set(hits), edge
        low, high = (edge, high) if descending else (low, edge)
        far, edge = self._far_ones(low, high, descending, most)
        low, high = (edge, high) if descending else (low, edge)
        found = {*hits, *far, *self._peers(hits), *self._halved(low, high), *self._of_the_tail}
        return {id for id in found if low <= id <= high}, edge

    def _joined(
        self, lookup: Lookups, low: int, high: int, descending: bool, most: int
    ) -> tuple[set[int], int]:
        answers = [
            self.candidates(part, low, high, descending=descending, most=most)
            for part in lookup.parts
        ]
        if lookup.every:
            # A rare part that was found to the end says enough: a common one would go step by step.
            end = low if descending else high
            answers = [answer for answer in answers if answer[1] == end] or answers
        edge = (max if descending else min)(edge for _, edge in answers)
        low, high = (edge, high) if descending else (low, edge)
        found = reduce(
            set.intersection if lookup.every else set.union, (found for found, _ in answers)
        )
        return {id for id in found if low <= id <= high}, edge

    def _hits(
        self, lookup: Lookup, low: int, high: int, descending: bool, most: int
    ) -> tuple[list[int], int]:
        found: list[int] = []
        direction = "DESC" if descending else "ASC"
        for segment, first, last in self._parts(low, high, descending):
            name = f"{lookup.table}_{segment}"
            sql = (
                f"SELECT rowid FROM {name} WHERE {name} MATCH ? AND rowid BETWEEN ? AND ?"
                f" ORDER BY rowid {direction} LIMIT ?"
            )
            values = (lookup.query, first, last, most - len(found))
            found.extend(id for (id,) in self._db.execute(sql, values))
            if len(found) >= most:
                return found, found[-1]
            if self._watch.over:
                return found, first if descending else last
        return found, low if descending else high

    def _parts(self, low: int, high: int, descending: bool) -> list[tuple[int, int, int]]:
        """Return the segments of a stretch, each with the ids in it that belong to the stretch."""
        ends = [*(first - 1 for first in self._segments[1:]), self._last]
        parts = [
            (segment, max(low, segment), min(high, end))
            for segment, end in zip(self._segments, ends, strict=False)
            if segment <= high and end >= low
        ]
        return parts[::-1] if descending else parts

    # A hit in one packet of an exchange is one for the other, which may lie outside the stretch.

    def _peers(self, ids: Iterable[int]) -> Iterator[int]:
        sql = (
            "SELECT p.peer_id FROM json_each(?) hit CROSS JOIN packets p NOT INDEXED"
            " WHERE p.id = hit.value AND p.peer_id IS NOT NULL"
        )
        return (id for (id,) in self._db.execute(sql, (json.dumps(list(ids)),)))

    def _halved(self, low: int, high: int) -> Iterator[int]:
        """Yield those near an end of the stretch whose other packet lies beyond it."""
        if low > self._oldest:
            sql = "SELECT id FROM packets WHERE id BETWEEN ? AND ? AND peer_id < ?"
            yield from (id for (id,) in self._db.execute(sql, (low, low + FAR, low)))
        if high < self._last:
            sql = "SELECT id FROM packets WHERE id BETWEEN ? AND ? AND peer_id > ?"
            yield from (id for (id,) in self._db.execute(sql, (high - FAR, high, high)))

    def _far_ones(self, low: int, high: int, descending: bool, most: int) -> tuple[list[int], int]:
        """Return packets whose other one is further than `FAR` away, and up to which id."""
        index = f"INDEXED BY {FAR_INDEX}" if FAR_INDEX in self._names else ""
        sql = (
            f"SELECT id FROM packets {index} WHERE id BETWEEN ? AND ? AND {FAR_APART}"
            f" ORDER BY id {'DESC' if descending else 'ASC'} LIMIT ?"
        )
        found = [id for (id,) in self._db.execute(sql, (low, high, most))]
        if len(found) == most:
            return found, found[-1]
        return found, low if descending else high

    @cached_property
    def _of_the_tail(self) -> list[int]:
        """Packets whose other one the index has not got to."""
        sql = "SELECT peer_id FROM packets WHERE id > ? AND peer_id <= ?"
        return [id for (id,) in self._db.execute(sql, (self._last, self._last))]

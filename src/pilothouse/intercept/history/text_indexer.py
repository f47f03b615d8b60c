"""Trigrams of urls and texts, so that a search for three or more characters needs no scan.

The FTS5 tables of a segment (segments.py) have the packet's id as rowid and keep no text. Facts
of the file say how far the index has got: `indexed_to` is the packet up to which everything is
indexed, `segment_began` the segment that is being filled, `segment_size` how much it holds.
"""

from __future__ import annotations

import json
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pilothouse.intercept.history.file import facts, set_facts, transaction
from pilothouse.intercept.history.pacing import Pace
from pilothouse.intercept.history.segments import segments, tables
from pilothouse.intercept.present.decode import text_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

STEP_S = 0.008
MOST_CHARS = 80_000
LEAST_CHARS = 20_000
"""Characters that are indexed in one transaction: fewer where the machine is busy otherwise."""
STEP_ROWS = 128
MOST_UNMERGED = 16
"""Steps after which their blocks are merged in spite of traffic: a search reads them all."""
MOST_PAGES = 24
LEAST_PAGES = 8
"""Pages of an index that are merged in one transaction."""
OVERLAP = 2
"""Characters that two parts of a long text share, so that no trigram falls between them."""
HEAVIEST = 16_384
"""Characters for which a long text counts at most: it says the same trigrams again and again."""
GONE_BLOCKS = 256
"""Blocks of a table that is dropped, deleted at a time."""

_NEXT = (
    "SELECT id, url, head, body FROM packets JOIN contents USING (id)"
    " WHERE id > ? ORDER BY id LIMIT ?"
)
# One statement, whatever their number: after each the thread waits for its turn.
_INSERT = "INSERT INTO {0} (rowid, text) SELECT value ->> 0, value ->> 1 FROM json_each(?)"
_TABLES = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"


class IndexedText(NamedTuple):
    """Piece of what a packet has to be found by."""

    id: int
    url: str
    text: str
    is_first: bool
    is_last: bool


class IndexProgress(NamedTuple):
    """Facts of the file that are the index's own."""

    indexed_to: int
    segment_began: int
    segment_size: int


class Indexer:
    """Indexer that keeps up with the packets, a few milliseconds of work at a time."""

    def __init__(self, connection: sqlite3.Connection, segment_size: int) -> None:
        """Take the characters of text, about, after which a segment gets no more packets."""
        self._connection = connection
        self._segment_size = segment_size
        self._parts: deque[IndexedText] = deque()
        """Texts that were read, but not indexed yet."""
        self._progress = self._read_progress()
        self._inserting = Pace(STEP_S, least=LEAST_CHARS, most=MOST_CHARS)
        self._merging = Pace(STEP_S, least=LEAST_PAGES, most=MOST_PAGES)
        self._unmerged: dict[str, int] = {}
        """Tables of the segment that is being filled, with the steps that were added to them."""
        self._whole: list[str] = []
        """Tables that nothing is added to any more, to be merged into one block each."""
        self._find_tables()

    def tail(self, last_id: int) -> int:
        """Return how many packets are not indexed yet; too many where ids are missing."""
        return last_id - self._progress.indexed_to

    def step(self) -> bool:
        """Index some more; False if all is done.

        Raises:
            sqlite3.Error: it stays as it was.
        """
        if max(self._unmerged.values(), default=0) >= MOST_UNMERGED:
            return self._merge()
        with self._inserting.step() as chars:
            if not self._parts:
                self._read(chars)
            if self._parts:
                self._add(list(self._some(chars)))
                return True
        return self._merge()

    def _add(self, parts: list[IndexedText]) -> None:
        with transaction(self._connection):
            found = self._read_progress()
            if found != self._progress:
                # Another process was here.
                self._parts.clear()
                self._progress = found
                self._find_tables()
                return
            done = self._insert(parts, found)
            set_facts(self._connection, done._asdict())
        self._progress = done
        if done.segment_began != found.segment_began:
            self._find_tables()
        for table in tables(done.segment_began):
            self._unmerged[table] = self._unmerged.get(table, 0) + 1
        for _ in parts:
            self._parts.popleft()

    def _read_progress(self) -> IndexProgress:
        found = facts(self._connection)
        return IndexProgress(*(found.get(name, 0) for name in IndexProgress._fields))

    def _read(self, most: int) -> None:
        """Take the next packets, as many as have the text of one step."""
        chars = 0
        cursor = self._connection.execute(_NEXT, (self._progress.indexed_to, STEP_ROWS))
        for packet_id, url, head, body in cursor:
            text = text_of(head, body)
            self._parts.extend(_parts(packet_id, url or "", text, most))
            chars += len(text)
            if chars >= most:
                break
        cursor.close()

    def _some(self, most: int) -> Iterator[IndexedText]:
        chars = 0
        for part in self._parts:
            chars += len(part.text)
            if chars > most and chars != len(part.text):
                return
            yield part

    def _insert(self, parts: list[IndexedText], before: IndexProgress) -> IndexProgress:
        """Index parts, all in one segment; return how far it has got with them."""
        indexed_to, segment, size = before
        is_full = size >= self._segment_size
        if not segment or (is_full and parts[0].is_first):
            segment, size = parts[0].id, 0
            for table in tables(segment):
                self._create(table)
        urls, texts = tables(segment)
        for table, rows in (
            (urls, [(part.id, part.url) for part in parts if part.url]),
            (texts, [(part.id, part.text) for part in parts if part.text]),
        ):
            if rows:
                self._connection.execute(_INSERT.format(table), (json.dumps(rows),))
        size += sum(min(len(part.text), HEAVIEST) for part in parts if part.is_first)
        complete = (part.id for part in parts if part.is_last)
        return IndexProgress(max(complete, default=indexed_to), segment, size)

    def _create(self, table: str) -> None:
        """Create a table without automatic merges, which at times take long while FTS5 commits."""
        self._connection.execute(
            f"CREATE VIRTUAL TABLE {table}"
            " USING fts5(text, tokenize='trigram', detail=none, content='')"
        )
        for option, value in (("automerge", 0), ("crisismerge", 10 * MOST_UNMERGED)):
            self._tune(table, option, value)

    def _tune(self, table: str, command: str, value: int) -> None:
        self._connection.execute(
            f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)", (command, value)
        )

    def _merge(self) -> bool:
        """Merge some blocks of what was added; False if all are merged."""
        if not self._unmerged and not self._whole:
            return False
        with self._merging.step() as pages:
            if self._unmerged:
                table = max(self._unmerged, key=self._unmerged.__getitem__)
                if self._is_merged(table, pages):
                    del self._unmerged[table]
            # Below zero: down to one block, whatever their number.
            elif self._is_merged(self._whole[-1], -pages):
                self._whole.pop()
        return True

    def _is_merged(self, table: str, pages: int) -> bool:
        """Merge some pages; return whether nothing was left to merge."""
        with transaction(self._connection):
            before = self._connection.total_changes
            self._tune(table, "merge", pages)
            # The command itself counts as one.
            return self._connection.total_changes - before < 2

    # Making room

    def forget(self) -> None:
        """Let go of the tables whose packets were evicted.

        Raises:
            sqlite3.Error: it stays as it was.
        """
        lowest = self._lowest()
        # A segment ends where the next begins. The last one is still being filled.
        there = segments(self._names())
        for segment, following in pairwise(there):
            if following <= lowest:
                self._doom(segment)

    def _lowest(self) -> int:
        (found,) = self._connection.execute("SELECT min(id) FROM packets").fetchone()
        return int(found) if found else facts(self._connection)["evicted_to"] + 1

    def _doom(self, segment: int) -> None:
        """Hide tables from the readers at once; emptying them takes longer."""
        with transaction(self._connection):
            for name in tables(segment):
                self._connection.execute(f"ALTER TABLE {name} RENAME TO gone_{name}")
        self._find_tables()

    def _names(self) -> list[str]:
        return [name for (name,) in self._connection.execute(_TABLES)]

    def _find_tables(self) -> None:
        names = self._names()
        filled = tables(self._progress.segment_began)
        self._unmerged = {name: self._unmerged.get(name, 0) for name in filled if name in names}
        self._doomed = [name for name in names if name.startswith("gone_")]
        self._whole = [name for name in names if name not in {*filled, *self._doomed}]

    def drop_step(self) -> bool:
        """Drop some of what belongs to packets that are gone; False if nothing is left to drop.

        Raises:
            sqlite3.Error: it stays as it was.
        """
        if not self._doomed:
            return False
        name = self._doomed[-1]
        with transaction(self._connection):
            # The two lowest blocks say how the others are to be read, and dropping asks for them.
            deleted = self._connection.execute(
                f"DELETE FROM {name}_data WHERE id IN"
                f" (SELECT id FROM {name}_data WHERE id > 10 LIMIT {GONE_BLOCKS})"
            ).rowcount
            if deleted < GONE_BLOCKS:
                self._connection.execute(f"DROP TABLE {name}")
        if deleted < GONE_BLOCKS:
            self._doomed.pop()
        return True


def _parts(packet_id: int, url: str, text: str, size: int) -> Iterator[IndexedText]:
    """Yield a text in parts with one rowid: without positions its tokens are simply added."""
    starts = range(0, max(1, len(text) - OVERLAP), size - OVERLAP)
    for start in starts:
        yield IndexedText(
            packet_id,
            "" if start else url,
            text[start : start + size],
            is_first=start == 0,
            is_last=start == starts[-1],
        )

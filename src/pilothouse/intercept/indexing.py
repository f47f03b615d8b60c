"""Trigrams of urls and texts, so that a search for three or more characters needs no scan.

Each segment of 50,000 packets has two FTS5 tables of its own, `url_{n}` and `text_{n}`, with the
packet's id as rowid. They keep no text, so a row cannot be deleted: a segment's tables go when its
last packet is gone. `facts.indexed_to` is the packet up to which everything is indexed.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from pilothouse.intercept.decoding import text_of
from pilothouse.intercept.history_file import fact, set_fact, transaction
from pilothouse.intercept.history_rows import statements
from pilothouse.intercept.schema import SEGMENT

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

STEP_S = 0.015
MOST_CHARS = 80_000
LEAST_CHARS = 10_000
"""Text that is indexed in one transaction: less where the machine is busy with other things."""
STEP_ROWS = 128
MOST_UNMERGED = 48
"""Steps after which their blocks are merged in spite of traffic: a search reads them all."""
MERGED_PAGES = 24
OVERLAP = 2
"""Characters that two parts of a long text share, so that no trigram falls between them."""
GONE_BLOCKS = 256
"""Blocks of a table that is dropped, deleted at a time."""
WASTE = 1000
"""Packets that are gone, for which tables are not yet begun anew."""

_NEXT = (
    "SELECT id, url, head, body FROM packets JOIN contents USING (id)"
    " WHERE id > ? ORDER BY id LIMIT ?"
)
_TABLES = (
    "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%' AND"
    " (name GLOB 'text_[0-9]*' OR name GLOB 'url_[0-9]*' OR name GLOB 'gone_*')"
)


class Part(NamedTuple):
    """A piece of what a packet has to be found by."""

    id: int
    url: str
    text: str
    is_last: bool


class Indexer:
    """Keeps the index up with the packets, a few milliseconds of work at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._parts: deque[Part] = deque()
        """Read, but not indexed yet."""
        self._indexed_to = fact(connection, "indexed_to")
        self._chars = MOST_CHARS // 2
        self._unmerged: dict[str, int] = {}
        """Tables with the number of steps that were added to them."""
        self._doomed = self._find_doomed()

    def tail(self, last_id: int) -> int:
        """How many packets are not indexed yet, or fewer where ids are missing."""
        return last_id - self._indexed_to

    def step(self) -> bool:
        """Index some more; False if all is done.

        Raises:
            sqlite3.Error: it stays as it was.
        """
        begun = time.monotonic()
        did_some = self._step()
        took = time.monotonic() - begun
        if took > STEP_S:
            self._chars = max(LEAST_CHARS, self._chars // 2)
        elif took < STEP_S / 3:
            self._chars = min(MOST_CHARS, self._chars * 2)
        return did_some

    def _step(self) -> bool:
        if max(self._unmerged.values(), default=0) >= MOST_UNMERGED:
            return self._merge()
        if not self._parts:
            self._read()
        if not self._parts:
            return self._merge()
        parts = list(self._some())
        with transaction(self._connection):
            found = fact(self._connection, "indexed_to")
            if found != self._indexed_to:
                # Another process was here.
                self._parts.clear()
                self._indexed_to = found
                return True
            done = self._insert(parts) or found
            set_fact(self._connection, "indexed_to", done)
        self._indexed_to = done
        for _ in parts:
            self._parts.popleft()
        return True

    def _read(self) -> None:
        """Take the next packets, as many as have the text of one step."""
        chars = 0
        cursor = self._connection.execute(_NEXT, (self._indexed_to, STEP_ROWS))
        for packet_id, url, head, body in cursor:
            text = text_of(head, body)
            self._parts.extend(_parts(packet_id, url or "", text, self._chars))
            chars += len(text)
            if chars >= self._chars:
                break
        cursor.close()

    def _some(self) -> Iterator[Part]:
        chars = 0
        for part in self._parts:
            chars += len(part.text)
            if chars > self._chars and chars != len(part.text):
                return
            yield part

    def _insert(self, parts: list[Part]) -> int:
        """Index them; the id of the last packet that is complete with them, 0 if none is."""
        tables: dict[str, list[tuple[int, str]]] = {}
        for part in parts:
            segment = part.id // SEGMENT
            if part.url:
                tables.setdefault(f"url_{segment}", []).append((part.id, part.url))
            if part.text:
                tables.setdefault(f"text_{segment}", []).append((part.id, part.text))
        for table, rows in tables.items():
            if table not in self._unmerged:
                self._create(table)
            for sql, values in statements(f"INSERT INTO {table} (rowid, text)", rows):
                self._connection.execute(sql, values)
            self._unmerged[table] = self._unmerged.get(table, 0) + 1
        return max((part.id for part in parts if part.is_last), default=0)

    def _create(self, table: str) -> None:
        """Left to itself, FTS5 now and then merges for a long time while it commits."""
        self._connection.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {table}"
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
        if not self._unmerged:
            return False
        table = max(self._unmerged, key=self._unmerged.__getitem__)
        with transaction(self._connection):
            before = self._connection.total_changes
            self._tune(table, "merge", max(1, MERGED_PAGES * self._chars // MOST_CHARS))
            # The command itself counts as one.
            is_done = self._connection.total_changes - before < 2
        if is_done:
            del self._unmerged[table]
        return True

    # Making room

    def forget(self) -> None:
        """Let go of the tables whose packets were evicted.

        Raises:
            sqlite3.Error: it stays as it was.
        """
        lowest = self._lowest()
        segment = lowest // SEGMENT
        there = {name for (name,) in self._connection.execute(_TABLES)}
        past = [name for name in there - set(self._doomed) if int(name.split("_")[1]) < segment]
        if past:
            self._doom(past)
        elif segment == self._indexed_to // SEGMENT and self._is_waste(lowest, segment):
            # The only segment's tables are mostly of packets that are gone: begun anew.
            facts = {"index_began": lowest, "indexed_to": lowest - 1}
            self._doom({f"url_{segment}", f"text_{segment}"} & there, facts)
            self._indexed_to = lowest - 1
            self._parts.clear()

    def _lowest(self) -> int:
        (found,) = self._connection.execute("SELECT min(id) FROM packets").fetchone()
        return int(found) if found else fact(self._connection, "evicted_to") + 1

    def _is_waste(self, lowest: int, segment: int) -> bool:
        began = max(fact(self._connection, "index_began"), segment * SEGMENT)
        return lowest - began > max(self._indexed_to - lowest, WASTE)

    def _doom(self, names: Iterable[str], facts: dict[str, int] | None = None) -> None:
        """Take tables out of the readers' sight at once; emptying them takes longer."""
        with transaction(self._connection):
            for name, value in (facts or {}).items():
                set_fact(self._connection, name, value)
            for name in names:
                self._connection.execute(
                    f"ALTER TABLE {name} RENAME TO gone_{name}_{self._indexed_to}"
                )
                self._unmerged.pop(name, None)
        self._doomed = self._find_doomed()

    def _find_doomed(self) -> list[str]:
        return [name for (name,) in self._connection.execute(_TABLES) if name.startswith("gone_")]

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


def _parts(packet_id: int, url: str, text: str, size: int) -> Iterator[Part]:
    """The same rowid may be inserted again: without positions its tokens are simply added."""
    starts = range(0, max(1, len(text) - OVERLAP), size - OVERLAP)
    for start in starts:
        yield Part(
            packet_id,
            "" if start else url,
            text[start : start + size],
            is_last=start == starts[-1],
        )

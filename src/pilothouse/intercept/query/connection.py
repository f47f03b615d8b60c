"""One connection that reads the history: our SQL functions, and what the file knows of itself."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pilothouse.core.timeline.clock import iso
from pilothouse.intercept.filter.model import literal_pattern
from pilothouse.intercept.query.pattern_search import occurs, searcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BUSY_S = 5.0
CACHE_KIB = 8192
TEXTS_KEPT = 2
"""Texts kept, both packets of an exchange: several conditions read the same two."""


class Deadline:
    """Deadline that ends a scan when its time is over, but never before the scan has got on."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until = 0.0
        self._current = 0
        self.judged = 0
        """Id of the last row that was judged to the end; 0 before."""
        self.stopped = False
        self.matched: tuple[int, Any] | None = None
        """The last row that passed: sqlite3 reads ahead and drops a row when the next one fails."""

    def start(self, seconds: float) -> None:
        self._until = self._now() + seconds
        self._current = self.judged = 0
        self.stopped = False
        self.matched = None

    @property
    def over(self) -> bool:
        return self._now() >= self._until

    @property
    def left(self) -> float:
        return max(0.0, self._until - self._now())

    def visit(self, row: int) -> int:
        """Note a row before it is judged, in the scan's order; stop in time. Called by SQL."""
        self.judged, self._current = self._current, row
        if self.judged and self.over:
            self.stopped = True
            raise TimeoutError
        return 1

    def keep(self, row: int, key: Any) -> int:
        """Note a row that passed. Called by SQL."""
        self.matched = row, key
        return row


class ReadConnection:
    """A connection with its functions. One thread at a time uses it.

    While there is no file, it reads an empty history and is to be used once.
    """

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self._path = path
        self._file = _identity(path)
        self.db = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro" if self._file else "file::memory:",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )
        self.watch = Deadline(now)
        self.totals: dict[tuple[str, str | None], tuple[int, bool]] = {}
        self._version = -1
        self._texts: dict[int, str] = {}
        self.given_up: set[tuple[int, str]] = set()
        """Packets, with the patterns that would have taken too long for their texts."""
        try:
            self._prepare()
        except BaseException:
            self.db.close()
            raise

    def _prepare(self) -> None:
        self.db.execute("PRAGMA query_only = 1")
        self.db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self.db.create_function("visit", 1, self.watch.visit)
        self.db.create_function("keep", 2, self.watch.keep)
        self.db.create_function("found", 2, _found)
        self.db.create_function("text_has", 5, self._text_has)

    @property
    def is_current(self) -> bool:
        """True while the file is the one that was opened: a damaged one is replaced."""
        return self._file is not None and self._file == _identity(self._path)

    @contextmanager
    def snapshot(self) -> Iterator[FileState]:
        """Hold the history as it is now, the same for every statement within."""
        self.given_up.clear()
        self.db.execute("BEGIN")
        try:
            (version,) = self.db.execute("PRAGMA data_version").fetchone()
            snapshot = FileState(self.db)
            if version != self._version:
                self.totals.clear()
                self._texts.clear()
                self._version = version
            yield snapshot
        finally:
            self.db.execute("COMMIT")

    def _text_has(
        self, how: str, needle: str, packet_id: int, head: bytes, body: bytes
    ) -> bool | None:
        text = self._texts.get(packet_id)
        if text is None:
            from pilothouse.intercept.present.decode import text_of

            text = text_of(head, body)
            while len(self._texts) >= TEXTS_KEPT:
                del self._texts[next(iter(self._texts))]
            self._texts[packet_id] = text
        if how == "literal":
            return needle in text
        pattern = literal_pattern(needle) if how == "literal_i" else needle
        if (packet_id, pattern) in self.given_up:
            return None
        found = occurs(searcher(pattern, how.endswith("_i")), text.encode())
        if found is None:
            self.given_up.add((packet_id, pattern))
        return found


class FileState:
    """State of the file at one moment, as it says itself."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        self.oldest = self.newest = 0
        self.indexed_to = self.evicted_to = 0
        self.rows: int | None = 0
        if {"packets", "contents", "facts"} <= self.names:
            sql = "SELECT (SELECT min(id) FROM packets), (SELECT max(id) FROM packets)"
            self.oldest, self.newest = (id or 0 for id in db.execute(sql).fetchone())
            facts: dict[str, Any] = dict(db.execute("SELECT name, value FROM facts"))
            self.indexed_to = int(facts.get("indexed_to") or 0)
            self.evicted_to = int(facts.get("evicted_to") or 0)
            self.rows = int(facts["rows"]) if "rows" in facts else None

    @property
    def is_empty(self) -> bool:
        return self.newest == 0

    @property
    def is_gapless(self) -> bool:
        return self.rows == self.newest - self.oldest + 1


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _found(pattern: str, value: str | int | float | None) -> bool | None:
    if value is None:
        return None
    text = iso(value) if isinstance(value, float) else str(value)
    return occurs(searcher(pattern), text.encode())

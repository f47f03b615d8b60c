"""All events on disk (`--store sqlite:PATH`): what the ring forgets, the store still has.

One thread writes in batches; readers have connections of their own. SQLite in WAL mode loses
nothing that was committed when the process is killed.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from contextlib import closing, contextmanager, suppress
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from pilothouse.core.timeline.ring import Slice
from pilothouse.observe.model import Body, Seen
from pilothouse.observe.record.store_limits import TABLE, StoreRoom, trimmed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pilothouse.observe.read.query import Query
    from pilothouse.observe.record.store_limits import Caps

BATCH_S = 0.05
_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    owner TEXT NOT NULL, target TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL,
    kind TEXT NOT NULL, url TEXT NOT NULL, method TEXT NOT NULL, level TEXT NOT NULL,
    status INTEGER NOT NULL, request_id TEXT NOT NULL, packed BLOB NOT NULL,
    PRIMARY KEY (owner, target, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (
    owner TEXT NOT NULL, target TEXT NOT NULL, next_seq INTEGER NOT NULL,
    PRIMARY KEY (owner, target)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS said (
    owner TEXT NOT NULL, target TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (owner, target)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS writers (
    owner TEXT PRIMARY KEY, pid INTEGER NOT NULL, started REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bodies (
    owner TEXT NOT NULL, target TEXT NOT NULL, request_id TEXT NOT NULL, mime_type TEXT NOT NULL,
    encoded INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (owner, target, request_id)
);
CREATE INDEX IF NOT EXISTS by_request ON events (owner, target, request_id)
    WHERE request_id != '';
"""
_COLUMNS = "seq, at, kind, url, method, level, status, request_id, packed"

type _Row = tuple[str, str, int, float, str, str, str, str, int, str, bytes]
type _Pending = tuple[_Row, float]
"""An event, and when the browser sent the last line up to it."""
type _BodyRow = tuple[str, str, str, str, bool, str]


class StoreError(Exception):
    """The store cannot be opened; the message names the file and why."""


class EventStore:
    """Events of all targets of all sessions, each session's for itself."""

    def __init__(self, path: Path, caps: Caps | None = None) -> None:
        """Open or make the file of the store, which keeps everything if there are no caps.

        Raises:
            StoreError: it cannot be opened.
        """
        self._path = path
        self._caps = caps
        try:
            # Made by us first, because SQLite would make it readable for others.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            os.chmod(path, 0o600)
            with closing(self._connect()) as connection:
                connection.executescript(_SCHEMA + TABLE)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{path}: {error}") from None
        self._pending: deque[_Pending] = deque()
        self._bodies: deque[_BodyRow] = deque()
        self._turn = threading.Condition()
        self._closing = False
        self._busy = False
        self._holes = False
        self.failed = ""
        """Reason why the last batch could not be written; empty when all is well."""
        self._writer = threading.Thread(target=self._write, name="observe-store", daemon=True)
        self._writer.start()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=5, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    # Writing

    def enter(self, owner: str) -> str:
        """Return the name to write under until `leave`: the owner's, with a number behind it while
        another process writes as the same owner. Under one name both would count the same seq."""
        import psutil

        def is_alive(pid: int, started: float) -> bool:
            try:
                return abs(psutil.Process(pid).create_time() - started) < 1
            except psutil.Error:
                return False

        me = (os.getpid(), psutil.Process().create_time())
        with closing(self._connect()) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            writers = connection.execute("SELECT owner, pid, started FROM writers").fetchall()
            taken = {name for name, *who in writers if who[0] != me[0] and is_alive(*who)}
            names = (f"{owner}.{number}" for number in count(2))
            name = next(name for name in chain([owner], names) if name not in taken)
            connection.execute("INSERT OR REPLACE INTO writers VALUES (?, ?, ?)", (name, *me))
        return name

    def leave(self, name: str) -> None:
        with closing(self._connect()) as connection, connection:
            connection.execute("DELETE FROM writers WHERE owner = ?", (name,))

    def append(self, owner: str, target: str, seq: int, seen: Seen, said_at: float = 0.0) -> None:
        """Keep an event; returns at once."""
        row = (
            owner,
            target,
            seq,
            seen.at,
            seen.kind,
            seen.url,
            seen.method,
            seen.level,
            seen.status,
            seen.request_id,
            seen.packed,
        )
        self._pending.append((row, said_at))

    def keep_body(self, owner: str, target: str, request_id: str, body: Body) -> None:
        """Keep a response's body; returns at once."""
        row = (owner, target, request_id, body.mime_type, body.encoded, body.text)
        self._bodies.append(row)

    def flush(self) -> None:
        """Wait until everything that was appended is on disk."""
        with self._turn:
            self._turn.notify_all()
            self._turn.wait_for(lambda: not (self._has_more or self._busy), timeout=30)

    @property
    def _has_more(self) -> bool:
        return bool(self._pending or self._bodies)

    def close(self) -> None:
        with self._turn:
            self._closing = True
            self._turn.notify_all()
        self._writer.join(30)

    def _write(self) -> None:
        connection = self._connect()
        room = StoreRoom(connection, self._caps) if self._caps else None
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._closing, timeout=BATCH_S)
                closing = self._closing
                batch = [self._pending.popleft() for _ in range(len(self._pending))]
                bodies = [self._bodies.popleft() for _ in range(len(self._bodies))]
                self._busy = bool(batch or bodies)
            if batch:
                self._commit(connection, batch)
            if bodies:
                self._commit_bodies(connection, bodies)
            if room is not None and not closing:
                # Another writer may be busy, or the disk full: it is tried again.
                with suppress(sqlite3.Error):
                    room.step()
            with self._turn:
                self._busy = False
                self._turn.notify_all()
                if closing and not self._has_more:
                    break
        connection.close()

    def _commit(self, connection: sqlite3.Connection, batch: list[_Pending]) -> None:
        marks = ",".join("?" * 11)
        said = {row[:2]: said_at for row, said_at in batch}
        try:
            with connection:
                connection.executemany(
                    f"INSERT OR REPLACE INTO events VALUES ({marks})", [row for row, _ in batch]
                )
                connection.executemany(
                    "INSERT OR REPLACE INTO said VALUES (?, ?, ?)",
                    [(*target, at) for target, at in said.items()],
                )
            self.failed = ""
        except (OverflowError, UnicodeError):
            # One of them has a number or text that SQLite does not take.
            self._commit_singly(connection, batch)
        except sqlite3.Error as error:
            # A full disk must not stop the recording in memory; the answers say so.
            self.failed = str(error)
            self._holes = True

    def _commit_singly(self, connection: sqlite3.Connection, batch: list[_Pending]) -> None:
        if len(batch) == 1:
            self.failed, self._holes = "an event could not be stored", True
            return
        for one in batch:
            self._commit(connection, [one])

    def _commit_bodies(self, connection: sqlite3.Connection, bodies: list[_BodyRow]) -> None:
        for row in bodies:
            try:
                with connection:
                    connection.execute("INSERT OR REPLACE INTO bodies VALUES (?,?,?,?,?,?)", row)
            except UnicodeError:
                continue  # half a character, which JavaScript allows
            except sqlite3.Error as error:
                self.failed = str(error)

    def lost(self, owner: str, target: str, start: int, stop: int, known: int = 0) -> int:
        """Return how many events of `[start, stop)` have made room, or could not be written, from
        `known` on, where this process began to write."""
        if stop <= start:
            return 0
        begin = max(start, known)
        with closing(self._connect()) as connection:
            upto = min(stop, begin) if self._holes else stop
            gone = trimmed(connection, owner, target, start, upto)
        if not self._holes or begin >= stop:
            return gone
        self.flush()
        with closing(self._connect()) as connection:
            row = connection.execute(
                "SELECT count(*) FROM events"
                " WHERE owner = ? AND target = ? AND seq >= ? AND seq < ?",
                (owner, target, begin, stop),
            ).fetchone()
        return gone + stop - begin - int(row[0])

    # Reading

    def next_seq(self, owner: str, target: str) -> int:
        """Return the seq after the last one ever stored, 0 for a target that is not known."""
        self.flush()
        with closing(self._connect()) as connection:
            (number,) = connection.execute(
                "SELECT max((SELECT coalesce(max(seq) + 1, 0) FROM events"
                " WHERE owner = ?1 AND target = ?2), (SELECT coalesce(max(next_seq), 0)"
                " FROM marks WHERE owner = ?1 AND target = ?2))",
                (owner, target),
            ).fetchone()
        return int(number)

    def said_until(self, owner: str, target: str) -> float:
        """Return when the browser sent the last line stored; it will repeat those before."""
        self.flush()
        with closing(self._connect()) as connection:
            row = connection.execute(
                "SELECT at FROM said WHERE owner = ? AND target = ?", (owner, target)
            ).fetchone()
        return float(row[0]) if row else 0.0

    def holds(self, owner: str, target: str) -> bool:
        with closing(self._connect()) as connection:
            found = connection.execute(
                "SELECT 1 FROM events WHERE owner = ? AND target = ? LIMIT 1", (owner, target)
            ).fetchone()
        return found is not None

    def targets(self, owner: str) -> list[str]:
        with closing(self._connect()) as connection:
            rows = connection.execute(
                "SELECT DISTINCT target FROM events WHERE owner = ?", (owner,)
            ).fetchall()
        return [row[0] for row in rows]

    def forget(self, owner: str, target: str) -> None:
        """Delete a target's events, also those on their way to the disk; seq goes on after them."""
        mark = self.next_seq(owner, target)
        with closing(self._connect()) as connection, connection:
            for table in ("events", "bodies", "trimmed"):
                connection.execute(
                    f"DELETE FROM {table} WHERE owner = ? AND target = ?", (owner, target)
                )
            connection.execute(
                "INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", (owner, target, mark)
            )

    @contextmanager
    def bodies(self, owner: str, target: str) -> Iterator[Callable[[str], Body | None]]:
        """Open what gives the body of a request, over one connection."""
        self.flush()
        with closing(self._connect()) as connection:

            def body_of(request_id: str) -> Body | None:
                row = connection.execute(
                    "SELECT mime_type, body, encoded FROM bodies"
                    " WHERE owner = ? AND target = ? AND request_id = ?",
                    (owner, target, request_id),
                ).fetchone()
                return Body(row[0], row[1], bool(row[2])) if row else None

            yield body_of

    def read(
        self, owner: str, target: str, start: int, stop: int, *, limit: int, query: Query
    ) -> Slice[Seen]:
        """Return the events of `[start, stop)` that fit, oldest first."""
        self.flush()
        where, values = query.sql()
        base: list[Any] = [owner, target, start, stop, *values]
        condition = f"owner = ? AND target = ? AND seq >= ? AND seq < ?{where}"
        ordered = f"SELECT {_COLUMNS} FROM events WHERE {condition} ORDER BY seq"
        connection = self._connect()
        try:
            if query.text_includes:
                return self._scan(connection.execute(ordered, base), stop, limit, query)
            matched = connection.execute(
                f"SELECT count(*) FROM events WHERE {condition}", base
            ).fetchone()[0]
            rows = connection.execute(f"{ordered} LIMIT ?", [*base, limit + 1]).fetchall()
        finally:
            connection.close()
        items = [(row[0], _seen(row)) for row in rows[:limit]]
        return Slice(items, rows[limit][0] if len(rows) > limit else stop, 0, matched)

    @staticmethod
    def _scan(rows: Iterable[tuple[Any, ...]], stop: int, limit: int, query: Query) -> Slice[Seen]:
        """Read the events that fit, by the same predicate for text as in the ring."""
        fits = query.matcher()
        items: list[tuple[int, Seen]] = []
        matched, after = 0, stop
        for row in rows:
            seen = _seen(row)
            if fits is not None and not fits(seen):
                continue
            matched += 1
            if len(items) < limit:
                items.append((row[0], seen))
            elif matched == limit + 1:
                after = row[0]
        return Slice(items, after, 0, matched)


def _seen(row: tuple[Any, ...]) -> Seen:
    _, at, kind, url, method, level, status, request_id, packed = row
    return Seen.stored(
        at=at,
        kind=kind,
        url=url,
        method=method,
        level=level,
        status=status,
        request_id=request_id,
        packed=packed,
    )

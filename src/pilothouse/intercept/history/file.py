"""The history's file as the one thread that writes it uses it.

SQLite in WAL mode: what was committed outlives the process. Other processes may write the same
file; ids are taken and rows are counted under the lock of the transaction.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pilothouse.core.timeline.clock import iso
from pilothouse.intercept.history import rows
from pilothouse.intercept.history.schema import TABLES, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pilothouse.core.timeline.clock import Clock

BUSY_S = 5.0
CACHE_KIB = 8192
LOG_BYTES = 16 << 20
LOG_PAGES = 8_192
"""Pages in the log when a commit carries them over itself: far more than checkpoint.py leaves."""
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NUMBERS = (
    "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'packets'), 0),"
    " (SELECT value FROM facts WHERE name = 'evicted_to')"
)


type Identity = tuple[int, int] | None


class NotOurs(Exception):
    """The file cannot be used and will not become usable; the message says why."""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all of the block or nothing; it locks at once, so that what was read stays true."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            # A disk that is full may refuse this too; closing the connection then does it.
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def open_file(path: Path, clock: Clock, after: int = 0) -> tuple[sqlite3.Connection, str]:
    """Open the history; return the connection, and what became of an unusable file in its place.

    Ids of a new file go on from `after`, so that an id which was once given never means another
    packet.

    Raises:
        OSError, sqlite3.Error: it cannot be opened now.
    """
    try:
        return _connected(path, after), ""
    except NotOurs as error:
        moved = set_aside(path, clock)
        return _connected(path, after), f"{path.name} {error}; it is kept as {moved}"


def identity(path: Path) -> Identity:
    """Return the file's device and inode; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def is_damage(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED


def _connected(path: Path, after: int) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made by us first, because SQLite would make it readable for others. Its companions take over
    # the mode of the file.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    os.chmod(path, 0o600)
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        _prepare(connection, after)
    except sqlite3.Error as error:
        connection.close()
        if is_damage(error):
            raise NotOurs(f"is damaged ({error})") from None
        raise
    except NotOurs:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, after: int) -> None:
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if names:
        _check(connection, names)
    else:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES}")
    connection.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
    from pilothouse.intercept.query.reader import INDEXES

    facts = {"version": VERSION, "rows": 0, "indexed_to": after, "evicted_to": after}
    values = ",".join(f"('{name}', {value})" for name, value in facts.items())
    seed = f"INSERT INTO sqlite_sequence (name, seq) VALUES ('packets', {after});"
    connection.executescript(
        f"BEGIN IMMEDIATE; {TABLES}; {';'.join(INDEXES)};"
        f"INSERT OR IGNORE INTO facts (name, value) VALUES {values};"
        f"{seed if after and not names else ''} COMMIT;"
    )


def _check(connection: sqlite3.Connection, names: set[str]) -> None:
    if not {"packets", "contents", "facts"} <= names:
        raise NotOurs("is a database of something else")
    found = connection.execute("SELECT value FROM facts WHERE name = 'version'").fetchone()
    if found is None or found[0] != VERSION:
        raise NotOurs(f"has another version than {VERSION}: {found and found[0]}")


def set_aside(path: Path, clock: Clock) -> str:
    """Rename the file and its companions alike, so that they stay one database; return the name."""
    stamp = iso(clock()).replace(":", "").replace("-", "").replace(".", "")
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    for end in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            os.replace(f"{path}{end}", f"{aside}{end}")
    return aside.name


def write(
    connection: sqlite3.Connection, entries: Sequence[rows.PostedExchange]
) -> rows.WriteBatch:
    """Commit a batch; the exchanges have their ids when it is in the file, not before.

    Raises:
        sqlite3.Error: nothing of it was written.
    """
    try:
        batch = _write(connection, entries)
    except (UnicodeError, OverflowError):
        batch = _write(connection, entries, is_strange=True)
    for ids in batch.exchanges:
        ids.exchange.request_id, ids.exchange.response_id = ids.request, ids.response
    return batch


def _write(
    connection: sqlite3.Connection,
    entries: Sequence[rows.PostedExchange],
    *,
    is_strange: bool = False,
) -> rows.WriteBatch:
    with transaction(connection):
        batch = rows.planned(entries, *connection.execute(_NUMBERS).fetchone())
        if is_strange:
            for part in (batch.packets, batch.contents, batch.updates):
                part[:] = map(rows.storable, part)
        for sql, values in (
            *rows.inserting("packets", rows.PACKETS, batch.packets),
            *rows.inserting("contents", rows.CONTENTS, batch.contents),
            *rows.inserting("chunks", rows.CHUNKS, batch.chunks),
            *rows.updating(batch.updates),
        ):
            connection.execute(sql, values)
        connection.execute(
            "UPDATE facts SET value = value + ? WHERE name = 'rows'", (len(batch.packets),)
        )
    return batch


def last_id(connection: sqlite3.Connection) -> int:
    """Return the highest id that a packet ever had."""
    return int(connection.execute(_NUMBERS).fetchone()[0])


def facts(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the facts that the file has of itself, by name."""
    return dict(connection.execute("SELECT name, value FROM facts").fetchall())


def set_facts(connection: sqlite3.Connection, values: Mapping[str, int]) -> None:
    marks = ",".join(["(?, ?)"] * len(values))
    flat = [part for pair in values.items() for part in pair]
    connection.execute(f"INSERT OR REPLACE INTO facts (name, value) VALUES {marks}", flat)

"""Exchanges to record, a writer for the length of a block, and what is then in the file."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.timeline.clock import anchored
from pilothouse.intercept.history.segments import segments
from pilothouse.intercept.history.writer import HistoryWriter
from pilothouse.intercept.model import ConnectionEnd, Exchange, WireMessage
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

GUARD_S = 30.0
ROOT = Path(__file__).resolve().parents[3]
CLOCK = anchored(time.time, time.monotonic)


def sent(head: bytes, body: bytes = b"", **facts: Any) -> WireMessage:
    return WireMessage(
        time=CLOCK(),
        head=head,
        body=body,
        length=len(head) + len(body),
        body_length=len(body),
        **facts,
    )


def asked(url: str = "/", body: bytes = b"", **facts: Any) -> Exchange:
    """A request whose response is still to come."""
    head = f"GET {url} HTTP/1.1\r\nHost: shop.example\r\n\r\n".encode()
    return Exchange(
        connection="c1",
        client=ConnectionEnd("127.0.0.1", 50_000),
        server=ConnectionEnd("127.0.0.2", 443),
        server_name="shop.example",
        scheme="https",
        method="GET",
        url=url,
        version="HTTP/1.1",
        request=sent(head, body),
        **facts,
    )


def answer(exchange: Exchange, body: bytes = b"", status: int = 200, headers: str = "") -> Exchange:
    head = f"HTTP/1.1 {status} OK\r\n{headers}\r\n".encode()
    exchange.response = sent(head, body)
    exchange.status = status
    exchange.duration_ms = 12.5
    return exchange


@asynccontextmanager
async def open_writer(
    path: Path,
    max_bytes: int = 1 << 30,
    on_rows: Callable[[list[Exchange]], None] | None = None,
    max_age_s: float = 0.0,
) -> AsyncIterator[HistoryWriter]:
    writer = HistoryWriter(
        path, max_bytes=max_bytes, clock=CLOCK, max_age_s=max_age_s, on_rows=on_rows
    )
    try:
        with anyio.fail_after(GUARD_S):
            await writer.flush()
        yield writer
    finally:
        await writer.close()


def select(path: Path, sql: str, *values: Any) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path, timeout=GUARD_S)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql, values)]


def packets(path: Path) -> list[dict[str, Any]]:
    return select(path, "SELECT * FROM packets JOIN contents USING (id) ORDER BY id")


def facts(path: Path) -> dict[str, int]:
    return {row["name"]: row["value"] for row in select(path, "SELECT * FROM facts")}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep everybody else from writing to the file, as another process would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


async def indexed(path: Path) -> None:
    """Wait until the index has got to the last packet."""

    def is_done() -> bool:
        last = select(path, "SELECT coalesce(max(id), 0) AS id FROM packets")[0]["id"]
        return facts(path)["indexed_to"] >= int(last)

    await until(is_done)


def size(path: Path, end: str = "") -> int:
    return path.with_name(path.name + end).stat().st_size


def mode(path: Path, end: str = "") -> int:
    return stat.S_IMODE(path.with_name(path.name + end).stat().st_mode)


def spoil(path: Path, start: int = 0) -> None:
    """Overwrite a file with what is no database."""
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.write(whole[:start] + b"\xa5" * (len(whole) - start))


def started(script: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def tables(path: Path) -> list[str]:
    rows = select(
        path,
        "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%' ORDER BY name",
    )
    return [row["name"] for row in rows]


def found(path: Path, kind: str, literal: str) -> list[int]:
    """Ids of packets whose url or text has all trigrams of the literal."""
    terms = sorted({literal[at : at + 3] for at in range(len(literal) - 2)})
    match = " AND ".join('"' + term.replace('"', '""') + '"' for term in terms)
    ids: list[int] = []
    for segment in segments(tables(path)):
        table = f"{kind}_{segment}"
        rows = select(path, f"SELECT rowid AS id FROM {table} WHERE {table} MATCH ?", match)
        ids += [row["id"] for row in rows]
    return ids


def is_whole(path: Path) -> bool:
    """SQLite finds no fault, the count is exact, and no exchange is halved."""
    check = select(path, "PRAGMA integrity_check")
    count = select(path, "SELECT count(*) AS n FROM packets")[0]["n"]
    contents = select(path, "SELECT count(*) AS n FROM contents JOIN packets USING (id)")[0]["n"]
    halved = select(
        path,
        "SELECT id FROM packets WHERE peer_id IS NOT NULL"
        " AND peer_id NOT IN (SELECT id FROM packets)",
    )
    assert [row["integrity_check"] for row in check] == ["ok"]
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in tables(path):
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
    assert facts(path)["rows"] == count == contents
    assert halved == []
    return True

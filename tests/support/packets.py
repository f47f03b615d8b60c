"""Histories made by hand: the tables of the schema, filled without the thread that writes them."""

from __future__ import annotations

import gzip
import sqlite3
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pilothouse.intercept.history.schema import TABLES
from pilothouse.intercept.history.segments import segments, tables
from pilothouse.intercept.present.decode import text_of
from pilothouse.intercept.query.reader import INDEXES, HistoryReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SEGMENT = 50_000
"""Packet ids that share tables of the text index."""
START_MS = 1_736_936_000_000.25
"""2025-01-15T10:13:20.000Z"""

SHARED: dict[str, Any] = {
    "connection": "c1",
    "session": "",
    "listener": 8080,
    "type": "HTTP",
    "encode": "HTTP",
    "alpn": "",
    "scheme": "http",
    "server_name": "shop.test",
    "client_ip": "127.0.0.1",
    "client_port": 50000,
    "server_ip": "127.0.0.1",
    "server_port": 80,
    "method": "GET",
    "url": "/",
    "version": "HTTP/1.1",
    "status": 200,
    "duration_ms": 12.5,
    "resend": 0,
    "job": "",
    "key": "",
    "error": "",
}


@dataclass(frozen=True)
class Sent:
    """One packet; its head is written from the exchange where none is given."""

    body: bytes = b""
    head: bytes | None = None
    time: float | None = None
    length: int | None = None
    modified: bool = False
    original: tuple[bytes, bytes] | None = None


@dataclass(frozen=True)
class Made:
    """An exchange to be put in; `shared` are columns that differ from the usual ones."""

    shared: dict[str, Any] = field(default_factory=dict)
    request: Sent | None = Sent()
    response: Sent | None = Sent()
    apart: int = 0
    """Packets that come between its two."""


def made(
    method: str | None = "GET",
    url: str | None = "/",
    status: int | None = 200,
    *,
    request: bytes | Sent | None = b"",
    response: bytes | Sent | None = b"",
    apart: int = 0,
    **shared: Any,
) -> Made:
    return Made(
        {"method": method, "url": url, "status": status, **shared},
        Sent(request) if isinstance(request, bytes) else request,
        Sent(response) if isinstance(response, bytes) else response,
        apart,
    )


class History:
    """A history file with one connection that writes it."""

    def __init__(self, path: Path, indexes: Sequence[str] = INDEXES) -> None:
        self.path = path
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=OFF")
        self.db.executescript(TABLES + ";".join(indexes))
        self.db.execute("INSERT OR IGNORE INTO facts VALUES ('rows', 0), ('indexed_to', 0)")
        self._next = 1

    def close(self) -> None:
        self.db.close()

    def add(self, *exchanges: Made, first_id: int | None = None) -> list[tuple[int, int]]:
        """Their packet ids; 0 for a side that is not there."""
        self._next = first_id or self._next
        placed: list[tuple[int, int]] = []
        self.db.execute("BEGIN")
        late: list[tuple[int, Made, int]] = []
        for exchange in exchanges:
            request = self._take() if exchange.request is not None else 0
            if exchange.response is None:
                placed.append((request, 0))
            elif exchange.apart:
                late.append((len(placed), exchange, request))
                placed.append((request, request + exchange.apart + 1))
                continue
            else:
                placed.append((request, self._take()))
            self._put(exchange, *placed[-1])
        for at, exchange, request in late:
            self._put(exchange, request, placed[at][1])
            self._next = max(self._next, placed[at][1] + 1)
        self.db.execute("UPDATE facts SET value = (SELECT count(*) FROM packets) WHERE name='rows'")
        self.db.execute("COMMIT")
        return placed

    def index(self, to: int | None = None) -> None:
        """Bring the text index up to a packet, as the writing thread does behind the traffic."""
        (done,) = self.db.execute("SELECT value FROM facts WHERE name='indexed_to'").fetchone()
        (newest,) = self.db.execute("SELECT coalesce(max(id), 0) FROM packets").fetchone()
        to = newest if to is None else to
        self.db.execute("BEGIN")
        rows = self.db.execute(
            "SELECT p.id, p.url, c.head, c.body FROM packets p JOIN contents c USING (id)"
            " WHERE p.id > ? AND p.id <= ? ORDER BY p.id",
            (done, to),
        ).fetchall()
        for segment in {_segment(id) for id, *_ in rows}:
            for name in tables(segment):
                self.db.execute(
                    f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5"
                    "(text, content='', tokenize='trigram', detail=none)"
                )
        for id, url, head, body in rows:
            text = text_of(head, body)
            self._index_one(f"text_{_segment(id)}", id, text)
            if url is not None:
                self._index_one(f"url_{_segment(id)}", id, url)
        self.db.execute("UPDATE facts SET value = ? WHERE name='indexed_to'", (to,))
        self.db.execute("COMMIT")

    def evict_before(self, id: int) -> None:
        """Make room as the writing thread does: whole segments of the index go, and all rows."""
        self.db.execute("DELETE FROM packets WHERE id < ?", (id,))
        self.db.execute("DELETE FROM contents WHERE id < ?", (id,))
        self.db.execute("UPDATE facts SET value = (SELECT count(*) FROM packets) WHERE name='rows'")
        names = [name for (name,) in self.db.execute("SELECT name FROM sqlite_master")]
        for segment in segments(names):
            if segment < _segment(id):
                for name in tables(segment):
                    self.db.execute(f"DROP TABLE {name}")

    def _index_one(self, table: str, id: int, text: str) -> None:
        self.db.execute(f"INSERT INTO {table} (rowid, text) VALUES (?, ?)", (id, text))

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def _put(self, exchange: Made, request: int, response: int) -> None:
        sides = ((request, exchange.request, 0), (response, exchange.response, 1))
        sent = [(id, _filled(exchange, side, id), late) for id, side, late in sides if side]
        for at, (id, side, late) in enumerate(sent):
            other = sent[1 - at] if len(sent) == 2 else None
            row: dict[str, Any] = {
                **SHARED,
                **exchange.shared,
                "id": id,
                "group_id": sent[0][0],
                "is_response": late,
                "time": side.time,
                "length": side.length,
                "modified": int(side.modified),
                "peer_id": other[0] if other else None,
                "peer_time": other[1].time if other else None,
                "peer_length": other[1].length if other else None,
                "peer_modified": int(other[1].modified) if other else None,
            }
            self._insert("packets", row)
            original = side.original or (None, None)
            self._insert(
                "contents",
                {
                    "id": id,
                    "head": side.head,
                    "body": side.body,
                    "trailers": b"",
                    "body_length": len(side.body),
                    "original_head": original[0],
                    "original_body": original[1],
                },
            )

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        marks = ", ".join("?" * len(row))
        self.db.execute(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values())
        )


def _segment(id: int) -> int:
    """The id that the tables of its segment bear: that of the segment's first packet."""
    return id // SEGMENT * SEGMENT


def _filled(exchange: Made, sent: Sent, id: int) -> Sent:
    columns = {**SHARED, **exchange.shared}
    head = sent.head if columns["type"] == "HTTP" else b""
    if head is None and sent is exchange.request:
        line = f"{columns['method']} {columns['url']} HTTP/1.1\r\nHost: {columns['server_name']}"
        head = f"{line}\r\n\r\n".encode()
    elif head is None:
        head = f"HTTP/1.1 {columns['status']} OK\r\nServer: test\r\n\r\n".encode()
    length = len(head) + len(sent.body) if sent.length is None else sent.length
    moment = START_MS + id if sent.time is None else sent.time
    return replace(sent, head=head, length=length, time=moment)


def unhurried(path: Path) -> HistoryReader:
    """Its clock stands still: how much it finds does not depend on how busy the machine is."""
    return HistoryReader(path, now=lambda: 0.0)


def ids_of(rows: Iterable[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


BIG = b"x" * 20_000
TRAFFIC: tuple[Made, ...] = (
    made("GET", "/api/users", 200, response=b'{"users": ["Zo\xc3\xab"]}'),  # 1, 2
    made("POST", "/login", 401, request=b"user=bob&pass=geheim", server_name="auth.test"),  # 3, 4
    made("POST", "/api/v2/items", 500, response=b"Traceback: KeyError"),  # 5, 6
    made("GET", "/static/app.js", 304, apart=0),  # 7, 8
    made(
        "GET",
        "/big",
        200,
        request=Sent(head=b"GET /big HTTP/1.1\r\nAuthorization: Bearer abc\r\n\r\n"),
        response=BIG,
    ),  # 9, 10
    made(None, None, None, type="WebSocket", request=b"ping from client", response=None),  # 11
    made(None, None, None, type="WebSocket", request=None, response=b"pong from server"),  # 12
    made("PUT", "/api/users/7", None, response=None, error="connection reset"),  # 13
    made("GET", "/again", 200, resend=1, request=Sent(modified=True), session="other"),  # 14, 15
    made(
        "GET",
        "/zipped",
        200,
        response=Sent(
            gzip.compress(b"hidden TREASURE inside"),
            head=b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/plain\r\n\r\n",
        ),
        alpn="h2",
        server_port=443,
    ),  # 16, 17
)
"""A little of everything; the comments are packet ids, counted from 1."""

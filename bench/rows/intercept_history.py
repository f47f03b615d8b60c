"""How long pages of the history take with a million packets, and how that compares with few.

Both files are filled before anything is timed, through the code that fills them in life: the text
index is the same, in the same segments. A page is read as the tools read it, in this process.
"""

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Noted, Row, Sampler, Samplers
from pilothouse.intercept import history_file, history_rows
from pilothouse.intercept.indexing import Indexer
from pilothouse.intercept.ports import HistoryAsk
from pilothouse.intercept.query import HistoryReader

MANY = 1_000_000
FEW = 10_000
SMALL = f"{FEW:,} packets"
BODY = 900
RARE = 500_000
"""One exchange in so many packets carries what the searches look for."""
WORDS = (
    "order basket user session lamp price total stock paid sent open closed error retry cache"
    " token page limit cursor item name street city country email phone created updated"
).split()


@cache
def reader(packets: int) -> HistoryReader:
    """Of a file that stays for the rest of the run, because filling it takes minutes."""
    path = Path(mkdtemp(prefix="pilothouse-history-")) / f"{packets}.db"
    connection, _ = history_file.open_file(path, lambda: 0.0)
    connection.execute("PRAGMA synchronous=OFF")
    _fill(connection, packets)
    indexer = Indexer(connection)
    while indexer.step():
        pass
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return HistoryReader(path)


def _fill(connection: sqlite3.Connection, packets: int) -> None:
    dice = random.Random(5)
    put_packet = _inserting("packets", history_rows.PACKETS)
    put_content = _inserting("contents", history_rows.CONTENTS)
    for start in range(1, packets + 1, 10_000):
        rows = [row for id in range(start, start + 10_000, 2) for row in _exchange(id, dice)]
        with history_file.transaction(connection):
            connection.executemany(put_packet, [packet for packet, _ in rows])
            connection.executemany(put_content, [content for _, content in rows])
            history_file.set_fact(connection, "rows", start + 9_999)


def _inserting(table: str, columns: list[str]) -> str:
    return f"INSERT INTO {table} ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})"


def _exchange(id: int, dice: random.Random) -> Iterator[tuple[tuple[object, ...], ...]]:
    rare = id % RARE < 2
    method = "DELETE" if rare else dice.choice(("GET", "GET", "GET", "POST", "PUT"))
    url = f"/api/v1/{dice.choice(WORDS)}/{dice.randrange(10**6)}" + ("?needle=1" if rare else "")
    status = 418 if rare else dice.choice((200, 200, 200, 200, 304, 404, 500))
    host = f"host{dice.randrange(20)}.test"
    sides = (
        (f"{method} {url} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n", ""),
        (f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\n\r\n", _body(dice, rare)),
    )
    sent = [(head.encode(), body.encode()) for head, body in sides]
    lengths = [len(head) + len(body) for head, body in sent]
    for at in (0, 1):
        own, other = id + at, id + 1 - at
        yield (
            (
                own, id, at, "c", "", 8080, "HTTP", "HTTP", "", "http", host, "127.0.0.1",
                40_000 + id % 20_000, "127.0.0.1", 80, method, url, "HTTP/1.1", status, 1.5,
                1.7e12 + own, lengths[at], 0, 0, "", "", "", other, 1.7e12 + other,
                lengths[1 - at], 0,
            ),
            (own, *sent[at], b"", len(sent[at][1]), None, None),
        )  # fmt: skip


def _body(dice: random.Random, rare: bool) -> str:
    words = ['{"kind": "Zauberlehrling"'] if rare else ["{"]
    size = 0
    while size < BODY:
        words.append(f'"{dice.choice(WORDS)}": {dice.randrange(10**6)}')
        size += len(words[-1]) + 2
    return ", ".join(words) + "}"


def _took(packets: int, ask: HistoryAsk, rows: int | None) -> Noted:
    """Milliseconds for one page; the number of rows says whether it found what is there."""
    source = reader(packets)
    started = time.perf_counter()
    page = source.page(ask)
    took = (time.perf_counter() - started) * 1000
    if rows is not None and len(page.rows) != rows:
        raise AssertionError(f"{len(page.rows)} rows for {ask.filter!r}")
    note = f"{len(page.rows)} rows, complete: {page.complete}, total {page.total_count:,}"
    return Noted(took, note if page.total_is_exact else f"{note} at least")


def _row(
    name: str,
    title: str,
    bound: Bound,
    ask: HistoryAsk,
    *,
    rows: int | None = None,
    beside_few: bool = False,
) -> Row:
    @contextmanager
    def run(workshop: Workshop) -> Iterator[Samplers]:
        samplers: dict[str, Sampler] = {PILOTHOUSE: partial(_took, MANY, ask, rows)}
        if beside_few:
            samplers[SMALL] = partial(_took, FEW, ask, None)
        yield samplers

    return Row(
        name=f"intercept-history-{name}",
        title=f"{title}, of {MANY:,} packets",
        subject=PILOTHOUSE,
        peers=(SMALL,) if beside_few else (),
        unit="ms",
        better="lower",
        bound=bound,
        run=run,
    )


_DEFAULT = HistoryAsk()
_OWN = HistoryAsk(session="mine")
_URL = HistoryAsk(filter="url =~ needle=[0-9]")
_TEXT = HistoryAsk(filter="full_text == Zauberlehrling")
_COMMON = HistoryAsk(filter="full_text == basket")

DEFAULT = _row("default", "The default page", Bound(50), _DEFAULT, rows=100)
OWN = _row("session", "The default page of a session", Bound(50), _OWN, rows=100)
DEFAULT_GROWTH = _row(
    "default-growth", "The default page beside one of few", Bound(3, of=SMALL), _DEFAULT,
    beside_few=True,
)  # fmt: skip
EQUALITY = _row(
    "equality", "A rare value of an indexed column", Bound(100),
    HistoryAsk(filter="status == 418"), rows=4,
)  # fmt: skip
URL = _row("url", "A rare literal in urls", Bound(500), _URL, rows=4)
TEXT = _row("text", "A rare literal in all texts", Bound(500), _TEXT, rows=4)
TEXT_GROWTH = _row(
    "text-growth", "A literal in all texts beside few", Bound(3, of=SMALL), _COMMON,
    beside_few=True,
)  # fmt: skip
SCAN = _row(
    "scan", "A pattern without a literal that nothing matches", Bound(500),
    HistoryAsk(filter="full_text =~ [0-9]{40}"),
)  # fmt: skip
ROWS = (DEFAULT, OWN, DEFAULT_GROWTH, EQUALITY, URL, TEXT, TEXT_GROWTH, SCAN)

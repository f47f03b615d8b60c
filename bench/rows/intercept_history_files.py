"""Histories with many packets and with few, each in the home of a server of its own.

They are filled through the code that fills them in life: the text index is the same, in the same
segments. Filling the large one takes minutes, so both stay for the rest of the run.
"""

import atexit
import random
import shutil
import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from pilothouse.intercept.history import file
from pilothouse.intercept.history import rows as history_rows
from pilothouse.intercept.history.text_indexer import Indexer
from pilothouse.intercept.history.writer import SEGMENTS

HISTORY = "history.db"
MANY = 1_000_000
FEW = 10_000
BODY = 900
RARE = 500_000
"""One exchange in so many packets carries what the searches look for."""
AT_ONCE = 10_000
WORDS = (
    "order basket user session lamp price total stock paid sent open closed error retry cache"
    " token page limit cursor item name street city country email phone created updated"
).split()


@cache
def filled(packets: int) -> Path:
    """A folder in which Pilothouse, with `home` in it as its home, finds so many packets."""
    # Here, because it brings all of mitmproxy.
    from pilothouse.intercept.engine.__main__ import MAX_BYTES

    folder = Path(mkdtemp(prefix="pilothouse-history-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "home").mkdir(mode=0o700)  # one that is open to others is refused
    connection, _ = file.open_file(history_of(folder), lambda: 0.0)
    connection.execute("PRAGMA synchronous=OFF")
    _fill(connection, packets)
    indexer = Indexer(connection, MAX_BYTES // SEGMENTS)
    while indexer.step():
        pass
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return folder


def history_of(folder: Path) -> Path:
    return folder / "home" / "intercept" / HISTORY


def _fill(connection: sqlite3.Connection, packets: int) -> None:
    dice = random.Random(5)
    put_packet = _inserting("packets", history_rows.PACKETS)
    put_content = _inserting("contents", history_rows.CONTENTS)
    for start in range(1, packets + 1, AT_ONCE):
        rows = [row for id in range(start, start + AT_ONCE, 2) for row in _exchange(id, dice)]
        with file.transaction(connection):
            connection.executemany(put_packet, [packet for packet, _ in rows])
            connection.executemany(put_content, [content for _, content in rows])
            file.set_facts(connection, {"rows": start + AT_ONCE - 1})


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


def body(number: int) -> str:
    """One like those in the file."""
    return _body(random.Random(number), rare=False)


def _body(dice: random.Random, rare: bool) -> str:
    words = ['{"kind": "Zauberlehrling"'] if rare else ["{"]
    size = 0
    while size < BODY:
        words.append(f'"{dice.choice(WORDS)}": {dice.randrange(10**6)}')
        size += len(words[-1]) + 2
    return ", ".join(words) + "}"

"""The history's file is damaged, deleted, too large, or its disk slow or full: it goes on."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pilothouse.intercept.history import file
from pilothouse.intercept.history import writer as history
from pilothouse.intercept.history.segments import segments
from tests.integration.intercept.history_rig import (
    ROOT,
    answer,
    asked,
    facts,
    found,
    indexed,
    is_whole,
    locked,
    open_writer,
    packets,
    select,
    size,
    spoil,
    tables,
)
from tests.support.until import until

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.intercept.model import Exchange

pytestmark = pytest.mark.anyio


# A file that is no history


async def unusable(path: Path, kind: str) -> None:
    """A file of that kind where the history should be."""
    async with open_writer(path) as writer:
        for _ in range(100):
            writer.post(asked(body=b"x" * 5000))
    if kind in ("text", "torn"):
        spoil(path, 0 if kind == "text" else 100)
        return
    with closing(sqlite3.connect(path)) as connection, connection:
        if kind == "foreign":
            connection.execute("DROP TABLE facts")
        else:
            connection.execute("UPDATE facts SET value = 99 WHERE name = 'version'")


@pytest.mark.parametrize("kind", ["text", "foreign", "version", "torn"])
async def test_an_unusable_file_is_kept_aside_and_a_new_one_begun(path: Path, kind: str) -> None:
    await unusable(path, kind)
    before = size(path)
    async with open_writer(path) as writer:
        exchange = asked()
        writer.post(exchange)
        await writer.recorded(exchange)
        (aside,) = path.parent.glob("history.db.corrupt-*[0-9Z]")
        assert writer.state()["ok"]
        assert aside.name in writer.state()["set_aside"]
    assert size(aside) == before
    assert [row["id"] for row in packets(path)] == [1]
    assert is_whole(path)


async def test_a_file_that_is_damaged_while_it_is_used_is_replaced(path: Path) -> None:
    async with open_writer(path) as writer:
        waiting = asked("/waiting")
        for number in range(300):
            writer.post(answer(asked(f"/{number}"), b"x" * 3000))
        writer.post(waiting)
        await writer.flush()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        spoil(path)
        exchanges = [waiting, *(asked(f"/after/{number}") for number in range(3))]
        for exchange in exchanges:
            writer.post(answer(exchange))
        await until(lambda: bool(writer.state()["set_aside"]))
        await writer.flush()
        assert writer.state()["ok"]
    rows = packets(path)
    # No id that was once told means another packet, and no exchange is halved.
    assert min(row["id"] for row in rows) > 600
    assert [row["url"] for row in rows][:2] == ["/waiting", "/waiting"]
    assert len(rows) == 8
    assert is_whole(path)


async def test_a_file_that_was_deleted_is_begun_anew_with_new_ids(path: Path) -> None:
    async with open_writer(path) as writer:
        waiting = asked("/waiting")
        writer.post(waiting)
        await writer.recorded(waiting)
        for end in ("", "-wal", "-shm"):
            path.with_name(path.name + end).unlink()
        writer.post(answer(waiting))
        await writer.recorded(waiting)
    rows = packets(path)
    assert [(row["id"], row["url"], row["status"]) for row in rows] == [
        (2, "/waiting", 200),
        (3, "/waiting", 200),
    ]
    assert is_whole(path)


# Room


async def test_the_oldest_go_when_the_file_is_full(path: Path) -> None:
    limit = 4 << 20
    across = asked("/across")
    async with open_writer(path, max_bytes=limit) as writer:
        writer.post(across)
        for number in range(1500):
            writer.post(answer(asked(f"/{number}"), b"some words to index %d " % number * 60))
            if number % 50 == 0:
                await writer.flush()
        writer.post(answer(across))
        await writer.flush()
        last = asked("/last")
        writer.post(answer(last))
        await writer.recorded(last)
        await indexed(path)
        await until(lambda: size(path) <= limit * 1.1)
    rows = packets(path)
    assert is_whole(path)
    assert 300 < len(rows) < 3000
    assert rows[-1]["url"] == "/last"
    kept = [row["url"] for row in rows]
    # It was evicted before its response came, and then began anew with both.
    assert kept.count("/across") == 2
    assert kept[-3:] == ["/across", "/last", "/last"] or kept[-4:-2] == ["/across", "/across"]
    # Only the first segment that is left may have packets that are gone.
    assert segments(tables(path))[1] > rows[0]["id"]
    assert size(path) <= limit * 1.1


def aged(exchange: Exchange, seconds: float) -> Exchange:
    """The same, as of so long ago; a response that comes later is of now."""
    for side in ("request", "response"):
        sent = getattr(exchange, side)
        if sent is not None:
            setattr(exchange, side, replace(sent, time=sent.time - seconds * 1000))
    return exchange


async def test_packets_that_are_too_old_go_and_the_others_stay(path: Path) -> None:
    async with open_writer(path) as writer:
        for number in range(30):
            writer.post(aged(answer(asked(f"/old/{number}"), b"some words to index"), 7300))
        across = aged(asked("/across"), 7300)
        writer.post(across)
        writer.post(aged(answer(asked("/late")), 7100))
        await writer.flush()
        writer.post(answer(across))
        writer.post(answer(asked("/new")))
        await writer.flush()
        assert len(packets(path)) == 66
    async with open_writer(path, max_age_s=7200):
        await until(lambda: facts(path)["rows"] == 6)
        await indexed(path)
    urls = [row["url"] for row in packets(path)]
    assert sorted(urls) == ["/across", "/across", "/late", "/late", "/new", "/new"]
    assert is_whole(path)


async def test_an_exchange_across_the_border_waits_for_its_younger_packet(path: Path) -> None:
    async with open_writer(path, max_bytes=1 << 20) as writer:
        across = asked("/across")
        writer.post(across)
        for number in range(60):
            writer.post(answer(asked(f"/{number}"), b"x" * 10_000))
        writer.post(answer(across))
        for number in range(60, 110):
            writer.post(answer(asked(f"/{number}"), b"x" * 10_000))
            await writer.flush()
        urls = [row["url"] for row in packets(path)]
        assert urls.count("/across") in (0, 2)
        assert "/0" not in urls
    assert is_whole(path)


async def test_the_index_of_packets_that_are_gone_goes_and_that_of_the_others_stays(
    path: Path,
) -> None:
    async with open_writer(path, max_bytes=2 << 20) as writer:
        for number in range(1200):
            writer.post(answer(asked(f"/{number}"), b"word-%d " % number * 200))
            if number % 60 == 0:
                await indexed(path)
        last = asked("/needle-in-url")
        writer.post(answer(last, b"needle-in-text"))
        await writer.recorded(last)
        await until(lambda: size(path) <= 2.2 * (1 << 20))
        await until(lambda: not any(name.startswith("gone") for name in tables(path)))
        await indexed(path)
        kept = [row["id"] for row in packets(path)]
        assert len(kept) > 100
        assert 1 < segments(tables(path))[0] <= kept[0]
        assert last.response_id in found(path, "text", "needle-in-text")
        middle = select(path, "SELECT id, url FROM packets WHERE id = ?", kept[len(kept) // 2])[0]
        assert middle["id"] in found(path, "url", middle["url"])
    assert is_whole(path)


# A slow disk, a full disk


async def test_bodies_are_left_out_when_the_disk_cannot_keep_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "QUEUE_BYTES", 1_000_000)
    async with open_writer(path) as writer:
        with locked(path):
            for number in range(100):
                writer.post(asked(f"/{number}", b"x" * 50_000))
            dropped = writer.state()["bodies_dropped"]
        await writer.flush()
        assert 70 <= dropped <= 85
        assert writer.state()["lost"] == 0
    rows = packets(path)
    assert len(rows) == 100
    assert {row["body_length"] for row in rows} == {50_000}
    assert sum(row["body"] == b"" for row in rows) == dropped
    assert rows[0]["body"]


async def test_the_newest_are_kept_when_the_file_cannot_be_written_for_long(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "QUEUE_POSTS", 50)
    monkeypatch.setattr(history, "BATCH_POSTS", 10)
    async with open_writer(path) as writer:
        with locked(path):
            for number in range(500):
                writer.post(asked(f"/{number}"))
            lost = writer.state()["lost"]
        await writer.flush()
    urls = [row["url"] for row in packets(path)]
    assert urls[-1] == "/499"
    assert len(urls) == 500 - lost
    assert 430 <= lost <= 450
    assert is_whole(path)


FULL = """
import asyncio, json, resource, sys
from pathlib import Path
from tests.integration.intercept.history_rig import answer, asked, open_writer
from tests.support.until import until

NONE = resource.RLIM_INFINITY

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

async def main():
    told = []
    async with open_writer(Path(sys.argv[1])) as writer:
        limit(300_000)
        exchanges = []
        for number in range(200):
            exchange = asked(f"/{number}", b"x" * 5000)
            exchanges.append(exchange)
            writer.post(exchange)
            await writer.recorded(exchange)
            if not writer.state()["ok"]:
                break
        told.append(writer.state())
        for number in range(1000, 1020):
            writer.post(asked(f"/{number}"))
        limit(NONE)
        await until(lambda: writer.state()["ok"])
        await writer.flush()
        told.append(writer.state())
        shown = [exchange.request_id for exchange in exchanges]
    print(json.dumps({"told": told, "posted": len(exchanges) + 20, "shown": shown}))
asyncio.run(main())
"""


def test_a_full_disk_is_said_and_nothing_is_lost_when_there_is_space_again(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    full, again = report["told"]
    assert not full["ok"]
    assert "cannot be written" in full["reason"]
    assert again["ok"]
    assert again["lost"] == 0
    rows = packets(path)
    assert len(rows) == report["posted"]
    assert rows[-1]["url"] == "/1019"
    assert all(report["shown"])
    assert is_whole(path)


FULL_FOR_INDEX = """
import asyncio, json, resource, sys
from pathlib import Path
from pilothouse.intercept.history import writer as history
from tests.integration.intercept.history_rig import answer, asked, indexed, open_writer, size
from tests.support.until import until

history.IDLE_S = 0.5

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

async def main():
    path = Path(sys.argv[1])
    async with open_writer(path) as writer:
        for number in range(300):
            writer.post(answer(asked(f"/{number}"), b"word-%d " % number * 100))
        await writer.flush()
        told = [writer.state()]
        limit(size(path, "-wal"))
        await until(lambda: not writer.state()["ok"])
        told.append(writer.state())
        limit(resource.RLIM_INFINITY)
        await until(lambda: writer.state()["ok"])
        await indexed(path)
        told.append(writer.state())
    print(json.dumps(told))
asyncio.run(main())
"""


def test_a_disk_too_full_for_the_index_is_said_and_the_index_is_made_when_there_is_space(
    path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_FOR_INDEX, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, full, again = json.loads(done.stdout)
    assert before["ok"]
    assert "cannot be written" in full["reason"]
    assert again["ok"]
    assert again["lost"] == 0
    assert len(packets(path)) == 600
    assert found(path, "text", "word-299") == [600]
    assert is_whole(path)


async def test_what_could_not_be_written_until_the_end_is_counted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "BUSY_S", 0.2)
    async with open_writer(path) as writer:
        with locked(path):
            writer.post(answer(asked("/lost")))
            await writer.close()
            assert writer.state()["lost"] == 2
            assert not writer.state()["ok"]

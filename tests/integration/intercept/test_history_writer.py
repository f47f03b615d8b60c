"""Exchanges become rows: soon, whole and counted, whatever else uses the file or the disk."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pilothouse.intercept import history, history_file, indexing
from pilothouse.intercept.model import Exchange
from tests.integration.intercept.history_rig import (
    GUARD_S,
    ROOT,
    answer,
    asked,
    facts,
    found,
    indexed,
    is_whole,
    mode,
    open_writer,
    packets,
    select,
    sent,
    size,
    spoil,
    started,
    tables,
    until,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.db"


# Rows


async def test_an_exchange_is_two_rows_that_know_of_each_other(path: Path) -> None:
    async with open_writer(path) as writer:
        exchange = asked("/cart?id=7", b"question", session="s1", key="k1")
        writer.post(exchange)
        await writer.recorded(exchange)
        (before,) = packets(path)
        assert (before["id"], before["status"], before["peer_id"]) == (
            exchange.request_id,
            None,
            None,
        )
        writer.post(answer(exchange, b"reply", 404))
        await writer.recorded(exchange)
    request, response = packets(path)
    assert (request["id"], response["id"]) == (exchange.request_id, exchange.response_id)
    assert (request["is_response"], response["is_response"]) == (0, 1)
    for row, peer in ((request, response), (response, request)):
        assert row["group_id"] == request["id"]
        assert (row["method"], row["url"], row["status"]) == ("GET", "/cart?id=7", 404)
        assert (row["duration_ms"], row["session"], row["key"]) == (12.5, "s1", "k1")
        assert row["peer_id"] == peer["id"]
        assert (row["peer_time"], row["peer_length"]) == (peer["time"], peer["length"])
        assert row["peer_modified"] == 0
    assert request["body"] == b"question"
    assert response["body"] == b"reply"
    assert is_whole(path)


async def test_both_sides_posted_at_once_give_the_same_rows(path: Path) -> None:
    async with open_writer(path) as writer:
        slow, fast = asked("/slow"), asked("/fast")
        writer.post(slow)
        await writer.recorded(slow)
        writer.post(answer(slow))
        writer.post(fast)
        writer.post(answer(fast))
        await writer.flush()
    rows = packets(path)
    assert [(row["url"], row["is_response"]) for row in rows] == [
        ("/slow", 0), ("/slow", 1), ("/fast", 0), ("/fast", 1),
    ]  # fmt: skip
    names = ("group_id", "status", "duration_ms", "peer_id")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (1, 200, 12.5, 2), (1, 200, 12.5, 1), (3, 200, 12.5, 4), (3, 200, 12.5, 3),
    ]  # fmt: skip


async def test_ids_follow_the_order_of_the_posts(path: Path) -> None:
    async with open_writer(path) as writer:
        first, second = asked("/1"), asked("/2")
        writer.post(first)
        writer.post(second)
        writer.post(answer(second))
        writer.post(answer(first))
        await writer.flush()
    assert (first.request_id, second.request_id) == (1, 2)
    assert (second.response_id, first.response_id) == (3, 4)


async def test_an_exchange_that_failed_says_why_in_the_row_of_its_request(path: Path) -> None:
    async with open_writer(path) as writer:
        exchange = asked()
        writer.post(exchange)
        await writer.recorded(exchange)
        exchange.error = "connection refused"
        writer.post(exchange)
        await writer.recorded(exchange)
    (row,) = packets(path)
    assert (row["status"], row["error"], row["peer_id"]) == (None, "connection refused", None)
    assert facts(path)["rows"] == 1


async def test_a_message_is_one_row_of_its_own_group(path: Path) -> None:
    async with open_writer(path) as writer:
        for body in (b"one", b"two"):
            message = Exchange(connection="w1", kind="WebSocket", response=sent(b"", body))
            writer.post(message)
        await writer.recorded(message)
        assert (message.request_id, message.response_id) == (0, 2)
    rows = packets(path)
    assert [(row["id"], row["group_id"], row["is_response"]) for row in rows] == [
        (1, 1, 1),
        (2, 2, 1),
    ]
    assert [row["method"] for row in rows] == [None, None]


async def test_what_was_modified_keeps_its_original(path: Path) -> None:
    async with open_writer(path) as writer:
        exchange = asked()
        exchange.request = sent(b"GET /b\r\n\r\n", b"b", modified=True, original=(b"GET /a", b"a"))
        writer.post(exchange)
        await writer.recorded(exchange)
    (row,) = packets(path)
    assert (row["modified"], row["original_head"], row["original_body"]) == (1, b"GET /a", b"a")


async def test_text_that_no_encoding_takes_is_recorded_all_the_same(path: Path) -> None:
    async with open_writer(path) as writer:
        strange, plain = asked("/strange"), asked("/plain")
        strange.url = "/\udcff?x"
        strange.listener = 1 << 70
        writer.post(strange)
        writer.post(plain)
        await writer.flush()
    assert [row["url"] for row in packets(path)] == ["/??x", "/plain"]


async def test_an_exchange_that_cannot_be_recorded_is_lost_alone(path: Path) -> None:
    async with open_writer(path) as writer:
        exchanges = [asked(f"/{number}") for number in range(5)]
        exchanges[2].server_name = None  # type: ignore[assignment]
        for exchange in exchanges:
            writer.post(exchange)
        await writer.flush()
        assert writer.state()["lost"] == 1
        assert writer.state()["ok"]
    assert [row["url"] for row in packets(path)] == ["/0", "/1", "/3", "/4"]
    assert is_whole(path)


async def test_a_row_is_there_soon_without_being_waited_for(path: Path) -> None:
    heard: list[Exchange] = []
    async with open_writer(path, on_rows=heard.extend) as writer:
        exchange = asked()
        begun = time.monotonic()
        writer.post(exchange)
        assert exchange.request_id == 0
        await until(lambda: bool(heard))
        assert time.monotonic() - begun < 1.0
        assert heard == [exchange]
        assert [row["id"] for row in packets(path)] == [exchange.request_id]


async def test_a_post_never_waits_for_the_file(path: Path) -> None:
    async with open_writer(path) as writer:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            begun = time.monotonic()
            for number in range(100):
                writer.post(asked(f"/{number}"))
            assert time.monotonic() - begun < 0.5
            other.execute("ROLLBACK")
        await writer.flush()
    assert len(packets(path)) == 100


async def test_nobody_else_may_read_the_file(path: Path) -> None:
    async with open_writer(path) as writer:
        writer.post(asked())
        await writer.flush()
        for end in ("", "-wal", "-shm"):
            assert mode(path, end) == 0o600
        assert mode(path.parent) == 0o700


async def test_ids_go_on_after_a_restart(path: Path) -> None:
    for number in range(3):
        async with open_writer(path) as writer:
            exchange = asked()
            writer.post(answer(exchange))
            await writer.recorded(exchange)
            assert (exchange.request_id, exchange.response_id) == (2 * number + 1, 2 * number + 2)
    assert is_whole(path)


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.integration.intercept.history_rig import answer, asked, open_writer

async def main():
    async with open_writer(Path(sys.argv[1])) as writer:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(400):
            exchange = asked(f"/child/{number}")
            writer.post(exchange)
            if number % 3 == 0:
                await writer.recorded(exchange)
            writer.post(answer(exchange))
            await asyncio.sleep(0)
asyncio.run(main())
"""


async def test_two_processes_write_one_file(path: Path) -> None:
    with started(CHILD, str(path)) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert await anyio.to_thread.run_sync(child.stdout.readline) == "ready\n"
        async with open_writer(path) as writer:
            child.stdin.write("go\n")
            child.stdin.flush()
            for number in range(400):
                exchange = asked(f"/parent/{number}")
                writer.post(exchange)
                if number % 3 == 0:
                    await writer.recorded(exchange)
                writer.post(answer(exchange))
                await anyio.lowlevel.checkpoint()
            await writer.flush()
            assert await anyio.to_thread.run_sync(child.wait, GUARD_S) == 0
            await indexed(path)
            assert writer.state()["ok"]
    rows = packets(path)
    assert len(rows) == 1600
    by_url: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_url.setdefault(row["url"], []).append(row)
    for one, two in by_url.values():
        assert one["group_id"] == two["group_id"] == one["id"]
        assert (one["peer_id"], two["peer_id"]) == (two["id"], one["id"])
        assert one["status"] == two["status"] == 200
    assert is_whole(path)


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


async def test_the_oldest_go_when_the_file_is_full(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "SEGMENT", 500)
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
    oldest = rows[0]["id"] // 500
    assert {int(name.partition("_")[2]) for name in tables(path)} <= set(range(oldest, 10))
    assert size(path) <= limit * 1.1


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


async def test_the_index_of_a_small_file_is_begun_anew_when_most_of_it_is_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "WASTE", 100)
    async with open_writer(path, max_bytes=2 << 20) as writer:
        for number in range(1200):
            writer.post(answer(asked(f"/{number}"), b"word-%d " % number * 200))
            if number % 20 == 0:
                await indexed(path)
        last = asked("/needle-in-url")
        writer.post(answer(last, b"needle-in-text"))
        await writer.recorded(last)
        await until(lambda: size(path) <= 2.2 * (1 << 20))
        await until(lambda: not any(name.startswith("gone") for name in tables(path)))
        await indexed(path)
        kept = [row["id"] for row in packets(path)]
        assert facts(path)["index_began"] > 0
        assert len(kept) > 100
        assert last.response_id in found(path, "text_0", "needle-in-text")
        middle = select(path, "SELECT id, url FROM packets WHERE id = ?", kept[len(kept) // 2])[0]
        assert middle["id"] in found(path, "url_0", middle["url"])
    assert is_whole(path)


# The index


async def test_urls_and_texts_are_found_by_their_trigrams(path: Path) -> None:
    async with open_writer(path) as writer:
        zipped = asked("/api/Orders")
        writer.post(
            answer(zipped, gzip.compress(b"hidden Treasure"), headers="Content-Encoding: gzip\r\n")
        )
        other = asked("/static/app.js")
        writer.post(answer(other, b"nothing"))
        message = Exchange(connection="w", kind="WebSocket", request=sent(b"", b"\0\1frame-word\2"))
        writer.post(message)
        await writer.flush()
        await indexed(path)
    assert found(path, "url_0", "orders") == [zipped.request_id, zipped.response_id]
    assert found(path, "text_0", "treasure") == [zipped.response_id]
    assert found(path, "text_0", "frame-word") == [message.request_id]
    assert found(path, "text_0", "no such words") == []


async def test_a_long_text_is_found_by_any_part_of_it(path: Path) -> None:
    size = 3 * indexing.STEP_CHARS
    words = "".join(f"<{number}>" for number in range(size // 6))
    border = indexing.STEP_CHARS
    async with open_writer(path) as writer:
        exchange = asked("/long")
        writer.post(answer(exchange, words.encode()))
        await writer.flush()
        await indexed(path)
    text = "HTTP/1.1 200 OK\r\n\r\n" + words
    for literal in (words[:30], words[-30:], text[border - 9 : border + 9]):
        assert found(path, "text_0", literal) == [exchange.response_id]
    assert is_whole(path)


async def test_each_segment_has_tables_of_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "SEGMENT", 50)
    async with open_writer(path) as writer:
        for number in range(60):
            writer.post(answer(asked(f"/number/{number}")))
        await writer.flush()
        await indexed(path)
    assert tables(path) == ["text_0", "text_1", "text_2", "url_0", "url_1", "url_2"]
    assert found(path, "url_2", "/number/59") == [119, 120]


async def test_the_index_keeps_up_while_traffic_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "IDLE_S", 60.0)
    monkeypatch.setattr(history, "TAIL", 100)
    async with open_writer(path) as writer:
        number = 0
        with anyio.fail_after(GUARD_S):
            while facts(path)["indexed_to"] < 500:
                number += 1
                writer.post(answer(asked(f"/{number}")))
                await anyio.sleep(0.001)


# A slow disk, a full disk


async def test_bodies_are_left_out_when_the_disk_cannot_keep_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "QUEUE_BYTES", 1_000_000)
    async with open_writer(path) as writer:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for number in range(100):
                writer.post(asked(f"/{number}", b"x" * 50_000))
            dropped = writer.state()["bodies_dropped"]
            other.execute("ROLLBACK")
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
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for number in range(500):
                writer.post(asked(f"/{number}"))
            lost = writer.state()["lost"]
            other.execute("ROLLBACK")
        await writer.flush()
    urls = [row["url"] for row in packets(path)]
    assert urls[-1] == "/499"
    assert len(urls) == 500 - lost
    assert 430 <= lost <= 450
    assert is_whole(path)


FULL = """
import asyncio, json, resource, sys
from pathlib import Path
from tests.integration.intercept.history_rig import answer, asked, open_writer, until

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


async def test_what_could_not_be_written_until_the_end_is_counted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_file, "BUSY_S", 0.2)
    async with open_writer(path) as writer:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writer.post(answer(asked("/lost")))
            await writer.close()
            assert writer.state()["lost"] == 2
            assert not writer.state()["ok"]

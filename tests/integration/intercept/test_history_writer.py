"""Exchanges become rows: soon, whole and counted, and found by their text."""

from __future__ import annotations

import gzip
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pilothouse.intercept.history import checkpoint, file, text_indexer
from pilothouse.intercept.history import writer as history
from pilothouse.intercept.history.segments import segments
from pilothouse.intercept.model import ConnectionEnd, Exchange
from tests.integration.intercept.history_rig import (
    GUARD_S,
    answer,
    asked,
    facts,
    found,
    indexed,
    is_whole,
    locked,
    mode,
    open_writer,
    packets,
    select,
    sent,
    size,
    started,
    tables,
)
from tests.support.until import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


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
        exchange.kind, exchange.server = "SSE", ConnectionEnd("127.0.0.3", 8443)
        writer.post(answer(exchange, b"reply", 404))
        await writer.recorded(exchange)
    request, response = packets(path)
    assert (request["id"], response["id"]) == (exchange.request_id, exchange.response_id)
    assert (request["is_response"], response["is_response"]) == (0, 1)
    for row, peer in ((request, response), (response, request)):
        assert row["group_id"] == request["id"]
        assert (row["method"], row["url"], row["status"]) == ("GET", "/cart?id=7", 404)
        assert (row["duration_ms"], row["session"], row["key"]) == (12.5, "s1", "k1")
        assert (row["type"], row["server_ip"], row["server_port"]) == ("SSE", "127.0.0.3", 8443)
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
        writer.post(exchange)
        assert exchange.request_id == 0
        await until(lambda: bool(heard))
        assert heard == [exchange]
        assert packets(path)[-1]["id"] == exchange.request_id


async def test_a_post_never_waits_for_the_file(path: Path) -> None:
    async with open_writer(path) as writer:
        with locked(path):
            for number in range(100):
                writer.post(asked(f"/{number}"))
            # All are posted, and none is written: the file is still another's.
            assert packets(path) == []
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


async def test_what_is_committed_is_carried_over_into_the_file_while_it_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "EVERY_S", 0.05)
    async with open_writer(path) as writer:
        writer.post(answer(asked(), b"x" * 200_000))
        await writer.flush()
        # Far less than makes a commit do it.
        assert size(path, "-wal") < file.LOG_PAGES * 4096 / 4
        await until(lambda: size(path) > 200_000)
        # The log begins anew again and again: otherwise it would grow with each post.
        sizes = [size(path, "-wal")]
        with anyio.fail_after(GUARD_S):
            while sizes.count(sizes[-1]) < 4:
                writer.post(asked("/", b"x" * 50_000))
                await writer.flush()
                await anyio.sleep(0.1)
                sizes.append(size(path, "-wal"))
    assert is_whole(path)


# The index


async def test_urls_and_texts_are_found_by_their_trigrams(path: Path) -> None:
    async with open_writer(path) as writer:
        zipped = asked("/api/Orders")
        writer.post(
            answer(zipped, gzip.compress(b"hidden Treasure"), headers="Content-Encoding: gzip\r\n")
        )
        other = asked("/static/app.js")
        writer.post(answer(other, 'nothing 🚀🚀🚀 "\\'.encode()))
        message = Exchange(connection="w", kind="WebSocket", request=sent(b"", b"\0\1frame-word\2"))
        writer.post(message)
        await writer.flush()
        await indexed(path)
    assert found(path, "url", "orders") == [zipped.request_id, zipped.response_id]
    assert found(path, "text", "treasure") == [zipped.response_id]
    assert found(path, "text", "frame-word") == [message.request_id]
    assert found(path, "text", '🚀🚀🚀 "\\') == [other.response_id]
    assert found(path, "text", "no such words") == []


async def test_a_long_text_is_found_by_any_part_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_indexer, "LEAST_CHARS", 1000)
    monkeypatch.setattr(text_indexer, "MOST_CHARS", 1000)
    # No three characters of it come twice, so that none stands in for one that was left out.
    text = "".join(random.Random(1).sample([chr(code) for code in range(0x4E00, 0x9F00)], 8000))
    async with open_writer(path) as writer:
        exchange = asked("/long")
        writer.post(answer(exchange, text.encode(), headers="Content-Type: text/plain\r\n"))
        await writer.flush()
        await indexed(path)
    for start in range(0, len(text), 100):
        assert found(path, "text", text[start : start + 102]) == [exchange.response_id]
    assert is_whole(path)


def blocks(path: Path, segment: int) -> int:
    """Into how many pieces, each to be searched on its own, the index of its texts falls."""
    (found,) = select(path, f"SELECT count(DISTINCT segid) AS n FROM text_{segment}_idx")
    return int(found["n"])


async def test_a_segment_that_is_full_is_merged_and_followed_by_another(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SEGMENTS", (1 << 30) // 500)
    monkeypatch.setattr(text_indexer, "STEP_ROWS", 10)
    async with open_writer(path, max_bytes=1 << 30) as writer:
        for number in range(60):
            writer.post(answer(asked(f"/number/{number}")))
        await writer.flush()
        await indexed(path)
        there = segments(tables(path))
        assert len(there) > 2
        await until(lambda: all(blocks(path, first) == 1 for first in there[:-1]))
    for first, following in pairwise([*there, 121]):
        held = select(path, f"SELECT id FROM url_{first}_docsize ORDER BY id")
        assert [row["id"] for row in held] == list(range(first, following))
    assert found(path, "url", "/number/59") == [119, 120]


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

"""The listener against a plain upstream: bodies and streams that pass, and who is told what when
somebody goes away."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.hub.model import Key
from tests.support.listener_rig import GUARD_S, Asked, call, hello, listen, modern, plain, request
from tests.support.until import until
from tests.support.upstream_scripts import (
    EVENTS,
    TEMPLATE,
    echo,
    hanging_up,
    methods,
    stream,
    worker,
)

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.anyio

STANDSTILL = 100
"""Turns of the loop in which all that is ready would have been read."""

# Bodies


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_000_000, 4_000_000])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_large_message_passes_whole_both_ways(
    tmp_path: Path, size: int, is_chunked: bool
) -> None:
    async def mirror(asked: Asked) -> None:
        asked.result({"said": asked.message["params"]["arguments"]["text"]})
        await asked.writer.drain()

    async with plain(tmp_path / "w", worker(mirror)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        message, fields = modern(call("work", text="x" * size))
        body = json.dumps(message).encode()
        kind = ("Content-Type: application/json", "Accept: */*")
        if is_chunked:
            client.request("POST", "/mcp", *kind, *fields, "Transfer-Encoding: chunked")
            for at in range(0, len(body), 100_000):
                piece = body[at : at + 100_000]
                client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
                await client.writer.drain()
            client.send(b"0\r\n\r\n")
        else:
            client.request("POST", "/mcp", *kind, *fields, body=body)
        got = await client.answer()
        assert got.json["result"]["said"] == "x" * size


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_message_that_is_too_large_is_refused_and_read_to_its_end(
    tmp_path: Path, is_chunked: bool
) -> None:
    async with plain(tmp_path / "w", worker(echo)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        body = b'"' + b"x" * (5 * 1024 * 1024) + b'"'
        if is_chunked:
            client.request("POST", "/mcp", "Transfer-Encoding: chunked")
            client.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        else:
            client.request("POST", "/mcp", body=body)
        got = await client.answer()
        assert (got.status, got.json["error"]["code"]) == (413, -32600)
        await client.initialize()  # on the same connection


async def test_a_body_far_too_large_is_refused_at_once(tmp_path: Path) -> None:
    async with plain(tmp_path / "w", worker(echo)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        client.request("POST", "/mcp", "Content-Length: 100000000")
        client.send(b"x" * 100_000)
        got = await client.answer()
        assert got.status == 413
        assert got.head.first("connection") == "close"
        assert await client.read() == b""


async def test_a_client_that_waits_to_be_told_to_go_on_is_told(tmp_path: Path) -> None:
    async with plain(tmp_path / "w", worker(echo)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        body = json.dumps(hello()).encode()
        waits = ("Expect: 100-continue", f"Content-Length: {len(body)}", "Accept: */*")
        client.request("POST", "/mcp", "Content-Type: application/json", *waits)
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        client.send(body)
        assert (await client.answer()).status == 200


async def test_requests_sent_ahead_are_answered_in_their_order(tmp_path: Path) -> None:
    async with plain(tmp_path / "w", worker(echo)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        message, fields = modern(call("work"))
        for number in range(5):
            client.post({**message, "id": number}, *fields)
        assert [(await client.answer()).json["id"] for _ in range(5)] == list(range(5))


async def test_a_client_of_http_1_0_gets_an_answer_that_ends_with_the_connection(
    tmp_path: Path,
) -> None:
    async def old(asked: Asked) -> None:
        assert asked.head.minor == "0"
        asked.writer.write(f"HTTP/1.0 200 OK\r\n{EVENTS}\r\n\r\ndata: 1\n\n".encode())
        asked.writer.close()

    async with plain(tmp_path / "w", worker(old)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        message, fields = modern(call("work"))
        body = json.dumps(message).encode()
        fields += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
        lines = ["POST /mcp HTTP/1.0", "Host: localhost", *fields]
        client.send("\r\n".join([*lines, "", ""]).encode() + body)
        got = await client.answer()
        assert (got.status, got.body) == (200, b"data: 1\n\n")
        assert "transfer-encoding" not in got.head.values


# Streams


async def test_events_pass_as_they_come(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(asked: Asked) -> None:
        stream(asked, b"event: message\r\ndata: 1\r\n\r\n")
        await go_on.wait()
        asked.writer.write(b"5\r\n: hi\n\r\n0\r\n\r\n")

    async with plain(tmp_path / "w", worker(slow)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        message, fields = modern(call("work"))
        client.post(message, *fields)
        await client.until(b"data: 1\r\n\r\n\r\n")
        go_on.set()
        assert await client.until(b"0\r\n\r\n") == b"5\r\n: hi\n\r\n0\r\n\r\n"
        await client.initialize()  # on the same connection


async def test_a_client_that_leaves_takes_the_workers_connection_along(tmp_path: Path) -> None:
    async def endless(asked: Asked) -> None:
        stream(asked, b": on\n\n")
        await asked.reader.read()  # until it hangs up
        upstream.hung_up.set()

    async with (
        plain(tmp_path / "w", worker(endless)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        for leave in ("close", "abort"):
            upstream.hung_up.clear()
            client = await rig.connect()
            message, fields = modern(call("work"))
            client.post(message, *fields)
            await client.until(b": on\n\n")
            assert set(crew.leases.values()) == {1}
            getattr(client, leave)()
            async with asyncio.timeout(GUARD_S):
                await upstream.hung_up.wait()
            await until(lambda: set(crew.leases.values()) == {0})
            await until(lambda: len(rig.listener) == 0)


async def test_a_client_that_does_not_read_slows_the_worker_down(tmp_path: Path) -> None:
    sent = 0
    waits = False

    async def flood(asked: Asked) -> None:
        nonlocal sent, waits
        stream(asked, b": on\n\n")
        event = b"data: " + b"x" * 65_000 + b"\n\n"
        for _ in range(1_000):
            asked.writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            waits = True
            await asked.writer.drain()
            waits = False
            sent += 1
        asked.writer.write(b"0\r\n\r\n")

    async with plain(tmp_path / "w", worker(flood)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        message, fields = modern(call("work"))
        client.post(message, *fields)
        await client.until(b": on\n\n")
        last, turns = sent, 0
        while turns < STANDSTILL:
            await asyncio.sleep(0.001)
            turns = turns + 1 if waits and sent == last else 0
            last = sent
        assert sent < 900
        got = 0
        while got < 1_000 * 65_000:
            got += len(await client.read(1 << 20))
        await until(lambda: sent == 1_000)


async def test_listening_does_not_keep_a_worker_busy(tmp_path: Path) -> None:
    async def listened(asked: Asked) -> None:
        stream(asked, b": on\n\n")
        await asked.reader.read()

    async with plain(tmp_path / "w", worker(listened)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        message, fields = modern(request("subscriptions/listen", {"notifications": {}}))
        client.post(message, *fields)
        await client.until(b": on\n\n")
        await until(lambda: crew.leases == {Key("local", ""): 0})
        assert len(rig.listener) == 1


# Workers that go away


@pytest.mark.parametrize("era", ["2025", "2026"])
async def test_a_worker_that_dies_before_it_answers_is_told_of(tmp_path: Path, era: str) -> None:
    async def dies(asked: Asked) -> None:
        asked.writer.transport.abort()

    async with (
        plain(tmp_path / "w", worker(dies)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        message: Any = call("work", id="a")
        fields: list[str] = []
        if era == "2026":
            message, fields = modern(message)
        else:
            fields = [f"Mcp-Session-Id: {await client.initialize()}"]
        client.post(message, *fields)
        got = await client.answer()
        assert got.status == 502
        assert (got.json["id"], got.json["error"]["code"]) == ("a", -32603)
        assert "call again" in got.json["error"]["message"]
        assert methods(upstream.asked).count("tools/call") == 1  # nothing is sent twice
        await client.initialize()  # on the same connection


async def test_a_stream_that_the_worker_cut_ends_with_an_error_of_the_call(tmp_path: Path) -> None:
    async def cut(asked: Asked) -> None:
        stream(asked, b"id: 1\r\ndata: \r\n\r\n")
        await asked.writer.drain()
        asked.writer.close()

    async with (
        plain(tmp_path / "w", worker(cut)) as (_, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        session = await client.initialize()
        client.post(call("work", id=5), f"Mcp-Session-Id: {session}")
        got = await client.answer()
        assert got.whole
        last = got.body.decode().strip().splitlines()[-1]
        error = json.loads(last.removeprefix("data: "))
        assert error["id"] == 5
        assert "went away" in error["error"]["message"]
        await client.initialize()  # on the same connection


@pytest.mark.parametrize(
    "piece",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"20\r\ndata: {",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"8\r\ndata: {x\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"zz\r\n",
    ],
)
async def test_an_answer_that_was_cut_does_not_look_whole(tmp_path: Path, piece: bytes) -> None:
    async with (
        plain(tmp_path / "w", worker(hanging_up(piece))) as (_, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        message, fields = modern(call("work"))
        client.post(message, *fields)
        got = await client.answer()
        assert not got.whole or got.status == 502


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBad Header\r\n\r\n",
        b"",
    ],
)
async def test_an_answer_that_is_no_http_becomes_an_error(tmp_path: Path, answer: bytes) -> None:
    async with (
        plain(tmp_path / "w", worker(hanging_up(answer))) as (_, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        message, fields = modern(call("work"))
        client.post(message, *fields)
        assert (await client.answer()).status == 502


async def test_a_worker_that_cannot_be_reached_is_replaced_before_the_client_notices(
    tmp_path: Path,
) -> None:
    async with plain(tmp_path / "w", worker(echo)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        session = await client.initialize()
        key = Key("session", session)
        client.post(call("work"), f"Mcp-Session-Id: {session}")
        await client.answer()
        gone = crew.hands[key]
        address = type(gone.address)("worker.example", path=str(tmp_path / "gone"))
        gone.address = address
        asyncio.get_running_loop().call_later(0.05, crew.lose, key)
        client.post(call("work", id=2), f"Mcp-Session-Id: {session}")
        got = await client.answer()
        assert (got.status, got.json["id"]) == (200, 2)
        assert crew.started == [key, key]


async def test_connections_to_a_worker_are_used_again(tmp_path: Path) -> None:
    async with (
        plain(tmp_path / "w", worker(echo)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        message, fields = modern(call("work"))
        for _ in range(20):
            client.post(message, *fields)
            assert (await client.answer()).status == 200
        assert upstream.connections == 1


async def test_an_answer_without_a_length_is_given_one_that_can_be_checked(tmp_path: Path) -> None:
    async def old(asked: Asked) -> None:
        asked.writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}")
        await asked.writer.drain()
        asked.writer.close()

    async with plain(tmp_path / "w", worker(old)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        message, fields = modern(call("work"))
        client.post(message, *fields)
        got = await client.answer()
        assert (got.body, got.head.first("transfer-encoding")) == (b"{}", "chunked")
        await client.initialize()  # on the same connection


async def test_a_slow_client_leaves_no_trace_on_the_connection_that_served_it(
    tmp_path: Path,
) -> None:
    async def much(asked: Asked) -> None:
        asked.result({"said": "x" * asked.message["params"]["arguments"]["size"]})
        await asked.writer.drain()

    async with plain(tmp_path / "w", worker(much)) as (_, crew), listen(crew, TEMPLATE) as rig:
        for size in range(2_400_000, 2_700_000, 30_000):
            slow, quick = await rig.connect(), await rig.connect()
            message, fields = modern(call("work", size=size))
            slow.post(message, *fields)
            await slow.head()
            await asyncio.sleep(0.01)
            message, fields = modern(call("work", size=1))
            quick.post(message, *fields)
            assert (await quick.answer()).json["result"]["said"] == "x"
            slow.abort()

"""What is sent arrives byte for byte, and every way a response can end is understood."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from typing import TYPE_CHECKING

import pytest

from pilothouse.intercept.replay.http1_response import MOST_BODY
from pilothouse.intercept.replay.sockets import Outcome, Sender, SendTarget
from tests.integration.intercept.history_rig import CLOCK
from tests.integration.intercept.resend_rig import ALL_BYTES, GUARD_S, OK, http2_server, wire_server
from tests.support.upstreams import authority, tcp_upstream, udp_upstream

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SENDER = Sender(CLOCK, ssl_insecure=True)


def to(port: int, *, is_secure: bool = False, host: str = "localhost") -> SendTarget:
    return SendTarget(host=host, ip="127.0.0.1", port=port, is_secure=is_secure)


async def sent(port: int, head: bytes = GET, body: bytes = b"", timeout_s: float = 10.0) -> Outcome:
    async with asyncio.timeout(GUARD_S):
        return await SENDER.http(to(port), head, body, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 256\r\n\r\n", ALL_BYTES),
        (b"GET /\xff\x00 HTTP/1.1\r\nhOsT:x\r\nX-A: 1\r\nx-a:  2 \r\nX-B: a\r\n b\r\n\r\n", b""),
        (b"G\xe9T  /two  spaces HTTP/9.9\r\nbad name: 1\r\nno colon\r\n: empty\r\n\r\n", b""),
        (b"GET / HTTP/1.1\nHost: bare-lf\n\n", b""),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\n", b"abc"),
        (b"POST / HTTP/1.1\r\nContent-Length: 3 \r\nTransfer-Encoding: xchunked\r\n\r\n", b"abc"),
    ],
    ids=["all bytes", "odd headers", "malformed", "bare lf", "two lengths", "odd coding"],
)
async def test_a_request_arrives_as_it_is(head: bytes, body: bytes) -> None:
    async with wire_server() as wire:
        outcome = await sent(wire.port, head, body)
    assert wire.came == [head + body]
    assert (outcome.error, outcome.response.status) == ("", 200)
    assert bytes(outcome.response.body) == b"ok"


async def test_a_chunked_request_is_sent_in_chunks_with_its_trailers() -> None:
    head = b"POST / HTTP/1.1\r\ntransfer-ENCODING: chunked\r\n\r\n"
    async with wire_server() as wire:
        outcome = await SENDER.http(to(wire.port), head, ALL_BYTES, b"X-Sum: 1\r\n")
    assert wire.came == [head + b"100\r\n" + ALL_BYTES + b"\r\n0\r\nX-Sum: 1\r\n\r\n"]
    assert outcome.error == ""


PLAIN = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BOTH = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n"
BARE = b"HTTP/1.0 200 OK\nContent-Length: 2\n\n"
EARLY = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: 1\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "head", "body", "trailers"),
    [
        (OK + b"surplus", OK[:-2], b"ok", b""),
        (PLAIN + b"until close", PLAIN, b"until close", b""),
        (CHUNKED + b"2;x\r\nab\r\n1\r\nc\r\n0\r\nT: 1\r\n\r\n", CHUNKED, b"abc", b"T: 1\r\n"),
        (EARLY + OK, OK[:-2], b"ok", b""),
        (BARE + b"ok", BARE, b"ok", b""),
        (BOTH + b"1\r\nx\r\n0\r\n\r\n", BOTH, b"x", b""),
    ],
    ids=["length", "until close", "chunked", "1xx first", "bare lf", "chunked and length"],
)
async def test_each_kind_of_response_is_read_to_its_end(
    answer: bytes, head: bytes, body: bytes, trailers: bytes
) -> None:
    async with wire_server(answer) as wire:
        outcome = await sent(wire.port)
    response = outcome.response
    assert outcome.error == ""
    assert (response.head, bytes(response.body), response.trailers) == (head, body, trailers)
    assert response.body_length == len(body)
    assert outcome.started <= response.time <= outcome.ended


@pytest.mark.parametrize(
    ("request_head", "answer"),
    [
        (GET.replace(b"GET", b"HEAD"), b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"),
        (GET, b"HTTP/1.1 204 No Content\r\n\r\n"),
        (GET, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"),
        (GET, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"),
        (GET, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ],
    ids=["HEAD", "204", "304", "101", "empty"],
)
async def test_a_response_without_a_body_ends_though_the_connection_stays_open(
    request_head: bytes, answer: bytes
) -> None:
    async with wire_server(answer, closes=False) as wire:
        outcome = await sent(wire.port, request_head)
    assert (outcome.error, outcome.response.head) == ("", answer)
    assert not outcome.response.body


@pytest.mark.parametrize(
    ("answer", "error", "kept"),
    [
        (b"", "without a response", b""),
        (b"HTTP/1.1 200 OK\r\nContent-", "inside of the response's head", b""),
        (OK[:-1], "before the end of the response's body", b"o"),
        (CHUNKED + b"5\r\nab", "before the end", b"ab"),
        (CHUNKED + b"zz\r\n", "chunks", b""),
        (b"SSH-2.0-server\r\n", "no HTTP response", b"SSH-2.0-server\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 300_000, "head does not end", b""),
    ],
    ids=["nothing", "cut head", "cut body", "cut chunk", "bad chunk", "no HTTP", "endless head"],
)
async def test_a_response_that_is_not_whole_is_kept_and_its_error_told(
    answer: bytes, error: str, kept: bytes
) -> None:
    async with wire_server(answer) as wire:
        outcome = await sent(wire.port)
    assert error in outcome.error
    assert bytes(outcome.response.body) == kept
    assert outcome.has_response == bool(answer)


async def test_a_large_body_is_counted_whole_and_kept_in_part() -> None:
    size = MOST_BODY * 3
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
    async with wire_server(head + bytes(size)) as wire:
        outcome = await sent(wire.port)
    assert outcome.error == ""
    assert len(outcome.response.body) == MOST_BODY
    assert outcome.response.body_length == size


async def test_a_server_that_answers_before_it_reads_is_heard() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    body = bytes(5_000_000)
    head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with server:
        outcome = await sent(server.sockets[0].getsockname()[1], head, body)
        server.close_clients()
    assert (outcome.error, outcome.response.status) == ("", 413)


async def test_a_server_that_never_answers_costs_the_timeout() -> None:
    async with wire_server(b"", closes=False) as wire:
        outcome = await sent(wire.port, timeout_s=2.0)
    assert outcome.error == "no end within 2000 ms, before a response came"
    assert outcome.ended - outcome.started < 30_000
    assert not outcome.has_response


async def test_an_endless_response_keeps_what_came_within_the_time() -> None:
    events = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
    async with wire_server(events, closes=False) as wire:
        outcome = await sent(wire.port, timeout_s=2.0)
    assert outcome.error == "no end within 2000 ms, while the response was read"
    assert bytes(outcome.response.body) == b"data: 1\n\n"


async def test_a_closed_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outcome = await sent(port)
    assert f"while connecting to 127.0.0.1:{port}" in outcome.error


@pytest.mark.parametrize("host", ["no-such-name.invalid", "a" * 70 + ".test", "..", ""])
async def test_a_name_that_leads_nowhere_is_an_outcome(host: str) -> None:
    target = SendTarget(host=host, port=1, is_secure=True)
    async with asyncio.timeout(GUARD_S):
        outcome = await SENDER.http(target, GET, b"", timeout_s=5.0)
    assert outcome.error.startswith("while connecting")


async def test_tls_asks_for_the_name_and_speaks_http_1(tmp_path: Path) -> None:
    context = authority(tmp_path).context("h2", "http/1.1")
    async with wire_server(context=context) as wire:
        outcome = await SENDER.http(to(wire.port, is_secure=True), GET, b"")
    assert (outcome.error, outcome.alpn, wire.names) == ("", "http/1.1", ["localhost"])
    assert wire.came == [GET]
    assert outcome.server.port == wire.port
    assert outcome.client.ip == "127.0.0.1"


async def test_an_untrusted_certificate_is_refused_unless_told_otherwise(tmp_path: Path) -> None:
    async with wire_server(context=authority(tmp_path).context()) as wire:
        strict = Sender(CLOCK)
        outcome = await strict.http(to(wire.port, is_secure=True), GET, b"")
        assert "certificate" in outcome.error.lower()
        assert wire.came == []
        trusting = Sender(CLOCK, ca_file=authority(tmp_path).ca_file)
        outcome = await trusting.http(to(wire.port, is_secure=True), GET, b"")
        assert outcome.error == ""
        outcome = await trusting.http(to(wire.port, is_secure=True, host="other.test"), GET, b"")
        assert "other.test" in outcome.error
        outcome = await SENDER.http(to(wire.port, is_secure=True), GET, b"")
        assert outcome.error == ""


@pytest.mark.parametrize("is_secure", [True, False])
async def test_http2_carries_headers_body_and_trailers(tmp_path: Path, is_secure: bool) -> None:
    context = authority(tmp_path).context("h2") if is_secure else None
    body = ALL_BYTES * 1_000  # more than the first window allows
    head = (
        b"POST /a?b HTTP/2.0\r\nhost: shop.test\r\nX-Odd: 1\r\ncookie: a=1\r\ncookie: b=2\r\n\r\n"
    )
    async with http2_server(context) as wire:
        async with asyncio.timeout(GUARD_S):
            outcome = await SENDER.http(
                to(wire.port, is_secure=is_secure), head, body, b"x-end: 1\r\n", is_http2=True
            )
    assert outcome.error == ""
    assert wire.headers == [
        [
            (b":method", b"POST"),
            (b":authority", b"shop.test"),
            (b":scheme", b"https" if is_secure else b"http"),
            (b":path", b"/a?b"),
            (b"x-odd", b"1"),
            (b"cookie", b"a=1"),
            (b"cookie", b"b=2"),
        ]
    ]
    assert bytes(wire.body) == body
    assert wire.trailers == [(b"x-end", b"1")]
    response = outcome.response
    assert response.head == b"HTTP/2.0 200 \r\nx-two: 1\r\nx-two: 2\r\n\r\n"
    assert (bytes(response.body), response.trailers) == (b"hello", b"x-sum: 9\r\n")
    assert (response.status, outcome.alpn) == (200, "h2" if is_secure else "")


async def test_a_stream_that_is_reset_is_told(tmp_path: Path) -> None:
    async with http2_server(authority(tmp_path).context("h2"), resets=True) as wire:
        outcome = await SENDER.http(to(wire.port, is_secure=True), GET, b"", is_http2=True)
    assert "reset the stream" in outcome.error
    assert "11" in outcome.error


async def test_a_server_without_http2_is_told(tmp_path: Path) -> None:
    async with wire_server(context=authority(tmp_path).context("http/1.1")) as wire:
        outcome = await SENDER.http(to(wire.port, is_secure=True), GET, b"", is_http2=True)
    assert "does not speak HTTP/2" in outcome.error


async def test_what_is_no_http2_at_all_is_told() -> None:
    async with wire_server(OK) as wire:
        outcome = await SENDER.http(to(wire.port), GET, b"", is_http2=True)
    assert outcome.error


async def test_a_payload_over_tcp_and_udp_comes_back() -> None:
    async with tcp_upstream() as tcp, udp_upstream() as udp:
        async with asyncio.timeout(GUARD_S):
            over_tcp = await SENDER.tcp(to(tcp.port), ALL_BYTES)
            over_udp = await SENDER.udp(to(udp.port), ALL_BYTES)
    for outcome in (over_tcp, over_udp):
        assert outcome.error == ""
        assert bytes(outcome.response.body) == ALL_BYTES
        assert outcome.client.port


async def test_a_payload_to_a_closed_port_is_an_outcome() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with asyncio.timeout(GUARD_S):
        assert (await SENDER.tcp(to(port), b"x")).error
        assert (await SENDER.udp(to(port), b"x")).error


@pytest.mark.parametrize("asks", [True, False])
async def test_a_reset_by_a_server_that_asked_for_a_certificate_says_so(
    tmp_path: Path, asks: bool
) -> None:
    context = authority(tmp_path).context()
    if asks:
        context.verify_mode = ssl.CERT_OPTIONAL

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        now = struct.pack("ii", 1, 0)  # without lingering: a reset, whatever is on the way
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
        writer.transport.abort()

    async with await asyncio.start_server(reset, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        outcome = await SENDER.http(to(port, is_secure=True), GET, b"")
    assert ("asks for a client certificate" in outcome.error) is asks, outcome.error
    assert asks or "reset" in outcome.error, outcome.error

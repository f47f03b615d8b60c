"""Packets sent again through real sockets and a real history: what goes out, what is kept."""

from __future__ import annotations

import gzip
import re
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import brotli
import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.model import WireMessage
from pilothouse.intercept.replay.http1 import content_length, parse_head, split_message
from tests.integration.intercept.history_rig import CLOCK
from tests.integration.intercept.resend_rig import (
    ALL_BYTES,
    GET,
    OK,
    Rig,
    Wire,
    bulk,
    http2_server,
    regex,
    resent,
    wire_server,
)
from tests.support.upstreams import authority, tcp_upstream, udp_upstream

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

# What goes out


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 256\r\n\r\n", ALL_BYTES),
        (b"POST / HTTP/1.1\r\nHost: a\r\nX-A:1\r\nx-a:  2\r\nCOOKIE: a\r\ncookie: b\r\n\r\n", b""),
        (b"POST / HTTP/1.1\r\nContent-Length: 99\r\nbad name: 1\r\nno colon\r\n\r\n", b"x" * 99),
    ],
    ids=["all bytes", "duplicates and spelling", "malformed"],
)
async def test_a_packet_is_sent_again_byte_for_byte(
    jobs_rig: Rig, wire: Wire, head: bytes, body: bytes
) -> None:
    packet_id = await jobs_rig.packet(wire.port, head, body)
    answer = await resent(jobs_rig, packet_id)
    assert wire.came == [head + body]
    assert (answer["success"], answer["sent_count"], answer["failed_count"]) == (True, 1, 0)


@pytest.mark.parametrize("coding", ["gzip", "br"])
async def test_a_compressed_body_is_byte_exact_unless_an_edit_hits_it(
    jobs_rig: Rig, wire: Wire, coding: str
) -> None:
    pack, unpack = {
        "gzip": (gzip.compress, gzip.decompress),
        "br": (brotli.compress, brotli.decompress),
    }[coding]
    body = pack(b'{"id": "abc"}' + ALL_BYTES)
    head = b"POST / HTTP/1.1\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (
        coding.encode(),
        len(body),
    )
    packet_id = await jobs_rig.packet(wire.port, head, body)
    await resent(jobs_rig, packet_id, modifications=[regex("nowhere", "x")])
    await resent(jobs_rig, packet_id, modifications=[regex('"abc"', '"{{index}}"')])
    assert wire.came[0] == head + body
    new_head, new_body = split_message(wire.came[1])
    assert unpack(new_body) == b'{"id": "1"}' + ALL_BYTES
    assert content_length(parse_head(new_head)) == len(new_body)


async def test_a_chunked_request_stays_chunked(jobs_rig: Rig, wire: Wire) -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    packet_id = await jobs_rig.packet(wire.port, head, ALL_BYTES, trailers=b"X-Sum: 1\r\n")
    await resent(jobs_rig, packet_id)
    assert wire.came == [head + b"100\r\n" + ALL_BYTES + b"\r\n0\r\nX-Sum: 1\r\n\r\n"]


async def test_the_spec_example_is_sent_as_it_says(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    answer = await resent(
        jobs_rig,
        packet_id,
        count=20,
        interval_ms=1,
        modifications=[
            {
                "target": "request",
                "type": "regex_replace",
                "pattern": "sessionId=\\w+",
                "replacement": "sessionId=modified_{{index}}",
            },
            {"type": "header_add", "name": "X-Test-Counter", "value": "{{timestamp}}"},
        ],
        **{"async": False, "allow_duplicate_headers": False},
    )
    assert answer["sent_count"] == 20
    for index, came in enumerate(wire.came, 1):
        assert came.startswith(b"GET /a?sessionId=modified_%d HTTP/1.1\r\n" % index)
        (stamp,) = parse_head(came).values("x-test-counter")
        assert abs(int(stamp) - time.time()) < 60
    urls = [jobs_rig.detail(packet_id).row["url"] for packet_id in answer["packet_ids"]]
    assert urls == [f"/a?sessionId=modified_{index}" for index in range(1, 21)]


async def test_a_variable_has_one_value_in_all_edits_of_a_send(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    edits = [
        regex("abc", "{{uuid}}-{{random}}-{{uuid}}"),
        {"type": "header_add", "name": "X-Id", "value": "{{uuid}}"},
    ]
    await resent(jobs_rig, packet_id, count=3, modifications=edits)
    ids = []
    for came in wire.came:
        found = re.search(rb"=(.{36})-(.{8})-(.{36}) ", came)
        assert found
        assert found[1] == found[3] == parse_head(came).values("x-id")[0]
        ids.append(found[1])
    assert len(set(ids)) == 3


async def test_either_packet_of_an_exchange_names_its_request(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    response = jobs_rig.detail(packet_id).response
    assert response is not None
    await resent(jobs_rig, response.id)
    assert wire.came == [GET]


async def test_a_packet_of_http2_is_sent_over_http2(jobs_rig: Rig, tmp_path: Path) -> None:
    head = b"POST /a HTTP/2.0\r\nhost: shop.test\r\n\r\n"
    async with http2_server(authority(tmp_path).context("h2")) as server:
        packet_id = await jobs_rig.packet(
            server.port, head, b"abc", scheme="https", version="HTTP/2.0", alpn="h2"
        )
        answer = await resent(jobs_rig, packet_id, modifications=[regex("abc", "abcdef")])
    assert bytes(server.body) == b"abcdef"
    assert (b":authority", b"shop.test") in server.headers[0]
    row = jobs_rig.detail(answer["packet_ids"][0]).row
    assert (row["status"], row["alpn"], row["version"]) == (200, "h2", "HTTP/2.0")


# What is recorded


async def test_every_send_is_recorded_as_what_it_was(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    answer = await resent(jobs_rig, packet_id, modifications=[regex("abc", "xyz")])
    (new_id,) = answer["packet_ids"]
    detail = jobs_rig.detail(new_id)
    row, request, response = detail.row, detail.request, detail.response
    assert request is not None
    assert response is not None
    facts = [row[name] for name in ("resend", "job", "session", "status", "method", "url")]
    assert facts == [1, answer["job_id"], "s1", 200, "GET", "/a?sessionId=xyz"]
    assert (row["server_ip"], row["server_port"], row["listener"]) == ("127.0.0.1", wire.port, 0)
    assert row["duration_ms"] > 0
    assert (request.head, request.modified) == (GET.replace(b"abc", b"xyz"), True)
    assert request.original_head == GET
    assert (response.head + response.body, response.modified) == (OK, False)
    assert request.time <= response.time


async def test_an_unchanged_send_is_not_flagged_as_modified(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    answer = await resent(jobs_rig, packet_id, modifications=[regex("no such text", "x")])
    request = jobs_rig.detail(answer["packet_ids"][0]).request
    assert request is not None
    assert (request.modified, request.original_head) == (False, None)


async def test_target_response_rewrites_what_is_recorded_of_it(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    edits = [
        regex("200 OK", "418 Teapot", target="response"),
        regex("ok$", "brewed", target="both"),
        {"type": "header_add", "name": "X-Seen", "value": "{{index}}", "target": "response"},
    ]
    answer = await resent(jobs_rig, packet_id, modifications=edits)
    assert wire.came == [GET]
    detail = jobs_rig.detail(answer["packet_ids"][0])
    assert detail.row["status"] == 418
    assert detail.request is not None
    assert detail.response is not None
    assert not detail.request.modified
    assert detail.response.modified
    assert detail.response.head + detail.response.body == (
        b"HTTP/1.1 418 Teapot\r\nContent-Length: 6\r\nX-Seen: 1\r\n\r\nbrewed"
    )
    assert (detail.response.original_head, detail.response.original_body) == (OK[:-2], b"ok")


async def test_a_send_that_fails_is_counted_told_and_recorded(jobs_rig: Rig) -> None:
    async with wire_server() as wire:
        packet_id = await jobs_rig.packet(wire.port, GET)
    answer = await resent(jobs_rig, packet_id, count=3)
    assert (answer["success"], answer["sent_count"], answer["failed_count"]) == (False, 0, 3)
    assert len(answer["errors"]) == 3
    assert "while connecting" in answer["errors"][0]
    assert len(answer["packet_ids"]) == 3
    detail = jobs_rig.detail(answer["packet_ids"][0])
    assert "while connecting" in detail.row["error"]
    assert (detail.response, detail.row["resend"]) == (None, 1)
    assert jobs_rig.jobs.job(answer["job_id"])["status"] == "failed"


async def test_a_timeout_is_honoured(jobs_rig: Rig) -> None:
    async with wire_server(b"", closes=False) as wire:
        packet_id = await jobs_rig.packet(wire.port, GET)
        answer = await resent(jobs_rig, packet_id, timeout_ms=1_000)
    assert "no end within 1000 ms" in answer["errors"][0]


async def test_ids_come_in_the_order_of_sending(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    answer = await resent(jobs_rig, packet_id, count=50, modifications=[regex("abc", "{{index}}")])
    urls = [jobs_rig.detail(each).row["url"] for each in answer["packet_ids"]]
    assert urls == [f"/a?sessionId={index}" for index in range(1, 51)]


async def test_the_interval_lies_between_sends_and_not_after_the_last(
    jobs_rig: Rig, wire: Wire
) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    answer = await resent(jobs_rig, packet_id, count=4, interval_ms=100)
    times = [jobs_rig.detail(each).row["time"] for each in answer["packet_ids"]]
    assert all(later - earlier >= 99 for earlier, later in pairwise(times))
    single = await resent(jobs_rig, packet_id, count=1, interval_ms=60_000)
    assert single["execution_time_ms"] < 20_000


# Messages of live connections


async def message(
    jobs_rig: Rig, kind: str, body: bytes, *, to_client: bool = False, **facts: Any
) -> int:
    payload = WireMessage(time=CLOCK(), body=body, length=len(body), body_length=len(body))
    sides = {"request": None, "response": payload} if to_client else {"request": payload}
    port = facts.pop("port", 9)
    return await jobs_rig.packet(port, b"", kind=kind, version="", **sides, **facts)


async def test_a_websocket_message_goes_to_its_live_connection_either_way(jobs_rig: Rig) -> None:
    jobs_rig.injected.live.add("c1")
    text = await message(jobs_rig, "WebSocket", b"hello")
    data = await message(jobs_rig, "WebSocket", b"\xff\0", to_client=True)
    first = await resent(jobs_rig, text, count=2, modifications=[regex("hello", "bye {{index}}")])
    second = await resent(jobs_rig, data)
    assert jobs_rig.injected.put == [
        ("c1", False, b"bye 1", True),
        ("c1", False, b"bye 2", True),
        ("c1", True, b"\xff\0", False),
    ]
    sent = jobs_rig.detail(first["packet_ids"][1])
    assert sent.request is not None
    assert (sent.request.body, sent.row["connection"], sent.row["resend"]) == (b"bye 2", "c1", 1)
    assert jobs_rig.detail(second["packet_ids"][0]).response is not None


async def test_a_websocket_message_stays_text_or_binary_as_it_was(jobs_rig: Rig) -> None:
    jobs_rig.injected.live.add("c1")
    data = await message(jobs_rig, "WebSocket", b"readable", method="BINARY")
    text = await message(jobs_rig, "WebSocket", b"hello", method="TEXT")
    await resent(jobs_rig, data)
    again = await resent(jobs_rig, text)
    assert [put[2:] for put in jobs_rig.injected.put] == [(b"readable", False), (b"hello", True)]
    assert jobs_rig.detail(again["packet_ids"][0]).row["method"] == "TEXT"


async def test_a_closed_websocket_is_an_error_that_says_so(jobs_rig: Rig) -> None:
    packet_id = await message(jobs_rig, "WebSocket", b"hello")
    with pytest.raises(InvalidInput, match="its WebSocket connection is closed"):
        await resent(jobs_rig, packet_id, count=3)
    answer = await bulk(jobs_rig, [packet_id])
    assert answer["results"][0]["error"].endswith("connection is closed")
    assert answer["results"][0]["packet_ids"] == []


async def test_tcp_and_udp_payloads_get_a_connection_when_theirs_is_closed(jobs_rig: Rig) -> None:
    async with tcp_upstream() as tcp, udp_upstream() as udp:
        over_tcp = await message(jobs_rig, "TCP", ALL_BYTES, port=tcp.port, scheme="tcp")
        over_udp = await message(jobs_rig, "UDP", ALL_BYTES, port=udp.port, scheme="udp")
        answers = [await resent(jobs_rig, each) for each in (over_tcp, over_udp)]
        jobs_rig.injected.live.add("c1")
        await resent(jobs_rig, over_tcp)
    assert jobs_rig.injected.put == [("c1", False, ALL_BYTES, False)]
    for answer in answers:
        detail = jobs_rig.detail(answer["packet_ids"][0])
        assert detail.request is not None
        assert detail.response is not None
        assert detail.request.body == detail.response.body == ALL_BYTES


async def test_a_closed_connection_takes_nothing_to_the_client(jobs_rig: Rig) -> None:
    packet_id = await message(jobs_rig, "TCP", b"x", to_client=True)
    with pytest.raises(InvalidInput, match="its TCP connection is closed"):
        await resent(jobs_rig, packet_id)


async def test_headers_of_a_message_cannot_be_edited(jobs_rig: Rig) -> None:
    packet_id = await message(jobs_rig, "WebSocket", b"x")
    edit = {"type": "header_add", "name": "X-A", "value": "1"}
    with pytest.raises(InvalidInput, match="no headers to edit"):
        await resent(jobs_rig, packet_id, modifications=[edit])

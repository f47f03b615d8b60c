"""The archive is HAR 1.2 by its schema, masked, and leaves nothing out."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import jsonschema

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.intercept.ports import Detail, Side
from pilothouse.intercept.present.har import har
from tests.support.har_schema import check_archive
from tests.unit.observe import har_schema

AT = 1_755_000_000_000.0


def side(packet_id: int, head: bytes, body: bytes = b"", **facts: Any) -> Side:
    values: dict[str, Any] = {
        "id": packet_id,
        "time": AT + packet_id,
        "length": len(head) + len(body),
        "head": head,
        "body": body,
        "body_length": len(body),
    }
    return Side(**(values | facts))


def row(packet_id: int, **facts: Any) -> dict[str, Any]:
    return {
        "id": packet_id,
        "group": packet_id,
        "type": "HTTP",
        "connection": f"c{packet_id}",
        "scheme": "https",
        "server_name": "shop.test",
        "server_ip": "127.0.0.1",
        "server_port": 443,
        "method": "GET",
        "url": "/a?q=1&token=s3cr3tvalue",
        "version": "HTTP/1.1",
        "status": 200,
        "duration_ms": 12.5,
        "resend": 0,
        "error": "",
    } | facts


def exported(*details: Detail) -> list[dict[str, Any]]:
    made = har(details, Redactor())
    jsonschema.validate(json.loads(json.dumps(made)), har_schema.HAR_SCHEMA)
    check_archive(json.loads(json.dumps(made)))
    entries: list[dict[str, Any]] = made["log"]["entries"]
    return entries


REQUEST = (
    b"GET /a?q=1&token=s3cr3tvalue HTTP/1.1\r\nHost: shop.test\r\nCookie: sid=abcdef99; a=1\r\n\r\n"
)


def test_an_exchange_becomes_an_entry() -> None:
    body = gzip.compress(b'{"ok": true}')
    answer = (
        b"HTTP/1.1 200 Fine\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        b"Set-Cookie: sid=zyxwvu88; Path=/\r\n\r\n"
    )
    (entry,) = exported(
        Detail(row=row(1), request=side(1, REQUEST), response=side(2, answer, body, time=AT + 9))
    )
    assert entry["startedDateTime"] == "2025-08-12T12:00:00.001Z"
    assert entry["timings"] == {"send": 0, "wait": 8.0, "receive": 4.5}
    assert entry["time"] == 12.5
    assert entry["request"]["url"].startswith("https://shop.test/a?q=1&token=")
    assert entry["request"]["headersSize"] == len(REQUEST)
    assert {"name": "q", "value": "1"} in entry["request"]["queryString"]
    assert entry["response"]["statusText"] == "Fine"
    content = entry["response"]["content"]
    assert content["text"] == '{"ok": true}'
    assert content["size"] - content["compression"] == len(body) == entry["response"]["bodySize"]


def test_secrets_are_masked_everywhere() -> None:
    posted = (
        b"POST / HTTP/1.1\r\nAuthorization: Bearer abcdef123456\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    )
    made = exported(
        Detail(row=row(1), request=side(1, REQUEST)),
        Detail(
            row=row(3, method="POST"),
            request=side(3, posted, b"user=bob&password=hunter2hunter2"),
            response=side(4, b"HTTP/1.1 200 OK\r\nSet-Cookie: sid=zyxwvu88\r\n\r\n"),
        ),
    )
    text = json.dumps(made)
    for secret in ("s3cr3tvalue", "abcdef99", "abcdef123456", "hunter2hunter2", "zyxwvu88"):
        assert secret not in text
    assert {"name": "user", "value": "bob"} in made[1]["request"]["postData"]["params"]


def test_a_request_without_a_response_is_an_entry_with_its_error() -> None:
    (entry,) = exported(
        Detail(row=row(1, status=None, duration_ms=None, error="refused"), request=side(1, REQUEST))
    )
    assert (entry["response"]["status"], entry["_error"]) == (0, "refused")


def test_binary_and_cut_bodies_are_told_as_such() -> None:
    answer = side(
        2, b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", b"\x89\0\1", body_length=9
    )
    (entry,) = exported(Detail(row=row(1), request=side(1, REQUEST, b"\0\xff\0"), response=answer))
    content = entry["response"]["content"]
    assert base64.b64decode(content["text"]) == b"\x89\0\1"
    assert (content["encoding"], content["comment"]) == ("base64", "cut; 9 bytes in full")
    assert entry["request"]["postData"]["_encoding"] == "base64"


def test_own_sends_and_changes_are_flagged() -> None:
    (entry,) = exported(Detail(row=row(1, resend=1), request=side(1, REQUEST, modified=True)))
    assert entry["_resend"] is True
    assert entry["_modified"] is True


def frame(packet_id: int, body: bytes, *, sent: bool, **facts: Any) -> Detail:
    facts = {"type": "WebSocket", "scheme": "wss", "connection": "ws", "method": None} | facts
    payload = side(packet_id, b"", body)
    made = row(packet_id, status=None, duration_ms=None, **facts)
    if sent:
        return Detail(row=made, request=payload)
    return Detail(row=made, response=payload)


def test_messages_stand_with_their_handshake_in_order_of_time() -> None:
    handshake = Detail(
        row=row(1, type="WebSocket", scheme="wss", connection="ws", status=101),
        request=side(1, REQUEST),
        response=side(2, b"HTTP/1.1 101 Switching Protocols\r\n\r\n"),
    )
    frames = [frame(4, b"\0\1", sent=False), frame(3, b"hello", sent=True)]
    (entry,) = exported(*frames, handshake)
    assert entry["response"]["status"] == 101
    assert entry["_webSocketMessages"] == [
        {"type": "send", "time": (AT + 3) / 1000, "opcode": 1, "data": "hello"},
        {"type": "receive", "time": (AT + 4) / 1000, "opcode": 2, "data": "AAE="},
    ]


def test_messages_without_their_handshake_get_an_entry_of_their_connection() -> None:
    entries = exported(
        frame(3, b"hello", sent=True),
        frame(4, b"you", sent=False),
        frame(5, b"raw", sent=True, type="TCP", scheme="tcp", connection="tcp1", url=None),
    )
    assert [len(one.get("_webSocketMessages", ())) for one in entries] == [2, 0]
    assert entries[1]["_messages"][0]["data"] == "raw"
    assert entries[1]["_resourceType"] == "tcp"


def test_entries_stand_in_order_of_time() -> None:
    later, earlier = (Detail(row=row(number), request=side(number, REQUEST)) for number in (9, 2))
    assert [entry["_packetId"] for entry in exported(later, earlier)] == [2, 9]


def test_an_empty_archive_is_still_one() -> None:
    assert exported() == []

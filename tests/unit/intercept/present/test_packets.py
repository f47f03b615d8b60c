"""How packets are shown: what a page costs, what is cut and said to be, what is masked."""

from __future__ import annotations

import base64
import gzip
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.fence import visible_json
from pilothouse.core.declare.paging import estimated_tokens
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.secrets.shapes import MASK
from pilothouse.intercept.ports import Detail
from pilothouse.intercept.present.packets import (
    FIELDS,
    ROW,
    Range,
    body_part,
    chosen,
    detail_view,
    held_view,
    rows_view,
    unmasked_head,
)
from tests.support.recorded import exchange, held, row, side
from tests.support.rounds import examples

PLAIN = Redactor()
BOTH = {"request": Range(0, 16_384), "response": Range(0, 16_384)}
TEXT_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"


# Rows


def test_a_row_has_the_fields_of_the_spec_and_the_group() -> None:
    (shown,) = rows_view([row(123, group=122)], ROW, PLAIN)
    assert shown == {
        "id": 123,
        "method": "GET",
        "url": "/api/users",
        "status": 200,
        "length": 1024,
        "time": "2025-01-15T10:30:00.123Z",
        "server_name": "api.example.com",
        "client_ip": "192.168.1.100",
        "group": 122,
    }


def test_fields_are_shown_in_the_order_in_which_they_were_asked_for() -> None:
    fields = chosen(["resend", "direction", "id", "resend", "duration_ms"])
    (shown,) = rows_view([row(7, resend=1, is_response=1)], fields, PLAIN)
    assert list(shown.items()) == [
        ("resend", True),
        ("direction", "response"),
        ("id", 7),
        ("duration_ms", 245.2),
    ]


def test_every_field_can_be_asked_for() -> None:
    (shown,) = rows_view([row(1)], chosen(FIELDS), PLAIN)
    assert list(shown) == list(FIELDS)


def test_no_field_is_the_usual_ones() -> None:
    assert chosen(None) == chosen([]) == ROW


@pytest.mark.parametrize("name", ["request", "full_text", "body", "ID", ""])
def test_a_field_that_is_none_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        chosen(["id", name])
    assert refused.value.details["expected"] == f"some of {', '.join(FIELDS)}"


def test_a_response_that_is_not_there_yet_shows_null() -> None:
    (shown,) = rows_view([row(1, status=None)], ROW, PLAIN)
    assert shown["status"] is None


def test_a_few_long_urls_are_shown_whole() -> None:
    url = "/search?q=" + "x" * 400
    (shown, _) = rows_view([row(1, url=url), row(2)], ROW, PLAIN)
    assert shown["url"] == url
    assert "truncated" not in shown


def test_a_cut_row_says_how_long_the_text_is() -> None:
    url = "/search?q=" + "x" * 5_000
    (shown,) = rows_view([row(1, url=url)], ROW, PLAIN)
    assert shown["url"].endswith("…")
    assert shown["truncated"] == {"url": len(url)}
    assert url.startswith(shown["url"][:-1])


@pytest.mark.parametrize(
    "text", ["x", "\u200b", "é", '"'], ids=["plain", "unseen", "wide", "quote"]
)
def test_a_page_of_100_rows_stays_under_8000_tokens_whatever_is_in_them(text: str) -> None:
    rows = [
        row(
            10_000_000 + n,
            url="/" + text * 3_000,
            server_name=text * 250,
            method=text * 60,
            client_ip="2001:0db8:85a3:0000:0000:8a2e:0370:7334",
            length=10**9,
        )
        for n in range(100)
    ]
    shown = rows_view(rows, ROW, PLAIN)
    page = {"packets": shown, "filter_applied": "x" * 300}
    assert estimated_tokens(visible_json(page)) < 8_000
    assert shown[0]["time"] == "2025-01-15T13:16:40.000Z"
    assert shown[0]["truncated"]["url"] == 3_001


def test_an_ordinary_page_is_not_cut_at_all() -> None:
    rows = [row(n, url=f"/api/v1/things/{n}?page=2&sort=name") for n in range(1, 101)]
    shown = rows_view(rows, ROW, PLAIN)
    assert not any("truncated" in one for one in shown)
    assert estimated_tokens(visible_json(shown)) < 8_000


def test_a_secret_is_masked_before_the_url_is_cut() -> None:
    url = "/" + "x" * 1_980 + "?token=abcdefghijklmnop" + "&more=" + "y" * 2_000
    (shown,) = rows_view([row(1, url=url)], ROW, PLAIN)
    assert "abc" not in shown["url"]
    assert "abc" not in visible_json(shown)


# One exchange


def test_a_detail_has_the_shape_of_the_spec() -> None:
    shown = detail_view(exchange(123), PLAIN, BOTH)
    assert {name: shown[name] for name in ("id", "method", "url", "status")} == {
        "id": 123,
        "method": "GET",
        "url": "/api/users",
        "status": 200,
    }
    assert shown["headers"]["request"][0] == {"name": "Host", "value": "api.example.com"}
    assert shown["headers"]["response"] == [{"name": "Content-Type", "value": "application/json"}]
    assert shown["body"] == {"request": "", "response": "{}"}
    assert shown["timing"] == {"timestamp": "2025-01-15T10:30:00.123Z", "duration_ms": 245.2}
    assert "truncated" not in shown
    assert "encoding" not in shown


def test_bodies_are_left_out_unless_they_are_asked_for_but_their_lengths_are_told() -> None:
    shown = detail_view(exchange(1, response_body=b"x" * 99), PLAIN, None)
    assert "body" not in shown
    assert shown["sizes"]["response"]["body"] == 99


def test_a_request_without_a_response_shows_one_side() -> None:
    whole = exchange(1, status=None, error="connection refused")
    shown = detail_view(Detail(row=whole.row, request=whole.request), PLAIN, BOTH)
    assert shown["headers"]["response"] == []
    assert shown["body"]["response"] == ""
    assert shown["error"] == "connection refused"
    assert list(shown["sizes"]) == ["request"]


def test_a_body_that_was_kept_in_part_says_so() -> None:
    whole = exchange(1)
    response = side(2, TEXT_HEAD, b"x" * 10, body_length=1 << 30, length=1 << 30)
    shown = detail_view(
        Detail(row=whole.row, request=whole.request, response=response), PLAIN, None
    )
    assert shown["sizes"]["response"] == {"id": 2, "length": 1 << 30, "body": 1 << 30, "kept": 10}


def test_request_and_response_are_cut_separately_and_say_how_to_read_on() -> None:
    detail = exchange(1, b"a" * 100, b"b" * 100, "text/plain")
    ranges = {"request": Range(0, 64), "response": Range(90, 64)}
    shown = detail_view(detail, PLAIN, ranges)
    assert shown["body"] == {"request": "a" * 64, "response": "b" * 10}
    assert shown["truncated"] == {
        "request": {
            "offset": 0,
            "total": 100,
            "next_offset": 64,
            "hint": "call again with request_offset 64",
        },
        "response": {"offset": 90, "total": 100},
    }


@settings(max_examples=examples(200))
@given(text=st.text(max_size=300), most=st.integers(4, 70))
def test_reading_on_gives_the_whole_text(text: str, most: int) -> None:
    body = text.replace("\0", "").encode("utf-8", "replace")
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        part = body_part(TEXT_HEAD, body, Range(offset, most), PLAIN)
        if part.is_base64:
            return  # control characters make it no text
        parts.append(part.text)
        offset = part.next_offset
    whole = body_part(TEXT_HEAD, body, Range(0, 10_000), PLAIN)
    assert "".join(parts) == whole.text
    assert whole.next_offset is None


def test_reading_on_gives_every_byte_of_what_is_no_text() -> None:
    body = bytes(range(256)) * 5
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n"
    read = b""
    offset: int | None = 0
    while offset is not None:
        part = body_part(head, body, Range(offset, 100), PLAIN)
        assert part.is_base64
        read += base64.b64decode(part.text)
        offset = part.next_offset
    assert read == body


def test_a_binary_side_says_that_it_is_base64() -> None:
    detail = exchange(1, response_body=b"\x00\xff" * 4, content_type="image/png")
    shown = detail_view(detail, PLAIN, BOTH)
    assert shown["encoding"] == {"response": "base64"}
    assert shown["body"]["response"] == base64.b64encode(b"\x00\xff" * 4).decode()


def test_a_packed_body_is_shown_unpacked_and_measured_as_it_was_sent() -> None:
    packed = gzip.compress(b'{"users": []}')
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n"
    whole = exchange(1)
    shown = detail_view(Detail(row=whole.row, response=side(2, head, packed)), PLAIN, BOTH)
    assert shown["body"]["response"] == '{"users": []}'
    assert shown["sizes"]["response"]["body"] == len(packed)


def test_an_offset_beyond_the_end_is_an_empty_part() -> None:
    part = body_part(TEXT_HEAD, b"abc", Range(10**9, 64), PLAIN)
    assert (part.text, part.next_offset, part.total) == ("", None, 3)


def test_headers_urls_and_bodies_are_masked() -> None:
    body = b'{"password": "hunter22", "user": "ada"}'
    detail = exchange(1, body, body, url="/login?token=hunter22", error="no token=hunter22")
    shown = visible_json(detail_view(detail, PLAIN, BOTH))
    assert "hunter22" not in shown
    assert "abcdef" not in shown
    assert "ada" in shown
    assert shown.count(MASK) >= 4


def test_a_secret_in_what_is_no_text_is_masked_too() -> None:
    body = b"\x00\x01" + b"sk_live_" + b"a1" * 12 + b"\x00"
    part = body_part(b"", body, Range(0, 10_000), PLAIN)
    assert part.is_base64
    assert b"sk_live" not in base64.b64decode(part.text)


def test_revealing_is_the_redactors_business() -> None:
    shown = detail_view(exchange(1), Redactor(reveal=True), BOTH)
    assert {"name": "Authorization", "value": "Bearer abcdef"} in shown["headers"]["request"]


# What breakpoints hold

HEAD = b"POST /pay?token=hunter22 HTTP/1.1\r\nHost: shop\r\nCookie: sid=hunter22\r\nX-A: 1\r\n\r\n"


HELD = held("h1", HEAD, b'{"amount": 5, "password": "hunter22"}')


def test_what_is_held_is_shown_as_masked_text() -> None:
    shown = held_view(HELD, PLAIN)
    assert "hunter22" not in visible_json(shown)
    assert shown["head"].splitlines()[:2] == [f"POST /pay?token={MASK} HTTP/1.1", "Host: shop"]
    assert shown["body"].startswith('{"amount": 5')
    assert shown["forwarded_at"] == "2025-01-15T10:30:30.000Z"


def test_a_head_written_after_the_masked_one_keeps_the_secrets_of_untouched_lines() -> None:
    shown = str(held_view(HELD, PLAIN)["head"])
    written = shown.replace("X-A: 1", "X-A: 2") + "\nX-B: 3"
    assert unmasked_head(written, HELD, PLAIN) == (
        b"POST /pay?token=hunter22 HTTP/1.1\r\nHost: shop\r\nCookie: sid=hunter22\r\n"
        b"X-A: 2\r\nX-B: 3\r\n\r\n"
    )


def test_a_message_without_a_head_can_be_held() -> None:
    shown = held_view(held("w1", b"", b"hello"), PLAIN)
    assert (shown["head"], shown["body"]) == ("", "hello")
    assert re.fullmatch(r"[\w-]+T[\w:.]+Z", shown["since"])


# What came after a body, and what was before a change


def test_trailers_are_shown_masked_for_the_side_that_has_them() -> None:
    head = b"HTTP/2.0 200 \r\ncontent-type: application/grpc\r\n\r\n"
    trailers = b"grpc-status: 5\r\ngrpc-message: no such lamp\r\nset-cookie: sid=abc123\r\n"
    detail = Detail(row=row(2), response=side(2, head, b"\0", trailers=trailers))
    assert detail_view(detail, PLAIN, None)["trailers"] == {
        "response": [
            {"name": "grpc-status", "value": "5"},
            {"name": "grpc-message", "value": "no such lamp"},
            {"name": "set-cookie", "value": f"sid={MASK}"},
        ]
    }
    assert detail_view(exchange(1), PLAIN, BOTH)["trailers"] is None


def test_a_changed_side_shows_what_it_was() -> None:
    before = b"POST /pay?token=abc123 HTTP/1.1\r\nContent-Type: text/plain\r\n\r\n"
    after = side(
        1,
        b"POST /free HTTP/1.1\r\n\r\n",
        modified=True,
        original_head=before,
        original_body=b"x" * 100,
    )
    detail = Detail(row=row(1), request=after)
    shown = f"POST /pay?token={MASK} HTTP/1.1\nContent-Type: text/plain"
    assert detail_view(detail, PLAIN, None)["original"] == {"request": {"head": shown}}
    some = {"request": Range(0, 64), "response": Range(0, 64)}
    assert detail_view(detail, PLAIN, some)["original"] == {
        "request": {"head": shown, "body": "x" * 64, "truncated": True}
    }
    assert detail_view(exchange(1), PLAIN, BOTH)["original"] is None

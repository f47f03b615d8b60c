"""HTTP messages as bytes and back."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http

from pilothouse.intercept.engine.flows import messages
from pilothouse.intercept.engine.flows.messages import NotAMessage
from pilothouse.intercept.engine.flows.streamed_bodies import (
    KEPT_BODY,
    EventStreamBody,
    Tee,
    hold_back,
    tee_of,
)
from pilothouse.intercept.replay import recode

TOKEN = st.text("abcXYZ-09", min_size=1, max_size=12).map(str.encode)
VALUE = st.text("abc XYZ:;,=\t", max_size=20).map(lambda text: text.strip().encode())


def request(**said: object) -> http.Request:
    made = http.Request.make("POST", "http://shop/cart?a=1", b"body", [(b"Host", b"shop")])
    for name, value in said.items():
        setattr(made, name, value)
    return made


def edit(message: http.Message, old: bytes, new: bytes) -> None:
    """Change what rules and people see of a message."""
    seen = messages.readable(message)
    messages.change(message, seen, (seen.head + seen.body).replace(old, new))


@given(st.lists(st.tuples(TOKEN, VALUE)), st.binary(max_size=200))
def test_unchanged_message_reads_back_as_it_was(
    fields: list[tuple[bytes, bytes]], body: bytes
) -> None:
    made = http.Request.make("GET", "http://shop/", body)
    made.headers = http.Headers(fields)
    edit(made, b"", b"")
    kept = [field for field in made.headers.fields if field[0].lower() != b"content-length"]
    assert kept == [field for field in fields if field[0].lower() != b"content-length"]
    assert made.raw_content == body


def test_key_of_ours_is_neither_shown_nor_lost() -> None:
    made = request()
    made.headers[messages.KEY_HEADER] = b"k1"
    assert b"pilothouse" not in messages.request_head(made)
    edit(made, b"body", b"other")
    assert made.headers["x-pilothouse-exchange"] == "k1"


def test_http2_request_shows_its_authority_as_host_and_takes_it_back() -> None:
    made = request(http_version="HTTP/2.0", authority="shop:8443")
    del made.headers["host"]
    head = messages.request_head(made)
    assert head.startswith(b"POST /cart?a=1 HTTP/2.0\r\nhost: shop:8443\r\n")
    edit(made, b"shop:8443", b"other")
    assert made.authority == "other"
    assert "host" not in made.headers


def coded(body: bytes, coding: str) -> http.Response:
    made = http.Response.make(200)
    made.headers["content-encoding"], made.raw_content = coding, body
    return made


def packed(text: bytes) -> http.Response:
    return coded(gzip.compress(text, mtime=0), "gzip")


def test_edited_body_is_coded_again_and_measured() -> None:
    made = packed(b"old text")
    edit(made, b"old", b"new")
    assert gzip.decompress(made.raw_content or b"") == b"new text"
    assert made.headers["content-length"] == str(len(made.raw_content or b""))


def test_body_that_was_not_edited_keeps_its_bytes() -> None:
    made = packed(b"text" * 100)
    before = made.raw_content
    edit(made, b"200 OK", b"404 No")
    assert (made.status_code, made.raw_content) == (404, before)


def test_coding_that_was_taken_out_is_taken_off() -> None:
    made = packed(b"text")
    edit(made, b"content-encoding: gzip\r\n", b"")
    assert made.raw_content == b"text"
    assert made.headers["content-length"] == "4"


@pytest.mark.parametrize("coding", ["strange", "br"])
def test_body_that_its_coding_does_not_fit_is_edited_as_it_is(coding: str) -> None:
    made = coded(b"old text", coding)
    edit(made, b"old", b"newer")
    assert (made.raw_content, made.headers["content-encoding"]) == (b"newer text", coding)
    assert made.headers["content-length"] == "10"


def test_bomb_is_seen_as_it_was_sent() -> None:
    made = packed(bytes(recode.MOST_BYTES + 1))
    assert messages.readable(made).body == made.raw_content


@pytest.mark.parametrize(
    "edited", [b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x", b"GET / HTTP/1.1\r\nnocolon\r\n\r\n"]
)
def test_what_is_no_request_any_more_is_refused(edited: bytes) -> None:
    with pytest.raises(NotAMessage):
        messages.change(request(), messages.readable(request()), edited)


@pytest.mark.parametrize("line", [b"HTTP/1.1", b"HTTP/1.1 abc OK", b"HTTP/1.1 99 Low"])
def test_what_is_no_response_any_more_is_refused(line: bytes) -> None:
    response = http.Response.make()
    with pytest.raises(NotAMessage):
        messages.change(response, messages.readable(response), line + b"\r\n\r\n")


@given(st.lists(st.integers(0, 3 * KEPT_BODY // 4), max_size=5))
def test_tee_passes_everything_keeps_the_first_part_and_counts_all(sizes: list[int]) -> None:
    tee = Tee()
    for size in sizes:
        piece = bytes(size)
        assert tee(piece) is piece
    assert tee.length == sum(sizes)
    assert len(tee.kept) == min(KEPT_BODY, sum(sizes))


EVENT = st.sampled_from([b"data: 1", b": ping", b"data: a\ndata: b", b"id: 7\r\ndata: x", b""])
GAP = st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r"])


@given(st.lists(st.tuples(EVENT, GAP)), st.data())
def test_events_are_told_whole_whatever_the_pieces_they_came_in(
    parts: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    whole = b"".join(event + gap for event, gap in parts)
    told: list[bytes] = []
    events = EventStreamBody(told.append)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        piece = whole[start:end]
        assert events(piece) is piece
    assert all(one.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")) for one in told)
    events.close()
    assert b"".join(told) == whole


def test_event_without_an_end_is_told_in_parts() -> None:
    told: list[bytes] = []
    events = EventStreamBody(told.append)
    for _ in range(5):
        events(bytes(KEPT_BODY // 2))
    events.close()
    assert [len(one) for one in told] == [KEPT_BODY // 2 * 3, KEPT_BODY]


@pytest.mark.parametrize("message", [request(), http.Response.make()])
def test_body_that_outgrows_being_held_back_gets_a_tee(message: http.Message) -> None:
    hold_back(message)
    assert message.stream is False
    message.stream = True  # as mitmproxy does it
    assert tee_of(message) is not None

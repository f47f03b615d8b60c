"""HTTP messages as bytes and back."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http

from pilothouse.intercept.engine import messages
from pilothouse.intercept.engine.messages import NotAMessage
from pilothouse.intercept.engine.streaming import KEPT_BODY, Tee, hold_back, tee_of

TOKEN = st.text("abcXYZ-09", min_size=1, max_size=12).map(str.encode)
VALUE = st.text("abc XYZ:;,=\t", max_size=20).map(lambda text: text.strip().encode())


def request(**said: object) -> http.Request:
    made = http.Request.make("POST", "http://shop/cart?a=1", b"body", [(b"Host", b"shop")])
    for name, value in said.items():
        setattr(made, name, value)
    return made


@given(st.lists(st.tuples(TOKEN, VALUE)), st.binary(max_size=200))
def test_unchanged_message_reads_back_as_it_was(
    fields: list[tuple[bytes, bytes]], body: bytes
) -> None:
    made = http.Request.make("GET", "http://shop/", b"")
    made.headers = http.Headers(fields)
    head = messages.request_head(made)
    messages.change_request(made, head + body)
    kept = [field for field in made.headers.fields if field[0].lower() != b"content-length"]
    assert kept == [field for field in fields if field[0].lower() != b"content-length"]
    assert made.raw_content == body


def test_key_of_ours_is_neither_shown_nor_lost() -> None:
    made = request()
    made.headers[messages.KEY_HEADER] = b"k1"
    head = messages.request_head(made)
    assert b"pilothouse" not in head
    messages.change_request(made, head + b"other")
    assert made.headers["x-pilothouse-exchange"] == "k1"


def test_http2_request_shows_its_authority_as_host_and_takes_it_back() -> None:
    made = request(http_version="HTTP/2.0", authority="shop:8443")
    del made.headers["host"]
    head = messages.request_head(made)
    assert head.startswith(b"POST /cart?a=1 HTTP/2.0\r\nhost: shop:8443\r\n")
    messages.change_request(made, head.replace(b"shop:8443", b"other") + b"body")
    assert made.authority == "other"
    assert "host" not in made.headers


def test_edited_body_is_coded_again_and_measured() -> None:
    made = http.Response.make(200, b"", {"Content-Encoding": "gzip", "Content-Length": "9"})
    messages.change_response(made, messages.response_head(made) + b"new text")
    assert gzip.decompress(made.raw_content or b"") == b"new text"
    assert made.headers["content-length"] == str(len(made.raw_content or b""))


def test_unknown_coding_is_dropped_with_the_edit() -> None:
    made = http.Response.make(200, b"", {"Content-Encoding": "strange"})
    messages.change_response(made, messages.response_head(made) + b"new text")
    assert made.raw_content == b"new text"
    assert "content-encoding" not in made.headers


@pytest.mark.parametrize(
    "edited", [b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x", b"GET / HTTP/1.1\r\nnocolon\r\n\r\n"]
)
def test_what_is_no_request_any_more_is_refused(edited: bytes) -> None:
    with pytest.raises(NotAMessage):
        messages.change_request(request(), edited)


@pytest.mark.parametrize("line", [b"HTTP/1.1", b"HTTP/1.1 abc OK", b"HTTP/1.1 99 Low"])
def test_what_is_no_response_any_more_is_refused(line: bytes) -> None:
    with pytest.raises(NotAMessage):
        messages.change_response(http.Response.make(), line + b"\r\n\r\n")


@given(st.lists(st.integers(0, 3 * KEPT_BODY // 4), max_size=5))
def test_tee_passes_everything_keeps_the_first_part_and_counts_all(sizes: list[int]) -> None:
    tee = Tee()
    for size in sizes:
        piece = bytes(size)
        assert tee(piece) is piece
    assert tee.length == sum(sizes)
    assert len(tee.kept) == min(KEPT_BODY, sum(sizes))


@pytest.mark.parametrize("message", [request(), http.Response.make()])
def test_body_that_outgrows_being_held_back_gets_a_tee(message: http.Message) -> None:
    hold_back(message)
    assert message.stream is False
    message.stream = True  # as mitmproxy does it
    assert tee_of(message) is not None

"""HTTP/1 heads and bodies: one meaning per message, or none."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.net.http1 import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    BadMessage,
    Chunked,
    Counted,
    Endless,
    chunk,
    kept,
    parse_answer_head,
    parse_request_head,
    upgrades,
    write_head,
)
from tests.support.rounds import examples

TOKEN = st.text("!#$%&'*+-.^_`|~09azAZ", min_size=1, max_size=12)
VALUE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20)


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1")


# Requests


@settings(max_examples=examples(200))
@given(method=TOKEN, target=VALUE.filter(bool), fields=st.lists(st.tuples(TOKEN, VALUE)))
def test_a_head_that_is_written_is_read_back(
    method: str, target: str, fields: list[tuple[str, str]]
) -> None:
    names = {name.lower() for name, _ in fields}
    if names & {"host", "content-length", "transfer-encoding"}:
        return
    written = write_head(f"{method} {target} HTTP/1.1", fields)
    read = parse_request_head(written.removesuffix(b"\r\n\r\n"))
    assert (read.method, read.target, read.fields) == (method, target, fields)
    assert names == set(read.values)
    assert read.body is None


@settings(max_examples=examples(300))
@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_a_bad_message(data: bytes) -> None:
    for given_head in (data, b"GET / HTTP/1.1\r\n" + data):
        try:
            read = parse_request_head(given_head)
        except BadMessage:
            continue
        again = write_head(f"{read.method} {read.target} HTTP/1.{read.minor}", read.fields)
        assert parse_request_head(again[:-4]).fields == read.fields
    for given_head in (data, b"HTTP/1.1 200 OK\r\n" + data):
        with suppress(BadMessage):
            parse_answer_head(given_head).body("GET")


def test_a_header_that_may_stand_once_is_refused_when_it_stands_twice() -> None:
    read = parse_request_head(head("GET / HTTP/1.1", "A: 1", "B: 1", "b: 2"))
    assert read.one("a") == "1"
    assert read.one("c") is None
    with pytest.raises(BadMessage):
        read.one("b")


@pytest.mark.parametrize(
    ("lines", "stays"),
    [
        (("GET / HTTP/1.1",), True),
        (("GET / HTTP/1.1", "Connection: keep-alive, Close"), False),
        (("GET / HTTP/1.0",), False),
        (("GET / HTTP/1.0", "Connection: keep-alive"), False),
    ],
)
def test_a_connection_stays_open_unless_said_otherwise(lines: tuple[str, ...], stays: bool) -> None:
    assert parse_request_head(head(*lines)).stays_open is stays


def test_what_concerns_one_connection_is_not_kept() -> None:
    read = parse_request_head(
        head(
            "POST / HTTP/1.1", "Host: a", "Connection: X-Private, Content-Length", "X-Private: 1",
            "Keep-Alive: timeout=5", "TE: trailers", "Content-Length: 3", "Origin: b", "C: d",
        )
    )  # fmt: skip
    passed = kept(read.fields, read.values, {"host", "origin"})
    assert passed == [("Content-Length", "3"), ("C", "d")]
    assert not upgrades(read)


# Bodies


@settings(max_examples=examples(200))
@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    cuts=st.lists(st.integers(0, 300), max_size=8),
    after=st.binary(max_size=30),
)
def test_a_chunked_body_passes_whole_however_it_is_cut_and_nothing_after_it(
    chunks: list[bytes], cuts: list[int], after: bytes
) -> None:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n"
    body += b"X-Sum: 1\r\n\r\n" if chunks else b"\r\n"
    wire = body + after
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    content = bytearray()
    reader = Chunked(content)
    assert b"".join(reader.take(wire[a:b]) for a, b in itertools.pairwise(places)) == body
    assert bytes(content) == b"".join(chunks)
    assert reader.ended


@pytest.mark.parametrize(
    "wire",
    [
        b"5\nhello\r\n0\r\n\r\n", b"5\r\nhelloX\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"\r\n",
        b"-1\r\n", b"+5\r\n", b"0x5\r\n", b" 5\r\n", b"5 \r\n", b"g\r\n", b"5;a=b\r\nhello\r\n",
        b"5;\n\r\n", b"5\r\r\n", b"fffffffffffffffff\r\n", b"0\r\nbad trailer\r\n\r\n",
        b"0\r\nA: b\n\r\n", b"0\r\n\n", b"0\r\n" + b"A: b\r\n" * (MAX_HEADERS + 1),
        b"1" * (MAX_HEAD_BYTES + 1),
    ],
)  # fmt: skip
def test_a_chunked_body_out_of_shape_is_refused(wire: bytes) -> None:
    with pytest.raises(BadMessage):
        Chunked().take(wire)
    bytewise = Chunked()
    with pytest.raises(BadMessage):
        _ = [bytewise.take(wire[place : place + 1]) for place in range(len(wire))]


def test_a_counted_body_ends_where_it_said() -> None:
    body = Counted(7)
    assert [body.take(piece) for piece in (b"abc", b"", b"defgh", b"GET /")] == [
        b"abc", b"", b"defg", b"",
    ]  # fmt: skip
    assert body.ended


def test_a_chunk_may_stand_only_between_chunks() -> None:
    body = Chunked()
    seen = []
    for piece in (b"3", b"\r\n", b"ab", b"c", b"\r\n", b"0\r\n", b"\r\n"):
        seen.append(body.between_chunks)
        body.take(piece)
    assert seen == [True, False, False, False, False, True, False]
    assert body.ended
    whole = Chunked(content := bytearray())
    whole.take(chunk(b"one") + chunk(b"two"))
    assert (bytes(content), whole.between_chunks) == (b"onetwo", True)


# Answers


@pytest.mark.parametrize(
    ("lines", "method", "kind"),
    [
        (("HTTP/1.1 200 OK", "Content-Length: 5"), "GET", Counted),
        (("HTTP/1.1 200", "Transfer-Encoding: chunked"), "GET", Chunked),
        (("HTTP/1.1 200 OK",), "GET", Endless),
        (("HTTP/1.0 200 OK",), "POST", Endless),
    ],
)
def test_an_answer_says_where_it_ends(lines: tuple[str, ...], method: str, kind: type) -> None:
    assert isinstance(parse_answer_head(head(*lines)).body(method), kind)


@pytest.mark.parametrize(
    ("first", "method"),
    [("HTTP/1.1 204 No Content", "POST"), ("HTTP/1.1 304 X", "GET"), ("HTTP/1.1 200 OK", "HEAD")],
)
def test_some_answers_have_no_body_whatever_they_say(first: str, method: str) -> None:
    assert parse_answer_head(head(first, "Content-Length: 5")).body(method).ended


@pytest.mark.parametrize(
    "lines",
    [
        ("HTTP/1.1 200 OK", "Content-Length: 5", "Transfer-Encoding: chunked"),
        ("HTTP/1.1 200 OK", "Content-Length: 5", "Content-Length: 6"),
        ("HTTP/1.1 200 OK", "Transfer-Encoding: gzip"),
        ("HTTP/1.1 200 OK", "Content-Length: five"),
        ("HTTP/1.1 200 OK", "no header"),
        ("HTTP/1.1 200 OK", "X: a", " folded"),
        ("HTTP/2 200",),
        ("HTTP/1.1 20",),
        ("",),
    ],
)
def test_an_answer_that_could_be_read_in_two_ways_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(BadMessage) as caught:
        parse_answer_head(head(*lines)).body("GET")
    assert caught.value.status == 502


def test_an_answer_keeps_its_connection_unless_it_says_otherwise() -> None:
    assert parse_answer_head(head("HTTP/1.1 200 OK")).stays_open
    assert not parse_answer_head(head("HTTP/1.1 200 OK", "Connection: close")).stays_open
    assert not parse_answer_head(head("HTTP/1.0 200 OK")).stays_open

"""Messages keep their bytes; framing is taken off and put on; lengths are put right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.intercept.replay.http1 import (
    BadFraming,
    Chunks,
    content_length,
    has_no_body,
    is_chunked,
    parse_head,
    split_message,
    wire,
    with_right_length,
)

HEAD = (
    b"POST /a?b=1 HTTP/1.1\r\nHost: shop.test\r\nX-Host:other\r\ncOoKiE:  a=1\r\n"
    b"Cookie: b=2\r\nX-Long: one\r\n\ttwo\r\nno colon here\r\nContent-Length: 3\r\n\r\n"
)
lines = st.lists(
    st.binary(max_size=12) | st.sampled_from([b"Host: x", b" folded", b"", b"A:", b":", b"\r"]),
    max_size=8,
)


@given(lines, st.sampled_from([b"\r\n", b"\n"]), st.binary(max_size=5))
def test_a_head_that_is_read_and_written_is_the_same(
    lines: list[bytes], end: bytes, rest: bytes
) -> None:
    head = end.join(lines) + end + rest
    assert parse_head(head).raw == head


@given(st.binary(max_size=60))
def test_a_split_message_is_whole(message: bytes) -> None:
    head, body = split_message(message)
    assert head + body == message


@pytest.mark.parametrize("gap", [b"\r\n\r\n", b"\n\n", b"\n\r\n", b"\r\n\n"])
def test_the_head_ends_at_the_first_empty_line(gap: bytes) -> None:
    message = b"GET / HTTP/1.1" + gap + b"body\r\n\r\nmore"
    assert split_message(message) == (b"GET / HTTP/1.1" + gap, b"body\r\n\r\nmore")


def test_a_message_without_an_empty_line_is_all_head() -> None:
    assert split_message(b"GET / HTTP/1.1\r\nHost: x\r\n")[1] == b""


def test_values_are_found_by_the_exact_name_in_any_case() -> None:
    head = parse_head(HEAD)
    assert head.values("host") == [b"shop.test"]
    assert head.values("COOKIE") == [b"a=1", b"b=2"]
    assert head.values("x-long") == [b"one two"]
    assert head.values("ost") == []
    assert (head.method, head.words[1]) == (b"POST", b"/a?b=1")


def test_setting_a_header_replaces_all_of_that_name_and_nothing_else() -> None:
    new = parse_head(HEAD).setting("Cookie", b"c=3", keep_spelling=False).raw
    assert new == HEAD.replace(b"cOoKiE:  a=1\r\n", b"Cookie: c=3\r\n").replace(
        b"Cookie: b=2\r\n", b""
    )


def test_setting_a_header_can_keep_its_spelling_and_blanks() -> None:
    new = parse_head(HEAD).setting("cookie", b"c=3", keep_spelling=True).raw
    assert new == HEAD.replace(b"a=1", b"c=3").replace(b"Cookie: b=2\r\n", b"")


def test_setting_a_header_that_is_folded_replaces_all_its_lines() -> None:
    new = parse_head(HEAD).setting("X-Long", b"short", keep_spelling=True).raw
    assert new == HEAD.replace(b"X-Long: one\r\n\ttwo\r\n", b"X-Long: short\r\n")


def test_host_does_not_hit_x_host() -> None:
    new = parse_head(HEAD).setting("Host", b"evil.test", keep_spelling=False)
    assert new.values("x-host") == [b"other"]
    assert new.values("host") == [b"evil.test"]


def test_an_added_header_stands_last_and_ends_like_the_others() -> None:
    assert parse_head(HEAD).adding("X-New", b"1").raw == HEAD[:-2] + b"X-New: 1\r\n\r\n"
    bare = parse_head(b"GET / HTTP/1.1\nHost: x\n\n").adding("X-New", b"1").raw
    assert bare == b"GET / HTTP/1.1\nHost: x\nX-New: 1\n\n"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"HTTP/1.1 200 OK", 200),
        (b"HTTP/1.1 204", 204),
        (b"HTTP/2.0 503 ", 503),
        (b"HTTP/1.1 twohundred OK", None),
        (b"HTTP/1.1 20000 OK", None),
        (b"HTTP/1.1", None),
        (b"", None),
    ],
)
def test_status_is_read_from_the_start_line(line: bytes, status: int | None) -> None:
    assert parse_head(line + b"\r\n\r\n").status == status


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (b"Transfer-Encoding: chunked\r\n", True),
        (b"transfer-encoding: gzip, Chunked\r\n", True),
        (b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", True),
        (b"Transfer-Encoding: chunked, gzip\r\n", False),
        (b"X-Transfer-Encoding: chunked\r\n", False),
        (b"Transfer-Encoding: xchunked\r\n", False),
        (b"", False),
    ],
)
def test_a_body_is_chunked_only_if_that_is_the_last_coding(headers: bytes, expected: bool) -> None:
    assert is_chunked(parse_head(b"POST / HTTP/1.1\r\n" + headers + b"\r\n")) is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (b"Content-Length: 12\r\n", 12),
        (b"Content-Length: 12\r\ncontent-length: 12\r\n", 12),
        (b"Content-Length: 12\r\nContent-Length: 13\r\n", None),
        (b"Content-Length: -1\r\n", None),
        (b"Content-Length: 1_0\r\n", None),
        (b"Content-Length: \xb2\r\n", None),
        (b"Content-Length: 99999999999999999999\r\n", None),
        (b"", None),
    ],
)
def test_a_length_counts_only_if_it_is_one_number(headers: bytes, expected: int | None) -> None:
    assert content_length(parse_head(b"POST / HTTP/1.1\r\n" + headers + b"\r\n")) == expected


def put_right(headers: bytes, body: bytes, before: bytes, headers_before: bytes = b"") -> bytes:
    start = b"POST / HTTP/1.1\r\n"
    old = parse_head(start + (headers_before or headers) + b"\r\n")
    new = with_right_length(parse_head(start + headers + b"\r\n"), body, old, before)
    return new.raw.removeprefix(start).removesuffix(b"\r\n")


def test_a_right_length_is_put_right_again_in_its_own_spelling() -> None:
    assert put_right(b"content-LENGTH:3\r\n", b"longer", b"abc") == b"content-LENGTH:6\r\n"


def test_both_of_two_equal_lengths_are_put_right() -> None:
    two = b"Content-Length: 3\r\nContent-Length: 3\r\n"
    assert put_right(two, b"longer", b"abc") == two.replace(b"3", b"6")


def test_a_length_that_was_wrong_before_is_meant_that_way() -> None:
    assert put_right(b"Content-Length: 99\r\n", b"longer", b"abc") == b"Content-Length: 99\r\n"


def test_a_length_that_an_edit_changed_stays_as_edited() -> None:
    said = put_right(b"Content-Length: 0\r\n", b"longer", b"abc", b"Content-Length: 3\r\n")
    assert said == b"Content-Length: 0\r\n"


def test_a_first_body_gets_a_length() -> None:
    assert put_right(b"", b"abc", b"") == b"Content-Length: 3\r\n"


def test_a_body_that_had_no_length_gets_none() -> None:
    assert put_right(b"", b"longer", b"abc") == b""


def test_a_chunked_body_gets_no_length() -> None:
    chunked = b"Transfer-Encoding: chunked\r\n"
    assert put_right(chunked, b"longer", b"") == chunked


@pytest.mark.parametrize(
    ("method", "status", "expected"),
    [
        (b"HEAD", 200, True),
        (b"GET", 204, True),
        (b"GET", 304, True),
        (b"GET", 101, True),
        (b"CONNECT", 200, True),
        (b"CONNECT", 407, False),
        (b"GET", 200, False),
        (b"GET", None, False),
    ],
)
def test_which_responses_have_no_body(method: bytes, status: int | None, expected: bool) -> None:
    assert has_no_body(method, status) is expected


CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    st.integers(1, 7),
    st.sampled_from([b"", b"X-Sum: 1\r\n", b"A: 1\r\nB: 2\r\n"]),
)
def test_chunks_are_read_whatever_the_pieces_they_arrive_in(
    parts: list[bytes], step: int, trailers: bytes
) -> None:
    framed = b"".join(b"%X;ext=1\r\n%s\r\n" % (len(part), part) for part in parts)
    framed += b"0\r\n" + trailers + b"\r\n"
    chunks = Chunks()
    found = b""
    for start in range(0, len(framed), step):
        assert not chunks.is_done
        found += b"".join(chunks.feed(framed[start : start + step]))
    assert chunks.is_done
    assert found == b"".join(parts)
    assert chunks.trailers == trailers


@given(st.binary(max_size=600), st.sampled_from([b"", b"X-Sum: 1\r\n", b"X-Sum: 1\r\n\r\n"]))
def test_what_is_framed_can_be_read_again(body: bytes, trailers: bytes) -> None:
    framed = wire(CHUNKED, body, trailers).removeprefix(CHUNKED)
    chunks = Chunks()
    assert b"".join(chunks.feed(framed)) == body
    assert chunks.is_done
    assert chunks.trailers.strip() == trailers.strip()


@given(st.binary(max_size=60))
def test_a_body_without_framing_goes_out_as_it_is(body: bytes) -> None:
    assert wire(HEAD, body) == HEAD + body


def test_a_body_is_written_in_the_chunks_that_fit_it() -> None:
    assert wire(CHUNKED, b"abcde", chunks=(2, 3)) == CHUNKED + b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
    assert wire(CHUNKED, b"abcdef", chunks=(2, 3)) == CHUNKED + b"6\r\nabcdef\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "framed",
    [
        b"xyz\r\n",
        b"-1\r\n",
        b"0x5\r\nhello",
        b"3\r\nabcdef\r\n",
        b"\r\n",
        b"1" * 20_000,
        b"f" * 16 + b"\n",
    ],
)
def test_framing_that_cannot_be_followed_is_named(framed: bytes) -> None:
    with pytest.raises(BadFraming):
        list(Chunks().feed(framed))


def test_trailers_without_end_are_refused() -> None:
    chunks = Chunks()
    with pytest.raises(BadFraming, match="trailers"):
        list(chunks.feed(b"0\r\n" + b"A: 1\r\n" * 5_000))

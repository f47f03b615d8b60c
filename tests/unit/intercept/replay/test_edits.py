"""Edits change what is asked for and no other byte."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.replay import recode
from pilothouse.intercept.replay.edits import Direction, Edited, Message, apply, parse_edits

ALL_BYTES = bytes(range(256))
VALUES = {
    "index": "7",
    "timestamp": "1755000000",
    "random": "aB3dE6gH",
    "uuid": "u",
    "datetime": "d",
}


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODINGS = {
    "gzip": (gzip.compress, gzip.decompress),
    "deflate": (zlib.compress, zlib.decompress),
    "deflate raw": (raw_deflate, lambda data: zlib.decompress(data, -15)),
    "br": (brotli.compress, brotli.decompress),
    "zstd": (zstandard.compress, zstandard.decompress),
}


def message(body: bytes = b"", *headers: bytes, length: bool = True) -> Message:
    lines = [b"POST /login?next=/ HTTP/1.1", b"Host: shop.test", *headers]
    if length:
        lines.append(b"Content-Length: %d" % len(body))
    return Message(b"\r\n".join((*lines, b"", b"")), body)


def edited(
    message: Message, *edits: dict[str, Any], direction: Direction = "request", many: bool = False
) -> Edited:
    return apply(parse_edits(list(edits)), message, direction, VALUES, allow_duplicates=many)


def regex(pattern: str, replacement: str, **more: Any) -> dict[str, Any]:
    return {"type": "regex_replace", "pattern": pattern, "replacement": replacement, **more}


def header(kind: str, name: str, value: str, **more: Any) -> dict[str, Any]:
    return {"type": f"header_{kind}", "name": name, "value": value, **more}


def test_a_body_of_all_byte_values_survives_an_edit_beside_them() -> None:
    before = message(ALL_BYTES + b"sessionId=abc" + ALL_BYTES)
    after = edited(before, regex(r"sessionId=\w+", "sessionId=modified_{{index}}"))
    assert after.message.body == ALL_BYTES + b"sessionId=modified_7" + ALL_BYTES
    length = len(after.message.body)
    assert after.message.head == before.head.replace(b"525", b"%d" % length)
    assert after.is_changed


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_bytes_around_a_match_are_never_touched(left: bytes, right: bytes) -> None:
    before = Message(b"", left + b"<MARK>" + right)
    after = edited(before, regex("<MARK>", "é{{index}}"))
    expected = (left + b"<MARK>" + right).replace(b"<MARK>", "é7".encode())
    assert after.message.body == expected


@given(st.binary(max_size=300))
def test_without_a_match_nothing_changes(body: bytes) -> None:
    before = message(body, b"Content-Encoding: gzip")
    after = edited(before, regex("no-such-text-anywhere", "x"))
    assert after.message == before
    assert not after.is_changed


@pytest.mark.parametrize("name", CODINGS)
def test_a_compressed_body_is_edited_inside_and_compressed_the_same_way(name: str) -> None:
    pack, unpack = CODINGS[name]
    plain = "{'token': 'älter', 'rest': '".encode() + ALL_BYTES + b"'}"
    before = message(pack(plain), b"Content-Encoding: " + name.split()[0].encode())
    after = edited(before, regex("token", "ticket"))
    assert unpack(after.message.body) == plain.replace(b"token", b"ticket")
    assert b"Content-Length: %d\r\n" % len(after.message.body) in after.message.head


@pytest.mark.parametrize("name", CODINGS)
def test_a_compressed_body_that_does_not_match_keeps_its_bytes(name: str) -> None:
    packed = CODINGS[name][0](b"hello hello hello")
    before = message(packed, b"Content-Encoding: " + name.split()[0].encode())
    after = edited(before, regex("/login", "/logout"), header("add", "X-A", "1"))
    assert after.message.body is packed
    assert b"POST /logout?next=/" in after.message.head


def test_two_codings_are_taken_off_and_put_on_in_order() -> None:
    before = message(
        brotli.compress(gzip.compress(b"token")), b"Content-Encoding: gzip", b"content-encoding: br"
    )
    after = edited(before, regex("token", "ticket"))
    assert gzip.decompress(brotli.decompress(after.message.body)) == b"ticket"


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b"token" * 99)[:-9], gzip.compress(b"token") + b"rest", b"\x1f\x8b"],
    ids=["not gzip", "cut", "with a rest", "only a start"],
)
def test_a_body_that_its_coding_does_not_fit_is_taken_as_it_is(body: bytes) -> None:
    before = message(body, b"Content-Encoding: gzip")
    assert recode.decode(before.head, body) == (body, ())
    assert edited(before, regex("token", "ticket")).message == before
    assert edited(before, regex("(?s)^.*$", "")).message.body == b""


def test_several_gzip_members_and_zstd_frames_are_all_read() -> None:
    for coding, pack in ((b"gzip", gzip.compress), (b"zstd", zstandard.compress)):
        before = message(pack(b"token one, ") + pack(b"token two"), b"Content-Encoding: " + coding)
        plain, codings = recode.decode(before.head, before.body)
        assert (plain, codings) == (b"token one, token two", (coding.decode(),))


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)]
)
def test_a_bomb_is_not_unpacked(coding: str, pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recode, "MOST_BYTES", 100_000)
    body = pack(bytes(200_000))
    head = message(body, b"Content-Encoding: " + coding.encode()).head
    assert recode.decode(head, body) == (body, ())


def test_text_beyond_ascii_is_matched_as_characters() -> None:
    before = message("größe=[ÄÖ] größe".encode())
    after = edited(before, regex("gr.{2}e=\\[([ÄÖÜ]+)\\]", "$1"))
    assert after.message.body == "ÄÖ größe".encode()


def test_text_beyond_ascii_is_found_among_bytes_that_are_no_text() -> None:
    before = message(b"\xff\xfe" + "größe".encode())
    after = edited(before, regex("größe", "ŝize"))
    assert after.message.body == b"\xff\xfe" + "ŝize".encode()


@pytest.mark.parametrize(
    ("replacement", "expected"),
    [
        (r"\2-\1", b"bob-user"),
        ("$2-$1", b"bob-user"),
        ("$0!", b"user=bob!"),
        (r"\$1 costs $5", b"$1 costs $5"),
        (r"C:\dir\\1", rb"C:\dir\1"),
        ("$11", b"user1"),
        ("{{index}}$1", b"7user"),
        ("$$1", b"$user"),
        ("", b""),
    ],
)
def test_groups_and_signs_in_a_replacement(replacement: str, expected: bytes) -> None:
    after = edited(Message(b"", b"user=bob"), regex(r"(\w+)=(\w+)", replacement))
    assert after.message.body == expected


def test_a_group_that_took_no_part_is_empty() -> None:
    assert edited(Message(b"", b"b"), regex("(a)?b", "<$1>")).message.body == b"<>"


def test_all_matches_are_replaced_in_head_and_body_and_counted() -> None:
    after = edited(message(b"shop shop"), regex("shop", "store"))
    assert after.counts == [3]
    assert after.message.head.startswith(b"POST /login?next=/ HTTP/1.1\r\nHost: store.test\r\n")
    assert after.message.body == b"store store"


def test_a_pattern_may_reach_over_the_end_of_the_head() -> None:
    after = edited(message(b"abc"), regex("(?s)Host.*$", "X: 1\r\n\r\nnew"))
    assert after.message == Message(b"POST /login?next=/ HTTP/1.1\r\nX: 1\r\n\r\n", b"new")


def test_a_length_is_right_after_a_body_appears() -> None:
    before = Message(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"")
    after = edited(before, regex(r"\r\n\r\n", "\r\n\r\nhello"))
    assert after.message == Message(
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", b"hello"
    )


def test_a_chunked_body_gets_no_length() -> None:
    before = message(b"token", b"Transfer-Encoding: chunked", length=False)
    after = edited(before, regex("token", "longer than that"))
    assert after.message == Message(before.head, b"longer than that")


def test_an_added_header_leaves_the_body_alone() -> None:
    before = message(b"a=1")
    after = edited(before, header("add", "X-Test-Counter", "{{timestamp}}"))
    assert after.message.body == b"a=1"
    assert after.message.head == before.head[:-2] + b"X-Test-Counter: 1755000000\r\n\r\n"


@pytest.mark.parametrize("kind", ["add", "modify"])
def test_without_duplicates_one_header_of_the_name_remains(kind: str) -> None:
    before = message(b"Cookie: in the body", b"COOKIE: a=1", b"X-Cookie: keep", b"cookie: b=2")
    after = edited(before, header(kind, "Cookie", "c=3"))
    spelled = b"Cookie" if kind == "add" else b"COOKIE"
    assert after.message.head == before.head.replace(b"COOKIE: a=1", spelled + b": c=3").replace(
        b"cookie: b=2\r\n", b""
    )
    assert after.message.body == before.body


@pytest.mark.parametrize("kind", ["add", "modify"])
def test_with_duplicates_another_header_is_added(kind: str) -> None:
    before = message(b"", b"cookie: a=1")
    after = edited(before, header(kind, "Cookie", "c=3"), many=True)
    assert after.message.head == before.head[:-2] + b"Cookie: c=3\r\n\r\n"


@pytest.mark.parametrize("kind", ["add", "modify"])
def test_a_header_that_is_absent_is_added(kind: str) -> None:
    assert b"\r\nX-A: 1\r\n" in edited(message(), header(kind, "X-A", "1")).message.head


def test_signs_in_a_header_value_are_only_signs() -> None:
    after = edited(message(), header("add", "X-A", r"$1 \1 .* {{index}}"))
    assert rb"X-A: $1 \1 .* 7" + b"\r\n" in after.message.head


def test_edits_apply_to_their_target_only_and_in_order() -> None:
    edits = (
        regex("a", "b"),
        regex("b", "c", target="both"),
        header("add", "X-Response", "1", target="response"),
    )
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    assert edited(Message(head, b"aab"), *edits).message == Message(head, b"ccc")
    answer = edited(Message(head, b"aab"), *edits, direction="response")
    assert answer.message == Message(b"HTTP/1.1 200 OK\r\nX-Response: 1\r\n\r\n", b"aac")
    assert answer.counts == [0, 1, 1]


def test_value_and_replacement_are_two_names_of_one_thing() -> None:
    first = edited(message(b"x"), {"type": "regex_replace", "pattern": "x", "value": "y"})
    assert first.message.body == b"y"
    second = edited(message(), {"type": "header_add", "name": "X-A", "replacement": "1"})
    assert b"X-A: 1\r\n" in second.message.head


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        ("text", "modifications[0]"),
        ({"type": "rename"}, "modifications[0].type"),
        ({}, "modifications[0].type"),
        (regex("(", ""), "modifications[0].pattern"),
        (regex("(?=a)", ""), "modifications[0].pattern"),
        (regex("", "x"), "modifications[0].pattern"),
        (regex("a" * 1_001, "x"), "modifications[0].pattern"),
        ({"type": "regex_replace", "replacement": "x"}, "modifications[0].pattern"),
        ({"type": "regex_replace", "pattern": "x"}, "modifications[0].replacement"),
        (regex("x", "y", value="z"), "modifications[0].replacement"),
        (regex("x", "\ud800"), "modifications[0].replacement"),
        (regex("x", "y", target="server"), "modifications[0].target"),
        (regex("x", "y", name="X-A"), "modifications[0].name"),
        (header("add", "", "1"), "modifications[0].name"),
        (header("add", "X A", "1"), "modifications[0].name"),
        (header("add", "X-A: 1\r\nX-B", "1"), "modifications[0].name"),
        (header("modify", "X-A", "1\r\nX-B: 2"), "modifications[0].value"),
        (header("modify", "X-A", "1", pattern="x"), "modifications[0].pattern"),
        ({"type": "header_add", "name": "X-A"}, "modifications[0].value"),
    ],
)  # fmt: skip
def test_a_wrong_edit_is_refused_by_the_name_of_its_field(edit: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_edits([edit])
    assert refused.value.details["field"] == field
    assert refused.value.details["expected"]


def test_what_is_no_list_of_edits_is_refused() -> None:
    for raw in ({"type": "header_add"}, None, [header("add", "X-A", "1")] * 51):
        with pytest.raises(InvalidInput, match="modifications must be a list"):
            parse_edits(raw)


def test_the_end_of_a_message_is_matched_once() -> None:
    assert edited(message(b"a"), regex(r"\z", "!")).message.body == b"a!"

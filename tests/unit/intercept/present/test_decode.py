"""Content codings undone, and bytes as text: whatever comes, something is read."""

from __future__ import annotations

import gzip
import random
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.intercept.present.decode import (
    SAMPLE,
    body_text,
    decoded,
    headers_of,
    is_text,
    text_of,
)

TEXT = b"the quick brown fox jumps over the lazy dog " * 500


def head(**headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode("latin-1")


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


PACKED = [
    pytest.param("gzip", gzip.compress(TEXT), id="gzip"),
    pytest.param("x-gzip", gzip.compress(TEXT), id="x-gzip"),
    pytest.param("deflate", zlib.compress(TEXT), id="deflate"),
    pytest.param("deflate", raw_deflate(TEXT), id="raw-deflate"),
    pytest.param("br", brotli.compress(TEXT), id="br"),
    pytest.param("zstd", zstd(TEXT), id="zstd"),
    pytest.param("GZIP", gzip.compress(TEXT), id="upper-case"),
    pytest.param("identity", TEXT, id="identity"),
    pytest.param("gzip, br", brotli.compress(gzip.compress(TEXT)), id="chain"),
    pytest.param("gzip", gzip.compress(TEXT[:9000]) + gzip.compress(TEXT[9000:]), id="two-members"),
    pytest.param("zstd", zstd(TEXT[:9000]) + zstd(TEXT[9000:]), id="two-frames"),
]


@pytest.mark.parametrize(("coding", "body"), PACKED)
def test_a_coding_is_undone(coding: str, body: bytes) -> None:
    assert decoded(head(Content_Encoding=coding), body) == TEXT


def test_codings_on_several_lines_are_one_chain() -> None:
    lines = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nContent-Encoding:br\r\n\r\n"
    assert decoded(lines, brotli.compress(gzip.compress(TEXT))) == TEXT


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("br", brotli.compress),
        ("zstd", zstd),
    ],
)
def test_a_body_that_ends_early_gives_what_can_be_decoded(coding: str, pack: object) -> None:
    noise = random.Random(1).randbytes(400_000)
    packed = pack(noise)  # type: ignore[operator]
    found = decoded(head(Content_Encoding=coding), packed[: len(packed) * 2 // 3])
    assert len(found) > 1000
    assert noise.startswith(found)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "compress", "sdch", "gzip, x"])
def test_what_is_not_in_the_coding_it_names_is_given_raw(coding: str) -> None:
    body = b"\xff\xfe plain text, not packed at all"
    assert decoded(head(Content_Encoding=coding), body) == body


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(bytes(50_000_000))),
        ("br", brotli.compress(bytes(50_000_000), quality=5)),
        ("zstd", zstd(bytes(50_000_000))),
        ("gzip, gzip", gzip.compress(gzip.compress(bytes(50_000_000)))),
    ],
)
def test_a_bomb_is_cut_at_the_limit(coding: str, body: bytes) -> None:
    assert decoded(head(Content_Encoding=coding), body, limit=100_000) == bytes(100_000)


def test_a_chain_without_end_is_not_followed() -> None:
    body = TEXT
    for _ in range(50):
        body = gzip.compress(body)
    assert decoded(head(Content_Encoding=", ".join(["gzip"] * 50)), body) == body


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip,br", "?"]))
def test_no_body_is_too_strange(body: bytes, coding: str) -> None:
    lines = head(Content_Encoding=coding, Content_Type="text/plain; charset=utf-16")
    assert isinstance(decoded(lines, body), bytes)
    assert isinstance(is_text(lines, body), bool)
    assert "\0" not in text_of(lines, body)


@given(st.binary(max_size=200))
def test_no_head_is_too_strange(lines: bytes) -> None:
    text_of(lines, b"body")
    headers_of(lines)


def test_headers_keep_order_case_and_doubles() -> None:
    lines = (
        b"GET / HTTP/1.1\r\nHost: a.example\r\nX-A:1\r\nx-a:  two \r\nX-Folded: one\r\n two\r\n"
        b"X-Name: Andr\xc3\xa9\r\nX-Old: Andr\xe9\r\nno colon here\r\nX-Empty:\r\n\r\n"
    )
    assert headers_of(lines) == [
        ("Host", "a.example"),
        ("X-A", "1"),
        ("x-a", "two"),
        ("X-Folded", "one two"),
        ("X-Name", "André"),
        ("X-Old", "André"),
        ("X-Empty", ""),
    ]


def test_a_message_without_a_head_has_no_headers() -> None:
    assert headers_of(b"") == []
    assert text_of(b"", b"a frame") == "a frame"


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b'{"a": 1}', True),
        ("application/problem+json", b"{}", True),
        ("image/svg+xml", b"<svg/>", True),
        ("text/html", b"<p>caf\xe9", True),
        ("text/plain; charset=utf-16le", "hé".encode("utf-16-le"), True),
        ("", "grüße".encode(), True),
        ("", "grüße".encode()[:4], True),
        ("application/octet-stream", b"plain enough\r\n", True),
        ("", b"", True),
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", False),
        ("text/plain", b"a\0b", False),
        ("", b"\x00\x00\x00\x05hello", False),
        ("application/octet-stream", b"\xff\xd8\xff\xe0", False),
        ("font/woff2", b"wOF2\x01\x02", False),
    ],
)
def test_text_is_told_from_binary(content_type: str, body: bytes, expected: bool) -> None:
    assert is_text(head(Content_Type=content_type), body) is expected


def test_a_packed_text_is_text() -> None:
    lines = head(Content_Encoding="gzip", Content_Type="application/json")
    assert is_text(lines, gzip.compress(TEXT))
    assert body_text(lines, gzip.compress(TEXT)) == TEXT.decode()


def test_the_text_of_a_message_is_its_head_and_its_decoded_body() -> None:
    lines = head(Content_Encoding="br", X_Name="Andr\xc3\xa9")
    text = text_of(lines, brotli.compress("größer".encode()))
    assert text.startswith("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nX-Name: André\r\n\r\n")
    assert text.endswith("größer")


@pytest.mark.parametrize(
    ("charset", "body"),
    [
        ("shift_jis", "日本語".encode("shift_jis")),
        ("EUC-JP", "日本語".encode("euc-jp")),
        ('"utf-8"', "日本語".encode()),
        ("utf-16", "日本語".encode("utf-16")),
        ("unicode_escape", "日本語".encode()),
        ("no-such-charset", "日本語".encode()),
    ],
)
def test_a_body_is_read_in_its_character_set(charset: str, body: bytes) -> None:
    assert body_text(head(Content_Type=f"text/plain; charset={charset}"), body) == "日本語"


def test_a_character_that_is_cut_at_the_end_does_not_spoil_the_rest() -> None:
    body = ("é" * SAMPLE).encode()[:-1]
    assert body_text(head(), body) == "é" * (SAMPLE - 1) + "\ufffd"


def test_words_inside_a_binary_body_are_in_its_text() -> None:
    body = b"\0\x01\x02secret-token\xff\xfe\x03ab\x04" + bytes(range(256))
    text = text_of(head(Content_Type="application/octet-stream"), body)
    assert "secret-token" in text
    assert "\nab\n" not in text

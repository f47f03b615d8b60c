"""Readable content of messages: content codings undone, bytes as text.

Nothing here fails. A body that ends early gives what could be decoded, one that is broken or coded
in an unknown way gives its raw bytes, and a small one that would become huge is cut.
"""

from __future__ import annotations

import codecs
import re
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DECODED_LIMIT = 16 << 20
"""Bytes that a body may decode to; the rest is cut."""
TEXT_LIMIT = 4 << 20
"""Bytes of a body that are searched as text."""
ZSTD_WINDOW = 8 << 20
"""The largest window that HTTP allows (RFC 9659)."""
PIECE = 64 << 10
SAMPLE = 4096
MOST_CODINGS = 8

_CODINGS = re.compile(rb"^content-encoding[ \t]*:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_TYPE = re.compile(rb"^content-type[ \t]*:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_CHARSET = re.compile(rb";[ \t]*charset[ \t]*=[ \t]*[\"']?([\w.:-]+)", re.IGNORECASE)
_TEXT_TYPE = re.compile(
    rb"text/|[^;]*[/+](json|xml|yaml|javascript|ecmascript|x-www-form-urlencoded|graphql|x-ndjson)\b",
    re.IGNORECASE,
)
_FOLD = re.compile(rb"\r?\n[ \t]+")
_STRINGS = re.compile(rb"[\t\x20-\x7e]{3,}")
_NOT_CONTROL = bytes({*range(0x20, 0x100), *b"\t\n\v\f\r\x1b"} - {0x7F})
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Python has codecs that are no character sets, some of them slow on purpose-made input.
_CHARSETS = (
    "ascii", "utf-8", "utf-16", "utf-32", "iso8859", "iso2022", "cp", "koi8", "mac-", "gb", "big5",
    "euc", "shift", "hz", "tis-620",
)  # fmt: skip


def headers_of(head: bytes) -> list[tuple[str, str]]:
    """Return name and value of each header, in order; folded lines are joined."""
    lines = _FOLD.sub(b" ", head).splitlines()[1:]
    found = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon:
            found.append((_lenient(name.strip()), _lenient(value.strip())))
    return found


def decoded(head: bytes, body: bytes, limit: int = DECODED_LIMIT) -> bytes:
    """Return the body with its content codings undone, at most `limit` bytes of it."""
    codings = _codings(head)
    if not codings or not body:
        return body[:limit]
    if len(codings) > MOST_CODINGS:
        return body[:limit]
    content = body
    for coding in reversed(codings):
        undo = _UNDO.get(coding)
        found = undo(content, limit) if undo is not None else None
        if found is None:
            return body[:limit]
        content = found
    return content


def is_text(head: bytes, body: bytes) -> bool:
    """Return whether the body, decoded, is for people or parsers to read."""
    return _charset(head, decoded(head, body, SAMPLE)) is not None


def text_of(head: bytes, body: bytes) -> str:
    """Return what a search looks through: the head, then the body as text.

    Of a binary body these are the strings in it, so that a search for a word inside still hits.
    """
    # SQLite's tokenizer takes a NUL for the end.
    return (_lenient(head) + body_text(head, body, TEXT_LIMIT)).replace("\0", " ")


def body_text(head: bytes, body: bytes, limit: int = DECODED_LIMIT) -> str:
    """Return the body alone, decoded, as text in its charset; of a binary one its strings."""
    content = decoded(head, body, limit)
    charset = _charset(head, content[:SAMPLE])
    if charset is None:
        return b"\n".join(_STRINGS.findall(content)).decode("ascii")
    return content.decode(charset, "replace") if charset else _lenient(content)


def _lenient(data: bytes) -> str:
    """Decode as UTF-8, also where the last character is cut; else as Latin-1."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data" and not data[: error.start].isascii()
        return data.decode("utf-8" if is_cut else "latin-1", "replace")


def _codings(head: bytes) -> list[str]:
    """Return the content codings in the order in which they were applied."""
    found = b",".join(_CODINGS.findall(head))
    names = (name.strip().lower() for name in found.decode("latin-1").split(","))
    return [name for name in names if name not in ("", "identity")]


def _charset(head: bytes, sample: bytes) -> str | None:
    """Return the charset of text, empty where none is declared; None if it is binary."""
    for mark, name in _BOMS:
        if sample.startswith(mark):
            return name
    found = _TYPE.search(head)
    declared = found[1].strip() if found else b""
    charset = _known_charset(declared)
    if charset.startswith(("utf-16", "utf-32")):
        return charset
    if b"\0" in sample:
        return None
    if _TEXT_TYPE.match(declared):
        return charset
    if sample.translate(None, _NOT_CONTROL):
        return None
    return charset if charset or _is_utf8(sample) else None


def _known_charset(declared: bytes) -> str:
    found = _CHARSET.search(declared)
    if found is None:
        return ""
    try:
        name = codecs.lookup(found[1].decode("ascii")).name
    except (LookupError, UnicodeDecodeError, ValueError):
        return ""
    return name if name.startswith(_CHARSETS) and name != "utf-8" else ""


def _is_utf8(sample: bytes) -> bool:
    try:
        sample.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True


# Each returns the content, cut at the limit; None if nothing of it can be decoded.


def _inflated(data: bytes, limit: int, window: int) -> bytes | None:
    """Decompress one stream or, as gzip may have it, several on end."""
    parts: list[bytes] = []
    room, offset = limit, 0
    stream = zlib.decompressobj(window)
    try:
        while room > 0:
            piece = stream.unconsumed_tail
            if not piece:
                piece = data[offset : offset + PIECE]
                offset += len(piece)
            if not piece:
                break
            part = stream.decompress(piece, room)
            parts.append(part)
            room -= len(part)
            if stream.eof:
                offset -= len(stream.unused_data)
                if window < 16 or not data.startswith(b"\x1f\x8b", offset):
                    break
                stream = zlib.decompressobj(window)
    except zlib.error:
        if not any(parts):
            return None
    return b"".join(parts)


def _gunzipped(data: bytes, limit: int) -> bytes | None:
    return _inflated(data, limit, 16 + zlib.MAX_WBITS)


def _undeflated(data: bytes, limit: int) -> bytes | None:
    """Decompress with the wrapper that the standard asks for, or raw as some servers send it."""
    found = _inflated(data, limit, zlib.MAX_WBITS)
    return found if found is not None else _inflated(data, limit, -zlib.MAX_WBITS)


def _unbrotlied(data: bytes, limit: int) -> bytes | None:
    import brotli

    parts: list[bytes] = []
    stream, room = brotli.Decompressor(), limit
    try:
        part = stream.process(data, output_buffer_limit=min(room, PIECE))
        while part and room > 0:
            parts.append(part[:room])
            room -= len(part)
            if stream.is_finished() or stream.can_accept_more_data():
                break
            part = stream.process(b"", output_buffer_limit=PIECE)
    except brotli.error:
        if not parts:
            return None
    return b"".join(parts)


def _unzstded(data: bytes, limit: int) -> bytes | None:
    import io

    import zstandard

    parts: list[bytes] = []
    room = limit
    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).stream_reader(
        io.BytesIO(data), read_across_frames=True
    )
    try:
        while room > 0 and (part := reader.read(min(room, PIECE))):
            parts.append(part)
            room -= len(part)
    except zstandard.ZstdError:
        if not parts:
            return None
    return b"".join(parts)


_UNDO: dict[str, Callable[[bytes, int], bytes | None]] = {
    "gzip": _gunzipped,
    "x-gzip": _gunzipped,
    "deflate": _undeflated,
    "br": _unbrotlied,
    "zstd": _unzstded,
}

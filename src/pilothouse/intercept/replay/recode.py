"""A body's Content-Encoding taken off for an edit and put on again afterwards."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

from pilothouse.intercept.replay.http1 import parse_head

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BYTES = 64 * 1024 * 1024
"""A body that unpacks to more is edited as it is: it may be a bomb."""
_PIECE = 1 << 20
"""Bytes that are unpacked at a time: others wait while memory for them is found."""
_ZSTD_PIECE = 1024
"""Bytes that unpack to 32 MiB at the most, which bounds a bomb's cost before it is noticed."""


def decode(head: bytes, body: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return the body as it reads, and the codings to put on again in order.

    A body that its codings do not fit is given as it is, with none.
    """
    codings = tuple(
        name.decode("latin-1")
        for name in parse_head(head).elements("content-encoding")
        if name != b"identity"
    )
    if not body or not codings:
        return body, ()
    plain = body
    try:
        for coding in reversed(codings):
            plain = _decoded(plain, coding)
    except (ValueError, zlib.error):
        return body, ()
    return plain, codings


def encode(plain: bytes, codings: Sequence[str], *, like: bytes) -> bytes:
    """Put codings on a body; `like` is the body as it was, whose kind of deflate is kept."""
    for coding in codings:
        plain = _encoded(plain, coding, like)
    return plain


def _decoded(body: bytes, coding: str) -> bytes:
    match coding:
        case "gzip" | "x-gzip":
            return _gunzipped(body)
        case "deflate":
            return _inflated(body, zlib.MAX_WBITS if _has_zlib_header(body) else -zlib.MAX_WBITS)
        case "br":
            return _unbrotlied(body)
        case "zstd":
            return _unzstded(body)
    raise ValueError(f"{coding} is no known coding")


def _encoded(plain: bytes, coding: str, like: bytes) -> bytes:
    match coding:
        case "gzip" | "x-gzip":
            return gzip.compress(plain, mtime=0)
        case "deflate":
            bits = zlib.MAX_WBITS if _has_zlib_header(like) else -zlib.MAX_WBITS
            packer = zlib.compressobj(wbits=bits)
            return packer.compress(plain) + packer.flush()
        case "br":
            import brotli

            packed: bytes = brotli.compress(plain, quality=5)
            return packed
    import zstandard

    return zstandard.ZstdCompressor().compress(plain)


def _has_zlib_header(body: bytes) -> bool:
    """Return whether it begins as RFC 1950 says, with a header that some senders leave out."""
    return len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0


def _gunzipped(body: bytes) -> bytes:
    """Unpack all members; what is no member after the last is an error, as bytes would be lost."""
    plain = bytearray()
    while body:
        body = _unzipped(body, zlib.MAX_WBITS | 16, plain)
    return bytes(plain)


def _inflated(body: bytes, bits: int) -> bytes:
    plain = bytearray()
    rest = _unzipped(body, bits, plain)
    return bytes(_check(plain, is_complete=not rest))


def _unzipped(body: bytes, bits: int, plain: bytearray) -> bytes:
    """Add to `plain` what a stream unpacks to; return what follows the stream."""
    unpacker = zlib.decompressobj(bits)
    piece = unpacker.decompress(body, _PIECE)
    while piece:
        plain += piece
        _check(plain)
        piece = unpacker.decompress(unpacker.unconsumed_tail, _PIECE)
    _check(plain, is_complete=unpacker.eof)
    return unpacker.unused_data


def _unbrotlied(body: bytes) -> bytes:
    import brotli

    plain = bytearray()
    unpacker = brotli.Decompressor()
    try:
        piece = unpacker.process(body, output_buffer_limit=_PIECE)
        while piece:
            plain += piece
            _check(plain)
            piece = unpacker.process(b"", output_buffer_limit=_PIECE)
    except brotli.error as error:
        raise ValueError(str(error)) from None
    return bytes(_check(plain, is_complete=unpacker.is_finished()))


def _unzstded(body: bytes) -> bytes:
    import zstandard

    plain = bytearray()
    unpacker, is_complete = zstandard.ZstdDecompressor().decompressobj(), False
    for start in range(0, len(body), _ZSTD_PIECE):
        piece = body[start : start + _ZSTD_PIECE]
        while piece:
            try:
                plain += unpacker.decompress(piece)
            except zstandard.ZstdError as error:
                raise ValueError(str(error)) from None
            _check(plain)
            is_complete, piece = unpacker.eof, unpacker.unused_data
            if is_complete:
                unpacker = zstandard.ZstdDecompressor().decompressobj()
    return bytes(_check(plain, is_complete=is_complete))


def _check(plain: bytes | bytearray, *, is_complete: bool = True) -> bytes | bytearray:
    if len(plain) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes when decoded")
    if not is_complete:
        raise ValueError("the compressed data does not end with the body")
    return plain

"""What the browser gives as base64 because it is not text, and texts cut by their bytes."""

from __future__ import annotations

from base64 import b64decode, b64encode
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilothouse.core.secrets.redactor import Redactor


def size(text: str) -> int:
    """Count the bytes of UTF-8; halves of characters, which JavaScript allows, count as well."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def first_bytes(text: str, most: int) -> str:
    """Return as many whole characters as fit into so many bytes of UTF-8."""
    if text.isascii():
        return text[:most]
    return text.encode("utf-8", "surrogatepass")[:most].decode("utf-8", "ignore")


def unpacked(encoded: str) -> bytes:
    """Decode base64 that may have been cut off anywhere; empty if it is none."""
    try:
        return b64decode(encoded[: len(encoded) // 4 * 4])
    except ValueError:
        return b""


def readable(raw: bytes) -> str | None:
    """Return the bytes as text if they are text, also when cut off within a character."""
    try:
        return getincrementaldecoder("utf-8")().decode(raw)
    except UnicodeDecodeError:
        return None


def masked_base64(encoded: str, redactor: Redactor) -> str:
    """Return the same base64, masked if what is in it is text with something to hide."""
    plain = readable(unpacked(encoded))
    if not plain or (masked := redactor.text(plain)) == plain:
        return encoded
    return b64encode(masked.encode()).decode()

"""HTTP/1 messages as their bytes: read without losing any, written again with one thing changed.

Nothing here refuses a malformed message. A head is cut into lines and every line keeps its bytes,
so that a message that is read and written again is the same one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEADER_NAME = re.compile(r"[\x21-\x39\x3b-\x7e]{1,256}")
"""Pattern of a name that somebody gives: without blanks or a colon."""
NOT_IN_VALUE = frozenset("\r\n\0")
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_BLANKS = b" \t\r\n"
_CHUNK_LINE_LIMIT = 16 * 1024
_NO_UTF8 = re.compile("[\udc80-\udcff]")


class BadFraming(ValueError):
    """The body's framing cannot be followed; the message says where."""


def target_text(target: bytes) -> str:
    """Return a request's target as text; a byte that is no UTF-8 is shown percent-encoded."""
    text = target.decode("utf-8", "surrogateescape")
    return _NO_UTF8.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", text)


def split_message(message: bytes) -> tuple[bytes, bytes]:
    """Split into head, with the empty line after it, and body. Without that line all is head."""
    end = _END_OF_HEAD.search(message)
    return (message[: end.end()], message[end.end() :]) if end else (message, b"")


@dataclass(frozen=True, slots=True)
class Header:
    """One header with the bytes of its line, of the lines folded onto it and of their ends."""

    raw: bytes

    @property
    def name(self) -> bytes:
        return self.raw.partition(b":")[0].strip(_BLANKS)

    @property
    def value(self) -> bytes:
        return _FOLD.sub(b" ", self.raw.partition(b":")[2]).strip(_BLANKS)

    def is_named(self, name: str) -> bool:
        return self.name.lower() == name.lower().encode()

    def with_value(self, value: bytes) -> Header:
        """Return it with another value: spelling, blanks before the value and end stay."""
        name, _, rest = self.raw.partition(b":")
        before = rest[: len(rest) - len(rest.lstrip(b" \t"))]
        return Header(name + b":" + before + value + self.end)

    @property
    def end(self) -> bytes:
        return b"\r\n" if self.raw.endswith(b"\r\n") else self.raw[len(self.raw.rstrip(b"\n")) :]


@dataclass(frozen=True, slots=True)
class Head:
    """A start line, headers and the empty line, each with its bytes."""

    start: bytes
    headers: tuple[Header, ...]
    end: bytes

    @property
    def raw(self) -> bytes:
        return self.start + b"".join(header.raw for header in self.headers) + self.end

    @property
    def words(self) -> list[bytes]:
        """The three words of the start line, fewer if it has fewer."""
        return self.start.strip(_BLANKS).split(b" ", 2)

    @property
    def method(self) -> bytes:
        return self.words[0].upper()

    @property
    def status(self) -> int | None:
        """Status of a response, None if it has none."""
        words = self.start.split()
        said = words[1] if len(words) > 1 else b""
        return int(said) if len(said) == 3 and said.isdigit() else None

    @property
    def line_end(self) -> bytes:
        return b"\n" if self.start.endswith(b"\n") and self.start[-2:-1] != b"\r" else b"\r\n"

    def values(self, name: str) -> list[bytes]:
        return [header.value for header in self.headers if header.is_named(name)]

    def elements(self, name: str) -> list[bytes]:
        """Return a list header's elements in lower case, over all lines of that name."""
        parts = (part for value in self.values(name) for part in value.split(b","))
        return [part.strip(_BLANKS).lower() for part in parts if part.strip(_BLANKS)]

    def adding(self, name: str, value: bytes) -> Head:
        added = Header(name.encode() + b": " + value + self.line_end)
        return replace(self, headers=(*self.headers, added))

    def setting(self, name: str, value: bytes, *, keep_spelling: bool) -> Head:
        """Return it with one header of that name, where the first stood, else at the end."""
        places = [place for place, one in enumerate(self.headers) if one.is_named(name)]
        if not places:
            return self.adding(name, value)
        first = self.headers[places[0]]
        written = Header(name.encode() + b": " + value + first.end)
        new = first.with_value(value) if keep_spelling else written
        kept = (
            new if place == places[0] else header
            for place, header in enumerate(self.headers)
            if place == places[0] or place not in places
        )
        return replace(self, headers=tuple(kept))


def parse_head(head: bytes) -> Head:
    """Split a head into its parts, which joined are the same bytes again."""
    lines = _LINE.findall(head)
    start = lines.pop(0) if lines else b""
    headers: list[bytes] = []
    while lines and lines[0].strip(b"\r\n"):
        line = lines.pop(0)
        if line[:1] in (b" ", b"\t") and headers:
            headers[-1] += line
        else:
            headers.append(line)
    return Head(start, tuple(map(Header, headers)), b"".join(lines))


def is_chunked(head: Head) -> bool:
    return head.elements("transfer-encoding")[-1:] == [b"chunked"]


def content_length(head: Head) -> int | None:
    """Return what Content-Length says, if all of that name say the same number."""
    said = set(head.values("content-length"))
    if len(said) != 1:
        return None
    (value,) = said
    return int(value) if value.isdigit() and len(value) < 19 else None


def with_right_length(head: Head, body: bytes, before: Head, body_before: bytes) -> Head:
    """Return the head of an edited message with a Content-Length that fits the edited body.

    A length that did not fit before, or that an edit changed, was meant that way and stays.
    """
    if is_chunked(head) or len(body) == len(body_before):
        return head
    said = head.values("content-length")
    if not said:
        is_needed = not before.values("content-length") and not body_before
        return head.adding("Content-Length", b"%d" % len(body)) if is_needed else head
    if said != before.values("content-length") or content_length(before) != len(body_before):
        return head
    new = b"%d" % len(body)
    return replace(
        head,
        headers=tuple(
            header.with_value(new) if header.is_named("content-length") else header
            for header in head.headers
        ),
    )


def wire(head: bytes, body: bytes, trailers: bytes = b"", chunks: Sequence[int] = ()) -> bytes:
    """Return the bytes of a whole message, with chunk framing where the head announces it: in
    chunks of those sizes where they fit the body, else in one."""
    if not is_chunked(parse_head(head)):
        return head + body
    sizes = chunks if sum(chunks) == len(body) else (len(body),)
    framed, at = [head], 0
    for size in filter(None, sizes):
        framed.append(b"%x\r\n%s\r\n" % (size, body[at : at + size]))
        at += size
    lines = trailers.strip(b"\r\n")
    return b"".join(framed) + b"0\r\n" + (lines + b"\r\n" if lines else b"") + b"\r\n"


def has_no_body(method: bytes, status: int | None) -> bool:
    """Return whether a response ends with its head, whatever its headers say."""
    if status is None:
        return False
    tunnels = method == b"CONNECT" and 200 <= status < 300
    return method == b"HEAD" or status < 200 or status in (204, 304) or tunnels


class Chunks:
    """Decoder that takes the chunk framing off a body as its bytes arrive."""

    def __init__(self) -> None:
        self.is_done = False
        self.trailers = b""
        self._waiting = bytearray()
        self._left = 0
        """Bytes of the current chunk that are still to come."""
        self._is_after_data = False
        self._is_after_last = False

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Yield the pieces of the body that these bytes complete.

        Raises:
            BadFraming
        """
        self._waiting += data
        while not self.is_done:
            if self._left:
                piece = bytes(self._waiting[: self._left])
                if not piece:
                    return
                del self._waiting[: len(piece)]
                self._left -= len(piece)
                yield piece
            elif (line := self._line()) is None:
                return
            else:
                self._read(line)

    def _line(self) -> bytes | None:
        end = self._waiting.find(b"\n")
        if end < 0 and len(self._waiting) < _CHUNK_LINE_LIMIT:
            return None
        if not 0 <= end < _CHUNK_LINE_LIMIT:
            raise BadFraming("a line of the chunk framing does not end")
        line = bytes(self._waiting[: end + 1])
        del self._waiting[: end + 1]
        return line

    def _read(self, line: bytes) -> None:
        text = line.strip(_BLANKS)
        if self._is_after_last:
            self.is_done = not text
            self.trailers += line if text else b""
            if len(self.trailers) > _CHUNK_LINE_LIMIT:
                raise BadFraming("the trailers do not end")
        elif self._is_after_data:
            if text:
                raise BadFraming("a chunk is longer than its size says")
            self._is_after_data = False
        else:
            self._left = _chunk_size(text)
            self._is_after_data = bool(self._left)
            self._is_after_last = not self._left


def _chunk_size(text: bytes) -> int:
    digits = text.partition(b";")[0].strip(_BLANKS)
    if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", digits):
        raise BadFraming(f"{digits[:20]!r} is no chunk size")
    return int(digits, 16)

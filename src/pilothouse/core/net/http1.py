"""HTTP/1 heads and bodies, as values, without IO.

Requests are read strictly, because one that can be understood in two ways can hide another.
Of servers' answers only the part that says where they end is read so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

MAX_HEAD_BYTES = 128 * 1024
MAX_HEADERS = 200

type Fields = list[tuple[str, str]]


class BadMessage(Exception):
    """A head or body that is malformed, or that could be understood in two ways."""

    def __init__(self, reason: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(reason)
        self.status = status


# Bodies


class Counted:
    """A body of known length; of none by default."""

    def __init__(self, length: int = 0) -> None:
        self.left = length

    @property
    def ended(self) -> bool:
        return not self.left

    def take(self, data: bytes) -> bytes:
        """Return the part of `data` that belongs to the body."""
        taken = data[: self.left]
        self.left -= len(taken)
        return taken


class Endless:
    """Everything from here on: until the connection closes, or after a change to WebSocket."""

    ended = False

    def take(self, data: bytes) -> bytes:
        """Return all of it."""
        return data


_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n")


class Chunked:
    """A chunked body, passed on as it came once each size and line has been checked."""

    def __init__(self, payload: bytearray | None = None) -> None:
        """Add the content without its framing to `payload`, if anybody wants it."""
        self._left = 0
        self._line = bytearray()
        self._line_ended: Callable[[bytes], None] | None = self._size
        self._trailers = 0
        self._payload = payload

    @property
    def ended(self) -> bool:
        return self._line_ended is None

    @property
    def between_chunks(self) -> bool:
        """Tell whether another chunk, or the last one, could stand here."""
        return not self._left and not self._line and self._line_ended == self._size

    def take(self, data: bytes) -> bytes:
        """Return the body's part of `data`. Raises BadMessage at the first line out of place."""
        at = 0
        while at < len(data) and self._line_ended is not None:
            if self._left:
                step = min(self._left, len(data) - at)
                if self._payload is not None:
                    self._payload += data[at : at + step]
                self._left -= step
                at += step
                continue
            end = data.find(b"\n", at) + 1 or len(data)
            self._line += data[at:end]
            at = end
            if len(self._line) > MAX_HEAD_BYTES:
                raise BadMessage("a line of the chunked body is too long")
            if self._line.endswith(b"\n"):
                line = bytes(self._line)
                self._line.clear()
                self._line_ended(line)
        return data[:at]

    def _size(self, line: bytes) -> None:
        # Extensions are refused as well: nobody uses them, and parsers disagree on them.
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise BadMessage("a chunk's size is malformed")
        self._left = int(match[1], 16)
        self._line_ended = self._after_chunk if self._left else self._trailer

    def _after_chunk(self, line: bytes) -> None:
        if line != b"\r\n":
            raise BadMessage("a chunk is longer than it said")
        self._line_ended = self._size

    def _trailer(self, line: bytes) -> None:
        if line == b"\r\n":
            self._line_ended = None
            return
        self._trailers += 1
        if self._trailers > MAX_HEADERS or not line.endswith(b"\r\n"):
            raise BadMessage("the trailers are malformed")
        parse_fields([line[:-2].decode("latin-1")])


type Body = Counted | Chunked | Endless

LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return `data`, which must not be empty, as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


# Requests

_REQUEST_LINE = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-~]+) HTTP/1\.([01])")
_FIELD = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\t -~\x80-\xff]*)")
_LENGTH = re.compile(r"[0-9]{1,18}")


@dataclass(slots=True)
class RequestHead:
    """A request without its body."""

    method: str
    target: str
    minor: str
    """Minor number of the version: HTTP/1.0 or 1.1."""
    fields: Fields
    """Headers as they were written, in their order."""
    values: dict[str, list[str]]
    """Values of the headers by lower-case name."""
    body: Body | None
    """Framing of the body, None without a body."""

    def one(self, name: str) -> str | None:
        """Return a header that may be there only once. Raises BadMessage for more of it."""
        found = self.values.get(name)
        if found is None:
            return None
        if len(found) > 1:
            raise BadMessage(f"there is more than one {name} header")
        return found[0]

    def tokens(self, name: str) -> set[str]:
        """Return the words of a header that is a list, in lower case."""
        return tokens(self.values.get(name, ()))

    @property
    def stays_open(self) -> bool:
        """Tell whether the client may send another request on this connection."""
        return self.minor == "1" and "close" not in self.tokens("connection")


def parse_request_head(head: bytes) -> RequestHead:
    """Read a head, given without the empty line that ends it.

    Raises:
        BadMessage: it is no HTTP/1 request, or its end could be read in two ways.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise BadMessage("the request line is malformed")
    method, target, minor = match.groups()
    if len(lines) > MAX_HEADERS:
        raise BadMessage("too many headers", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    fields, values = parse_fields(lines)
    if len(values.get("host", ())) > 1:
        raise BadMessage("there is more than one Host")
    return RequestHead(method, target, minor, fields, values, _framing(values, minor))


def parse_fields(lines: Iterable[str]) -> tuple[Fields, dict[str, list[str]]]:
    """Return headers as they were written, and their values by lower-case name.

    Raises:
        BadMessage: a line is no header; one that is folded onto another is none either.
    """
    fields: Fields = []
    values: dict[str, list[str]] = {}
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            raise BadMessage("a header is malformed")
        name, value = match.groups()
        value = value.strip(" \t")
        fields.append((name, value))
        key = name.lower()
        if key in values:
            values[key].append(value)
        else:
            values[key] = [value]
    return fields, values


def tokens(values: Iterable[str]) -> set[str]:
    return {token.strip().lower() for value in values for token in value.split(",")}


def _framing(values: dict[str, list[str]], minor: str) -> Body | None:
    lengths, codings = values.get("content-length", []), values.get("transfer-encoding", [])
    if len(lengths) + len(codings) > 1:
        raise BadMessage("a body has one Content-Length or one Transfer-Encoding, not both")
    if codings:
        if codings[0].lower() != "chunked" or minor == "0":
            raise BadMessage("the only Transfer-Encoding is chunked, in HTTP/1.1")
        return Chunked()
    if not lengths:
        return None
    if not _LENGTH.fullmatch(lengths[0]):
        raise BadMessage("Content-Length is no number")
    return Counted(int(lengths[0]))


def upgrades(head: RequestHead) -> bool:
    """Tell whether the client wants to change to WebSocket."""
    # No other protocol: one such as h2c could carry requests that nobody judged.
    wanted = head.tokens("upgrade") == {"websocket"} and "upgrade" in head.tokens("connection")
    return wanted and head.body is None


# What concerns one connection only

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "upgrade",
    }
)
SAYS_THE_LENGTH = frozenset({"content-length", "transfer-encoding"})


def kept(fields: Fields, values: dict[str, list[str]], dropped: Collection[str]) -> Fields:
    """Return the headers for the next hop, without those of this one and the `dropped`."""
    # Connection may name any header to be dropped, but not what says where a request ends.
    named = tokens(values.get("connection", ())) - SAYS_THE_LENGTH
    without = HOP_BY_HOP.union(named, dropped)
    return [(name, value) for name, value in fields if name.lower() not in without]


def write_head(first: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """Return a head with the empty line that ends it."""
    lines = [first, *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1")


# Answers

HEAD_END = re.compile(rb"\r?\n\r?\n")
"""End of a server's head."""
STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?![0-9])")
_ANSWER_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t -~\x80-\xff]*))?")
_NO_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


@dataclass(slots=True)
class AnswerHead:
    """A server's answer without its body."""

    status: int
    reason: str
    minor: str
    fields: Fields
    values: dict[str, list[str]]

    def first(self, name: str) -> str:
        """Return a header's first value, or an empty text."""
        return self.values.get(name, [""])[0]

    def body(self, method: str) -> Body:
        """Return how the body of this answer to such a request is framed.

        Raises:
            BadMessage: that could be understood in two ways.
        """
        if method == "HEAD" or self.status in _NO_BODY or self.status < 200:
            return Counted()
        try:
            return _framing(self.values, self.minor) or Endless()
        except BadMessage as error:
            raise BadMessage(f"the server's answer: {error}", HTTPStatus.BAD_GATEWAY) from None

    @property
    def stays_open(self) -> bool:
        return self.minor == "1" and "close" not in tokens(self.values.get("connection", ()))


def parse_answer_head(head: bytes) -> AnswerHead:
    """Read a head, given without the empty line that ends it. BadMessage if it is none."""
    first, *lines = head.decode("latin-1").replace("\r\n", "\n").split("\n")
    match = _ANSWER_LINE.fullmatch(first)
    if match is None:
        raise BadMessage("the server's answer is not HTTP/1", HTTPStatus.BAD_GATEWAY)
    try:
        fields, values = parse_fields(lines)
    except BadMessage:
        why = "a header of the server's answer is malformed"
        raise BadMessage(why, HTTPStatus.BAD_GATEWAY) from None
    return AnswerHead(int(match[2]), match[3] or "", match[1], fields, values)

"""What the filtering proxy reads and writes: HTTP/1 heads and bodies, as values, without IO.

Requests are read strictly, because one that can be understood in two ways can hide another.
Servers' answers are read leniently, as browsers do.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self._left = length

    def take(self, data: bytes) -> bytes:
        """What of `data` belongs to the body."""
        taken = data[: self._left]
        self._left -= len(taken)
        return taken


class Endless:
    """Everything from here on, as after a change to WebSocket."""

    def take(self, data: bytes) -> bytes:
        """All of it."""
        return data


_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n")


class Chunked:
    """A chunked body, passed on as it came once each size and line has been checked."""

    def __init__(self) -> None:
        self._left = 0
        self._line = bytearray()
        self._line_ended: Callable[[bytes], None] | None = self._size
        self._trailers = 0

    def take(self, data: bytes) -> bytes:
        """What of `data` belongs to the body. BadMessage at the first line out of place."""
        at = 0
        while at < len(data) and self._line_ended is not None:
            if self._left:
                step = min(self._left, len(data) - at)
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
        _field(line[:-2].decode("latin-1"))


type Body = Counted | Chunked | Endless


# Requests


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the proxy."""

    method: str
    url: str
    """As asked for: `host:port` of a tunnel, else a whole URL."""
    authority: str
    scheme: str | None = None
    """A tunnel does not say what will go through it."""
    forwarded: bytes = b""
    """The head as the server gets it; nothing of a tunnel's."""
    body: Body | None = None
    upgrades: bool = False

    @property
    def is_tunnel(self) -> bool:
        return self.scheme is None


_REQUEST_LINE = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-~]+) HTTP/1\.([01])")
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t -~\x80-\xff]*")
_TUNNEL_TARGET = re.compile(r"(?:\[[^\[\]@/?#\\]*\]|[^\[\]:@/?#\\]+):[0-9]{1,5}")
_ABSOLUTE_TARGET = re.compile(r"(https?|wss?)://([^/?#\\@]*)((?:[/?][^#]*)?)", re.IGNORECASE)
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "upgrade",
        "x-pilothouse-blocked",  # only we say these
        "x-pilothouse-failed",
    }
)
# Connection may name any header to be dropped, but not what says where a request ends.
_NEVER_DROPPED = frozenset({"content-length", "transfer-encoding"})


def parse_request(head: bytes) -> Request:
    """Read a head, given without the empty line that ends it.

    Raises:
        BadMessage: it is no request to a proxy, or its end could be read in two ways.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise BadMessage("the request line is malformed")
    method, target, minor = match.groups()
    if len(lines) > MAX_HEADERS:
        raise BadMessage("too many headers", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    fields = [_field(line) for line in lines]
    body = _framing(fields, minor)
    if method == "CONNECT":
        if body is not None or not _TUNNEL_TARGET.fullmatch(target):
            raise BadMessage("CONNECT takes host:port and no body")
        return Request(method, target, target)
    absolute = _ABSOLUTE_TARGET.fullmatch(target)
    if absolute is None or absolute[1].lower() not in ("http", "ws"):
        raise BadMessage("this is a proxy: it takes CONNECT host:port and whole http:// URLs")
    scheme, authority, path = absolute.groups()
    if not path.startswith("/"):
        path = "*" if method == "OPTIONS" and not path else f"/{path}"
    upgrades = body is None and _upgrades(fields)
    connection = (
        ["Connection: Upgrade", "Upgrade: websocket"] if upgrades else ["Connection: close"]
    )
    kept = (f"{name}: {value}" for name, value in _kept(fields))
    out = [f"{method} {path} HTTP/1.{minor}", f"Host: {authority}", *kept, *connection, "", ""]
    forwarded = "\r\n".join(out).encode("latin-1")
    return Request(method, target, authority, scheme.lower(), forwarded, body, upgrades)


def _field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise BadMessage("a header is malformed")
    return name, value.strip(" \t")


def _values(fields: Fields, name: str) -> list[str]:
    return [value for other, value in fields if other.lower() == name]


def _tokens(fields: Fields, name: str) -> set[str]:
    return {token.strip().lower() for value in _values(fields, name) for token in value.split(",")}


def _framing(fields: Fields, minor: str) -> Body | None:
    lengths, codings = _values(fields, "content-length"), _values(fields, "transfer-encoding")
    if len(_values(fields, "host")) > 1:
        raise BadMessage("there is more than one Host")
    if len(lengths) + len(codings) > 1:
        raise BadMessage("a body has one Content-Length or one Transfer-Encoding, not both")
    if codings:
        if codings[0].lower() != "chunked" or minor == "0":
            raise BadMessage("the only Transfer-Encoding is chunked, in HTTP/1.1")
        return Chunked()
    if not lengths:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", lengths[0]):
        raise BadMessage("Content-Length is no number")
    return Counted(int(lengths[0]))


def _upgrades(fields: Fields) -> bool:
    # Only WebSocket: another protocol (h2c) could carry requests that nobody judged.
    asked = _tokens(fields, "upgrade")
    return asked == {"websocket"} and "upgrade" in _tokens(fields, "connection")


def _kept(fields: Fields) -> Fields:
    """The headers for the server; Host is written anew from what was judged."""
    dropped = _HOP_BY_HOP | (_tokens(fields, "connection") - _NEVER_DROPPED) | {"host"}
    return [(name, value) for name, value in fields if name.lower() not in dropped]


# Answers


HEAD_END = re.compile(rb"\r?\n\r?\n")
"""Where a server's head ends."""
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?![0-9])")


class Answer(NamedTuple):
    """A server's head, with what concerned only our connection to it replaced."""

    status: int
    head: bytes
    says_its_length: bool
    """Otherwise the body ends with the connection."""


def rewrite_answer(head: bytes) -> Answer:
    """Read a head, given without the empty line that ends it. BadMessage if it is none."""
    status_line, *lines = re.split(rb"\r?\n", head)
    match = _STATUS_LINE.match(status_line)
    if match is None:
        raise BadMessage("the server's answer is not HTTP/1", HTTPStatus.BAD_GATEWAY)
    status, kept, names, keeps = int(match[1]), [status_line], set(), False
    for line in lines:
        if not line.startswith((b" ", b"\t")):  # a folded line shares the fate of the one before
            name = line.partition(b":")[0].strip().lower().decode("latin-1")
            names.add(name)
            keeps = name not in _HOP_BY_HOP
        if keeps:
            kept.append(line)
    if status == HTTPStatus.SWITCHING_PROTOCOLS:
        kept += [b"Connection: Upgrade", b"Upgrade: websocket"]
    elif status >= 200:
        kept.append(b"Connection: close")
    return Answer(status, b"\r\n".join([*kept, b"", b""]), not names.isdisjoint(_NEVER_DROPPED))


def _ascii(text: str) -> str:
    return re.sub(r"[^ -~]", "?", text)


def own_answer(status: HTTPStatus, reason: str, rule: str = "") -> bytes:
    """An answer of the proxy itself; `rule` is the policy's, when it was that."""
    title = f"{status.value} {status.phrase}"
    body = (
        f"<!doctype html><meta charset=utf-8><title>{title}</title><h1>{title}</h1>"
        f"<p>Pilothouse: {html.escape(reason)}</p>\n"
    ).encode()
    head = [
        f"HTTP/1.1 {title}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Content-Security-Policy: default-src 'none'",
        f"X-Pilothouse-Blocked: {rule}" if rule else f"X-Pilothouse-Failed: {_ascii(reason)}",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body

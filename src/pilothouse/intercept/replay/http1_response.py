"""A response as it arrives, byte by byte: what is kept of it, and when it is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pilothouse.intercept.replay.http1 import (
    BadFraming,
    Chunks,
    content_length,
    has_no_body,
    is_chunked,
    parse_head,
    split_message,
    wire,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_HEAD = 256 * 1024
MOST_BODY = 1024 * 1024
"""Bytes that are kept of a body; its true length is counted on."""
_SWITCHING_PROTOCOLS = 101


@dataclass(slots=True)
class Http1Response:
    """A response, as far as it came."""

    time: float = 0.0
    """Epoch milliseconds of its first byte; 0 as long as there is none."""
    head: bytes = b""
    body: bytearray = field(default_factory=bytearray)
    body_length: int = 0
    trailers: bytes = b""
    status: int | None = None

    def add(self, piece: bytes) -> None:
        self.body += piece[: MOST_BODY - len(self.body)]
        self.body_length += len(piece)


class Conversation(Protocol):
    """One request and its response on a connection of their own, without the connection."""

    response: Http1Response
    is_done: bool
    error: str
    """Reason why the response is not whole, empty if it is."""

    def to_send(self) -> bytes:
        """Return what should go out now; empty if nothing."""

    def receive(self, data: bytes, at: float) -> None:
        """Take bytes that arrived; none means that the server has closed."""


class Http1:
    """Conversation over HTTP/1 with the request's bytes as they are."""

    def __init__(
        self, head: bytes, body: bytes, trailers: bytes = b"", chunks: Sequence[int] = ()
    ) -> None:
        self.response = Http1Response()
        self.is_done = False
        self.error = ""
        self._request = wire(head, body, trailers, chunks)
        self._method = parse_head(head).method
        self._waiting = b""
        """Start of a head that is not whole yet."""
        self._is_in_body = False
        self._chunks: Chunks | None = None
        self._left: int | None = None
        """Bytes of the body that are still to come; None until the connection closes."""

    def to_send(self) -> bytes:
        request, self._request = self._request, b""
        return request

    def receive(self, data: bytes, at: float) -> None:
        if not data:
            self._end()
            return
        self.response.time = self.response.time or at
        if self._is_in_body:
            self._read_body(data)
        else:
            self._waiting += data
            self._read_heads()

    def _read_heads(self) -> None:
        while self._waiting and not self._is_in_body:
            if not b"HTTP/".startswith(self._waiting[:5]):
                self._begin(b"", None)  # no HTTP: kept as it comes, until the server closes
                return
            head, rest = split_message(self._waiting)
            if not head.endswith((b"\n\n", b"\n\r\n")):
                if len(self._waiting) > MOST_HEAD:
                    self._stop("the response's head does not end", self._waiting)
                return
            self._waiting = rest
            status = parse_head(head).status
            if status is None or status >= 200 or status == _SWITCHING_PROTOCOLS:
                self._begin(head, status)

    def _begin(self, head: bytes, status: int | None) -> None:
        parsed, first = parse_head(head), self._waiting
        self.response.head, self.response.status = head, status
        self._is_in_body, self._waiting = True, b""
        if has_no_body(self._method, status):
            self.is_done = True
        elif is_chunked(parsed):
            self._chunks = Chunks()
        elif not parsed.values("transfer-encoding"):
            self._left = content_length(parsed)
            self.is_done = self._left == 0
        if first and not self.is_done:
            self._read_body(first)

    def _read_body(self, data: bytes) -> None:
        if self._chunks is not None:
            self._read_chunks(self._chunks, data)
        elif self._left is None:
            self.response.add(data)
        else:
            self.response.add(data[: self._left])
            self._left -= min(len(data), self._left)
            self.is_done = not self._left

    def _read_chunks(self, chunks: Chunks, data: bytes) -> None:
        try:
            for piece in chunks.feed(data):
                self.response.add(piece)
        except BadFraming as problem:
            self._stop(f"the response's chunks cannot be read: {problem}")
        self.response.trailers = chunks.trailers
        self.is_done = self.is_done or chunks.is_done

    def _end(self) -> None:
        if self._is_in_body and not self.response.head:
            self._stop("what came back is no HTTP response")
        elif self._is_in_body:
            is_cut = self._chunks is not None or self._left is not None
            self._stop("the server closed before the end of the response's body" if is_cut else "")
        elif self._waiting:
            self._stop("the server closed inside of the response's head", self._waiting)
        else:
            self._stop("the server closed the connection without a response")

    def _stop(self, error: str, head: bytes = b"") -> None:
        self.is_done, self.error = True, error
        self.response.head = self.response.head or head

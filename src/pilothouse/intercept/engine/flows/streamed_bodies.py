"""Bodies that pass through while they arrive: the first part is kept, all of it is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mitmproxy import http

from pilothouse.intercept.engine.flows.messages import trailers_of
from pilothouse.intercept.model import WireMessage

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT_BODY = 1 << 20
"""Bytes of a body that are kept, and above which none is held back."""
MOST_CHUNKS = 10_000
"""Chunks of a body whose sizes are kept; one of more is sent again as one."""
_GAPS = (b"\n\n", b"\r\n\r\n", b"\r\r")
"""Separators of two events."""


class Tee:
    """Stream function that hands every piece on as it came, and keeps the first part."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.length = 0
        self.sizes: list[int] = []

    def __call__(self, piece: bytes) -> bytes:
        room = KEPT_BODY - len(self.kept)
        if piece and len(self.sizes) <= MOST_CHUNKS:
            self.sizes.append(len(piece))
        if room > 0:
            self.kept += piece[:room]
        self.length += len(piece)
        return piece

    def sent(self, message: http.Message, head: bytes) -> WireMessage:
        """Return what is recorded of a message whose body went through here."""
        return WireMessage(
            time=message.timestamp_start * 1000,
            head=head,
            body=bytes(self.kept),
            length=len(head) + self.length,
            body_length=self.length,
            trailers=trailers_of(message),
            chunks=self._chunks(message),
        )

    def _chunks(self, message: http.Message) -> tuple[int, ...]:
        """Return the sizes of the chunks that went on, of a body that is kept whole."""
        is_chunked = "transfer-encoding" in message.headers
        is_whole = self.length == len(self.kept) and len(self.sizes) <= MOST_CHUNKS
        return tuple(self.sizes) if is_chunked and is_whole and len(self.sizes) > 1 else ()


class EventStreamBody:
    """Stream function that hands every piece on, and reports events as soon as they are whole.

    Server-sent events that came together are reported together.
    """

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._rest = b""

    def __call__(self, piece: bytes) -> bytes:
        came = self._rest + piece
        end = max(came.rfind(gap) + len(gap) if gap in came else 0 for gap in _GAPS)
        if len(came) - end > KEPT_BODY:
            end = len(came)
        self._rest = came[end:]
        if end:
            self._tell(came[:end])
        return piece

    def close(self) -> None:
        """Report the rest: the stream has ended, perhaps within an event."""
        if self._rest:
            self._tell(self._rest)
            self._rest = b""


def stream(message: http.Message) -> None:
    """Let the body pass from its first byte on."""
    message.stream = Tee()


def hold_back(message: http.Message) -> None:
    """Wait for the whole body, unless it turns out to be larger than is kept.

    mitmproxy then sets `stream` to True by itself, without asking an addon: so that the body is
    recorded all the same, the message is made one that takes True for a tee.
    """
    message.stream = False
    if isinstance(message, http.Request):
        message.__class__ = _GrowingRequest
    else:
        message.__class__ = _GrowingResponse


def tee_of(message: http.Message) -> Tee | None:
    """Return what the body went through, None if it was not streamed."""
    return message.stream if isinstance(message.stream, Tee) else None


def _growing() -> property:
    def get(message: http.Message) -> object:
        return message.__dict__.get("stream", False)

    def put(message: http.Message, value: object) -> None:
        message.__dict__["stream"] = Tee() if value is True else value

    return property(get, put)


class _GrowingRequest(http.Request):
    stream: Any = _growing()


class _GrowingResponse(http.Response):
    stream: Any = _growing()

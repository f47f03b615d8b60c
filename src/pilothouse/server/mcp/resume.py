"""Lets a 2025-era client whose stream broke ask for the rest of it (`Last-Event-ID`)."""

from __future__ import annotations

import re
import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse

if TYPE_CHECKING:
    from mcp.server.streamable_http import EventCallback, StreamableHTTPServerTransport

RETRY_MS = 500
"""Milliseconds after which a client whose stream broke should ask for the rest of it."""
KEPT_STREAMS = 32
KEPT_PER_STREAM = 64
KEPT_CHARACTERS = 4 * 2**20
"""Most that a session keeps for such a client; two screenshots fit, its whole past does not."""


class ResumableSessions(StreamableHTTPSessionManager):
    """Sessions with a store of their own: the SDK names streams by request id, and every client
    counts those from one, so a shared store would hand one session's answers to another."""

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        self.event_store = RecentEvents()
        return super()._admit_session(requestor)


@dataclass
class _Stream:
    """The newest events of the answer to one request, or of the session's lasting GET."""

    number: int
    events: deque[tuple[int, JSONRPCMessage | None]] = field(
        default_factory=lambda: deque(maxlen=KEPT_PER_STREAM)
    )
    written: int = 0
    size: int = 0
    answered: bool = False


_EVENT_ID = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")
"""A stream's number, and that of an event in it, from one on."""
_WHY = "the stream is not known here, so its answer is lost; call again"
LOST = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INTERNAL_ERROR, message=_WHY))
"""Answer to a client that asks for a stream that is too old, or was another process's."""


class RecentEvents(EventStore):
    """The events that a 2025-era session was sent last: a broken connection loses no answer."""

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {}
        # Not from one on: a client may come with an event of an earlier worker of its session.
        self._opened = secrets.randbelow(10**9)

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            self._opened += 1
            stream = _Stream(self._opened)
        self._streams[stream_id] = stream  # now the newest
        stream.written += 1
        stream.events.append((stream.written, message))
        if isinstance(message, JSONRPCResponse):
            # Only results are large, and a stream has one.
            stream.size = _characters(message.result)
        stream.answered = isinstance(message, JSONRPCResponse | JSONRPCError)
        self._make_room()
        return f"{stream.number}-{stream.written}"

    def _make_room(self) -> None:
        older = [name for name in self._streams if name != GET_STREAM_KEY][:-1]
        size = sum(stream.size for stream in self._streams.values())
        for name in older:
            if len(self._streams) <= KEPT_STREAMS and size <= KEPT_CHARACTERS:
                return
            size -= self._streams.pop(name).size

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        named = _EVENT_ID.fullmatch(last_event_id)
        number, last = map(int, named.groups()) if named else (0, 0)
        for name, stream in self._streams.items():
            if stream.number != number:
                continue
            for written, message in list(stream.events):
                if written > last and message is not None:
                    await send_callback(EventMessage(message, f"{number}-{written}"))
            # The SDK goes on with a stream that is named here; one that is over must end.
            return name if name == GET_STREAM_KEY or not stream.answered else None
        # A client that waits for an answer would ask for ever, and leaves when it gets this error.
        # One that only listens gets from now on what is sent here.
        await send_callback(EventMessage(LOST, None))
        return GET_STREAM_KEY


def _characters(value: Any) -> int:
    """Estimate how much memory a JSON value takes, without writing it out."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    if isinstance(value, list):
        return sum(map(_characters, value))
    return 8

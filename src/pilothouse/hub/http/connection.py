"""One client's connection to the hub: requests are read from it, answers written to it."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast

from pilothouse.core.net.http1 import (
    HEAD_END,
    MAX_HEAD_BYTES,
    BadMessage,
    Chunked,
    Counted,
    parse_request_head,
)
from pilothouse.machine.net.local_users import Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.http.replies import Reply

IDLE_S = 120.0
"""Seconds that a connection may stay open between two requests."""
HEAD_S = 30.0
"""Seconds for a whole request head."""
BODY_S = 60.0
"""Seconds for the next piece of a body."""
LINGER_S = 5.0
"""Seconds for a client that still sends to read an answer, before a close could cut it off."""
TOO_LARGE = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
MAX_BUFFERED = 256 * 1024
"""Bytes that a client may send ahead while it is being answered."""
_DRAINED = 4
"""Multiple of the limit up to which a body is read to its end before it is refused."""


class Source(Protocol):
    """A writer to a connection, which can be slowed down to the client's pace."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class ConnectionOwner(Protocol):
    """The owner of connections, which serves their requests."""

    def opened(self, client: Connection) -> bool:
        """Take a new connection; return whether there is room for it."""
        ...

    def closed(self, client: Connection) -> None: ...

    async def serve(self, client: Connection) -> bool:
        """Serve the request that begins to come; return whether there may be another."""
        ...


class Connection(asyncio.Protocol):
    """A client's connection."""

    transport: asyncio.Transport

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._paused = False
        self._discards = False
        self._left: asyncio.Future[None] | None = None
        self._source: Source | None = None
        self._slow = False
        self.deadline = 0.0
        """Time, on the loop's clock, when waiting for the client is given up; 0: nobody waits."""
        self.answered = False
        """True if something was sent since the last request's head came."""
        self.caller = Caller.OTHER
        """User whose process has connected, as far as its owner has asked."""

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._loop = asyncio.get_running_loop()
        self.deadline = self._loop.time() + IDLE_S
        if not self._owner.opened(self):
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._discards:
            return
        self._buffer += data
        if self._waiting is not None:
            self._wake()
        elif self._task is None:
            # At once, not when the loop comes around: a call that waits is a call that is slow.
            task = asyncio.Task(self._serve(), loop=self._loop, eager_start=True)
            self._task = None if task.done() else task
        elif len(self._buffer) > MAX_BUFFERED:
            self._paused = True
            self.transport.pause_reading()

    async def _serve(self) -> None:
        """Serve what has come, and what comes meanwhile."""
        self.deadline = 0.0
        while self._buffer:
            if not await self._owner.serve(self):
                self.transport.close()
                return
        self._task = None  # from here on the next data starts another one
        self.deadline = self._loop.time() + IDLE_S
        self._go_on_reading()

    def _go_on_reading(self) -> None:
        if self._paused:
            self._paused = False
            self.transport.resume_reading()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.closed(self)
        if self._left is not None and not self._left.done():
            self._left.set_result(None)
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._slow = True
        if self._source is not None:
            self._source.pause_reading()

    def resume_writing(self) -> None:
        self._slow = False
        if self._source is not None:
            self._source.resume_reading()

    # Reading

    async def _more(self, patience: float) -> None:
        """Wait until something has come."""
        self._go_on_reading()
        self.deadline = self._loop.time() + patience
        self._waiting = self._loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None
            self.deadline = 0.0

    async def head(self) -> RequestHead:
        """Return the next request's head. Raises BadMessage if it is none."""
        buffer, searched = self._buffer, 0
        began = self._loop.time()
        while (end := HEAD_END.search(buffer, searched)) is None:
            if len(buffer) > MAX_HEAD_BYTES:
                raise BadMessage("the head is too large", TOO_LARGE)
            searched = max(0, len(buffer) - 3)
            await self._more(began + HEAD_S - self._loop.time())
        if end.start() > MAX_HEAD_BYTES:
            raise BadMessage("the head is too large", TOO_LARGE)
        head = parse_request_head(bytes(buffer[: end.start()]))
        if end[0] != b"\r\n\r\n":
            raise BadMessage("a line ends without a carriage return")
        del buffer[: end.end()]
        self.answered = False
        return head

    async def pieces(self, head: RequestHead) -> AsyncIterator[bytes]:
        """Yield a request's body as it was framed, in pieces. Raises BadMessage if malformed."""
        body = head.body
        if body is None:
            return
        if not self._buffer and head.tokens("expect") == {"100-continue"}:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not body.ended:
            if not self._buffer:
                await self._more(BODY_S)
            piece = body.take(bytes(self._buffer))
            del self._buffer[: len(piece)]
            yield piece

    async def rest(self) -> AsyncIterator[bytes]:
        """Yield everything that comes from here on, as after a change to WebSocket."""
        while True:
            if not self._buffer:
                await self._more(math.inf)
            piece = bytes(self._buffer)
            self._buffer.clear()
            yield piece

    async def body(self, head: RequestHead, most: int) -> bytes | None:
        """Return a request's whole content, or None when it is larger than it may be.

        One that is only somewhat too large is read and thrown away, because a client that is
        still sending when the connection closes sees a reset instead of the answer.
        """
        body, content = head.body, bytearray()
        if isinstance(body, Chunked):
            head.body = Chunked(content)
        elif isinstance(body, Counted) and body.left > _DRAINED * most:
            return None
        size, is_whole = 0, True
        async for piece in self.pieces(head):
            size += len(piece)
            if isinstance(body, Counted):
                content += piece
            if len(content) > most:
                content.clear()
                is_whole = False
            if size > _DRAINED * most:
                return None
        return bytes(content) if is_whole else None

    # Writing

    def write(self, data: bytes) -> None:
        """Send data; nothing waits, see `follow`."""
        self.answered = True
        self.transport.write(data)

    def follow(self, source: Source | None) -> None:
        """Slow down `source` from now on whenever the client does not keep up."""
        self._source = source
        if source is not None and self._slow:
            source.pause_reading()

    def reply(self, head: RequestHead | None, reply: Reply) -> bool:
        """Answer a request; return whether the client may send another after it."""
        unread = head is None or (head.body is not None and not head.body.ended)
        stays = not unread and head is not None and head.stays_open
        self.transport.write(reply.wire(head.method if head else "GET", stays_open=stays))
        return stays

    def reset(self) -> None:
        """End it at once: what is cut short must not look complete."""
        self.transport.abort()

    async def linger(self) -> None:
        """Read and drop what still comes, until the client hangs up or its time is over."""
        self._discards = True
        self._buffer.clear()
        self._left = self._loop.create_future()
        if self.transport.can_write_eof():
            with suppress(OSError):  # it has gone meanwhile
                self.transport.write_eof()
        self._go_on_reading()
        self.deadline = self._loop.time() + LINGER_S
        await self._left

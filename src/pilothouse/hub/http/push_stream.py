"""The stream on which a 2025-era client receives what nobody asked for.

A client opens it right after `initialize`, when there is no worker yet, and would not open it again
for a new one. So the hub holds it, and lets in what the session's present worker says.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from pilothouse.core.net.http1 import LAST_CHUNK, Chunked, chunk, write_head
from pilothouse.hub.http.replies import error, status_line
from pilothouse.hub.http.sse import SSE, event, take_events
from pilothouse.hub.mcp.revision_2026 import VERSION_HEADER
from pilothouse.hub.model import RegistryAway, WorkerLost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pilothouse.core.net.http1 import AnswerHead, Body, RequestHead
    from pilothouse.hub.http.connection import Connection
    from pilothouse.hub.http.replies import Reply
    from pilothouse.hub.http.upstream import UpstreamConnection, UpstreamPool
    from pilothouse.hub.model import SessionRecord
    from pilothouse.hub.ports import Upstream

PING_S = 15.0
"""Seconds after which a silent stream shows that it is alive, for proxies in between."""
OPEN_S = 5.0
"""Seconds that a worker may take to open its end."""
AGAIN_S = 0.05
"""Seconds before a worker that has not yet noticed the former stream's end is asked again."""
_TRIES = 10


class PushStreams:
    """The push streams of all sessions."""

    def __init__(self, relay: UpstreamPool) -> None:
        self._relay = relay
        self._streams: dict[str, _Stream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    async def hold(
        self,
        client: Connection,
        head: RequestHead,
        record: SessionRecord,
        *,
        join: Callable[[], tuple[Upstream, str] | None],
        seen: Callable[[], Awaitable[object]],
        first: bytes = b"",
    ) -> Reply | None:
        """Keep a client's stream until it leaves or the session ends.

        Args:
            client: Who asked.
            head: Its request.
            record: The session.
            join: The present worker and the id by which it knows the session, if there is one.
            seen: Is called from time to time: a client that listens is still there.
            first: A message to begin with.
        """
        if record.id in self._streams:
            why = "Conflict: Only one SSE stream is allowed per session"
            return error(409, -32600, why)
        stream = self._streams[record.id] = _Stream(self._relay, client, head)
        try:
            stream.begin(record, first)
            worker = join()
            if worker is not None:
                await stream.join(*worker, record.version)
            await stream.stand(seen)
        finally:
            del self._streams[record.id]
            stream.part()
        return None

    async def join(self, record: SessionRecord, upstream: Upstream, session: str) -> None:
        """Join a worker that has started for a session to its stream, if the client listens."""
        stream = self._streams.get(record.id)
        if stream is not None:
            await stream.join(upstream, session, record.version)

    def tell(self, message: bytes) -> None:
        """Send a notification to all whose session has no worker, which would send it itself."""
        for stream in self._streams.values():
            if not stream.is_joined:
                stream.say(message)

    def say(self, record: SessionRecord, message: bytes) -> None:
        """Send a client that listens a message of the hub's own."""
        stream = self._streams.get(record.id)
        if stream is not None:
            stream.say(message)

    def end(self, record: SessionRecord) -> None:
        """End the stream of a session that is over."""
        stream = self._streams.get(record.id)
        if stream is not None:
            stream.over.set()


class _Stream:
    """One client's end, to which the worker's end is joined when there is one."""

    def __init__(self, relay: UpstreamPool, client: Connection, head: RequestHead) -> None:
        self._relay = relay
        self._client = client
        self._is_chunked = head.minor == "1"
        self._receiving: asyncio.Task[None] | None = None
        self.over = asyncio.Event()

    def begin(self, record: SessionRecord, first: bytes) -> None:
        framing = ("Transfer-Encoding", "chunked") if self._is_chunked else ("Connection", "close")
        fields = [
            ("Content-Type", SSE),
            ("Cache-Control", "no-cache, no-transform"),
            ("X-Accel-Buffering", "no"),
            ("Mcp-Session-Id", record.id),
            framing,
        ]
        self._client.write(write_head(status_line(200), fields))
        if first:
            self.say(first)

    @property
    def is_joined(self) -> bool:
        """Tell whether a worker is joined to it."""
        return self._receiving is not None and not self._receiving.done()

    def say(self, message: bytes) -> None:
        """Write one message."""
        self._write(event(message))

    async def stand(self, seen: Callable[[], Awaitable[object]]) -> None:
        """Keep the stream until the session is over; a client that leaves cancels this."""
        while not self.over.is_set():
            try:
                async with asyncio.timeout(PING_S):
                    await self.over.wait()
            except TimeoutError:
                self._write(b": ping\r\n\r\n")
                with suppress(RegistryAway):
                    await seen()
        if self._is_chunked:
            self._client.write(LAST_CHUNK)

    def _write(self, data: bytes) -> None:
        self._client.write(chunk(data) if self._is_chunked else data)

    async def join(self, upstream: Upstream, session: str, version: str) -> None:
        """Join a worker; return when its end is open, or when it has none."""
        fields = [
            ("Host", upstream.host_header or "localhost"),
            ("Accept", SSE),
            (VERSION_HEADER, version),
            *([("Mcp-Session-Id", session)] if session else []),
        ]
        request = write_head(f"GET {upstream.endpoint or '/mcp'} HTTP/1.1", fields)
        for _ in range(_TRIES):
            self.part()
            received = _ReceivedStream(self._client, self._write)
            self._receiving = asyncio.create_task(self._receive(upstream, request, received))
            with suppress(TimeoutError):
                async with asyncio.timeout(OPEN_S):
                    if await asyncio.shield(received.status) != 409:
                        return
            await asyncio.sleep(AGAIN_S)

    async def _receive(self, upstream: Upstream, request: bytes, received: _ReceivedStream) -> None:
        try:
            await self._relay.exchange(upstream, request, "GET", received)
        except WorkerLost:
            pass  # another one will be joined when it starts
        finally:
            received.end()

    def part(self) -> None:
        """Hang up on the worker."""
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None


class _ReceivedStream:
    """Stream of a worker, written to the client event by event, as it may end within one."""

    def __init__(self, client: Connection, write: Callable[[bytes], None]) -> None:
        self._client = client
        self._write = write
        self._content = bytearray()
        self._chunked: Chunked | None = None
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def begin(self, link: UpstreamConnection, head: AnswerHead, body: Body, first: bytes) -> None:
        if not self.status.done():
            self.status.set_result(head.status)
        if head.status == 200:
            self._client.follow(link)
            self._chunked = Chunked(self._content) if isinstance(body, Chunked) else None
            self.data(first)

    def data(self, data: bytes) -> None:
        if self.status.result() != 200:
            return
        if self._chunked is not None:
            self._chunked.take(data)
        else:
            self._content += data
        events = take_events(self._content)
        if events:
            self._write(events)

    def end(self) -> None:
        self._client.follow(None)
        if not self.status.done():
            self.status.set_result(0)

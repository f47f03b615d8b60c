"""Exchanges with upstreams: a request goes out, and the answer is handed on as it comes.

Connections are kept for the next request. Nothing is sent twice: a connection that was idle for so
long that the other end may be closing it is not used again.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Protocol, cast

from pilothouse.core.net.http1 import (
    HEAD_END,
    MAX_HEAD_BYTES,
    BadMessage,
    Endless,
    parse_answer_head,
)
from pilothouse.hub.model import WorkerLost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pilothouse.core.net.http1 import AnswerHead, Body
    from pilothouse.hub.ports import Upstream

CONNECT_S = 5.0
REUSED_WITHIN_S = 2.0
"""Idle seconds within which a connection is used again: most servers close one after five."""
KEPT = 16
"""Idle connections to one upstream."""


class Unreachable(WorkerLost):
    """Nobody listens there: nothing was sent, so another worker may be asked."""


class Sink(Protocol):
    """Receiver of an answer."""

    def begin(self, link: UpstreamConnection, head: AnswerHead, body: Body, first: bytes) -> None:
        """Begin with the head and the `first` bytes of the body as it is framed."""
        ...

    def data(self, data: bytes) -> None:
        """Take more of the body, as it is framed."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """One connection to an upstream, with one exchange at a time."""

    transport: asyncio.Transport

    def __init__(self, route: UpstreamConnections) -> None:
        self._route = route
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._done: asyncio.Future[bool] | None = None
        self._body: Body | None = None
        self._stays_open = False
        self._sent = True
        self._drained: asyncio.Future[None] | None = None
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._route.links += 1

    async def exchange(
        self, request: bytes, method: str, sink: Sink, more: AsyncIterator[bytes] | None = None
    ) -> bool:
        """Send a request, with `more` of it as it comes, and hand its answer to `sink`.

        Returns:
            Whether the answer came whole.

        Raises:
            WorkerLost: the other end went away before its answer began, or it is not HTTP.
            BadMessage: `more` is malformed.
        """
        self._method, self._sink, self._body = method, sink, None
        done: asyncio.Future[bool] = self._loop.create_future()
        self._done = done
        self._sent = more is None
        sender = None if more is None else self._loop.create_task(self._send(more, done))
        # The client before may have been too slow for its last byte.
        self.transport.resume_reading()
        try:
            self.transport.write(request)
            whole = await done
        except BaseException:
            self.abort()
            raise
        finally:
            if sender is not None:
                sender.cancel()
        self._done = None
        if whole and self._stays_open and self._sent and not self.transport.is_closing():
            self.idle_since = self._loop.time()
            if len(self._route.idle) < KEPT:
                self._route.idle.append(self)
                return True
        self.transport.close()
        return whole

    async def _send(self, more: AsyncIterator[bytes], done: asyncio.Future[bool]) -> None:
        try:
            async for piece in more:
                self.transport.write(piece)
                if self._drained is not None:
                    await self._drained
            self._sent = True
        except BadMessage as error:  # the client's: whoever waits for the answer tells it
            if not done.done():
                done.set_exception(error)

    def data_received(self, data: bytes) -> None:
        if self._done is None or self._done.done():
            self.abort()  # nobody asked
            return
        try:
            if self._body is None:
                self._buffer += data
                self._head_bytes()
            else:
                self._body_bytes(data)
        except BadMessage as error:
            self._fail(f"the worker's answer is malformed: {error}")

    def _head_bytes(self) -> None:
        while self._body is None:
            end = HEAD_END.search(self._buffer)
            if end is None:
                if len(self._buffer) > MAX_HEAD_BYTES:
                    raise BadMessage("its head is too large")
                return
            head = parse_answer_head(bytes(self._buffer[: end.start()]))
            del self._buffer[: end.end()]
            if head.status == 101 or head.status >= 200:  # else a notice that more will come
                self._begin(head)

    def _begin(self, head: AnswerHead) -> None:
        body = Endless() if head.status == 101 else head.body(self._method)
        rest = bytes(self._buffer)
        self._buffer.clear()
        first = body.take(rest)
        self._body = body
        self._stays_open = head.stays_open and len(first) == len(rest)
        self._sink.begin(self, head, body, first)
        if body.ended:
            self._finish(True)

    def _body_bytes(self, data: bytes) -> None:
        assert self._body is not None
        taken = self._body.take(data)
        if len(taken) < len(data):
            self._stays_open = False
        if taken:
            self._sink.data(taken)
        if self._body.ended:
            self._finish(True)

    def _finish(self, whole: bool) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(whole)

    def _fail(self, why: str) -> None:
        """End an exchange without an answer, or with one that nobody can follow any further."""
        if self._done is not None and not self._done.done():
            if self._body is None:
                self._done.set_exception(WorkerLost(why))
            else:
                self._done.set_result(False)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._route.lost(self)
        self.resume_writing()
        if exc is None and isinstance(self._body, Endless):
            self._finish(True)
        self._fail("the worker went away before it answered; call again")

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    def pause_reading(self) -> None:
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        self.transport.resume_reading()

    def abort(self) -> None:
        self.transport.abort()


class UpstreamConnections:
    """The connections to one upstream."""

    def __init__(self, unused: Callable[[], None]) -> None:
        """Take `unused`, which is called when the last of them has gone."""
        self._unused = unused
        self.idle: list[UpstreamConnection] = []
        self.links = 0

    def lost(self, link: UpstreamConnection) -> None:
        if link in self.idle:
            self.idle.remove(link)
        self.links -= 1
        if not self.links:
            self._unused()


class UpstreamPool:
    """The connections to all upstreams."""

    def __init__(self) -> None:
        self._routes: dict[Upstream, UpstreamConnections] = {}

    async def exchange(
        self,
        upstream: Upstream,
        request: bytes,
        method: str,
        sink: Sink,
        more: AsyncIterator[bytes] | None = None,
    ) -> bool:
        """Exchange as `UpstreamConnection.exchange` does, on a connection that is kept or made.

        Raises:
            Unreachable: nobody listens there.
        """
        link = self._kept(upstream) or await self._connect(upstream)
        return await link.exchange(request, method, sink, more)

    def _kept(self, upstream: Upstream) -> UpstreamConnection | None:
        route = self._routes.get(upstream)
        if route is not None:
            now = asyncio.get_running_loop().time()
            while route.idle:
                link = route.idle.pop()
                if now - link.idle_since < REUSED_WITHIN_S and not link.transport.is_closing():
                    return link
                link.abort()
        return None

    async def _connect(self, upstream: Upstream) -> UpstreamConnection:
        route = self._routes.get(upstream)
        if route is None:
            route = self._routes[upstream] = UpstreamConnections(
                lambda: self._forget(upstream, route)
            )
        loop = asyncio.get_running_loop()
        link = UpstreamConnection(route)
        try:
            async with asyncio.timeout(CONNECT_S):
                if upstream.path:
                    await loop.create_unix_connection(lambda: link, upstream.path)
                else:
                    context = ssl.create_default_context() if upstream.tls else None
                    await loop.create_connection(
                        lambda: link, upstream.host, upstream.port, ssl=context
                    )
        except (OSError, TimeoutError) as error:
            if not route.links:
                self._forget(upstream, route)
            why = f"the worker cannot be reached ({str(error) or 'no answer'}); call again"
            raise Unreachable(why) from None
        return link

    def _forget(self, upstream: Upstream, route: UpstreamConnections | None) -> None:
        if self._routes.get(upstream) is route:
            self._routes.pop(upstream, None)

    def close(self) -> None:
        for route in self._routes.values():
            for link in route.idle:
                link.abort()

"""The filtering proxy's connections once it is decided what becomes of them.

Either the proxy answers itself, or a browser's and a server's connection are joined: what comes in
at one end goes out at the other. Bytes go from transport to transport; nothing waits in between.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from pilothouse.core.net.http1 import (
    HEAD_END,
    MAX_HEAD_BYTES,
    BadMessage,
    Body,
    Counted,
    Endless,
)
from pilothouse.e2e.egress_proxy.http import ForwardedHead, ProxyRequest, own_answer, rewrite_answer

if TYPE_CHECKING:
    from collections.abc import Iterable

HALF_OPEN_S = 60.0
"""Seconds after which nothing more will come if one end has hung up and nothing has moved."""
NO_ANSWER = "the server hung up without an answer"
LINGER_S = 5.0
"""Seconds for the browser to read our answer, before a close that could cut it off."""


def answer(
    browser: asyncio.Transport,
    status: HTTPStatus,
    reason: str,
    rule: str = "",
    *,
    fields: Iterable[tuple[str, str]] = (),
) -> None:
    """Send an answer of our own, and hang up."""
    if browser.is_closing():
        return
    browser.write(own_answer(status, reason, rule, fields=fields))
    _hang_up(browser)
    if browser.is_closing():
        return
    browser.set_protocol(_Lingering(browser))
    browser.resume_reading()


def _hang_up(transport: asyncio.Transport) -> None:
    """Say that nothing more will come from us; end the connection if there is nobody any more."""
    try:
        transport.write_eof()
    except OSError:
        transport.abort()


class _Lingering(asyncio.Protocol):
    """A connection that got our own answer: what still comes is dropped, lest a reset cut it."""

    def __init__(self, browser: asyncio.Transport) -> None:
        self._late = asyncio.get_running_loop().call_later(LINGER_S, browser.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()


def join(
    browser: asyncio.Transport, server: asyncio.Transport, request: ProxyRequest, rest: bytes
) -> None:
    """Let the two ends take over: as they are for a tunnel, else head and body of one request."""
    near: _Pipe
    if request.is_tunnel:
        near, far = _Pipe(browser), _Pipe(server)
        browser.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    else:
        near = _RequestPipe(browser, request.body or Counted())
        far = _AnswerPipe(server, near, upgrades=request.upgrades)
        server.write(request.forwarded)
    near.peer, far.peer = far, near
    for pipe in (near, far):
        pipe.transport.set_protocol(pipe)
    if rest:
        near.data_received(rest)
    for pipe in (near, far):
        pipe.transport.resume_reading()


class _Pipe(asyncio.Protocol):
    """One of two ends; each slows the other down to its own pace, and takes it along at the end."""

    peer: _Pipe

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.moved = 0
        self.ended = False

    def data_received(self, data: bytes) -> None:
        self.moved += 1
        self.peer.transport.write(data)

    def pause_writing(self) -> None:
        self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        self.peer.transport.resume_reading()

    def eof_received(self) -> bool:
        self.ended = True
        if self.peer.ended or self.peer.transport.is_closing():
            self.peer.transport.close()
            return False
        _hang_up(self.peer.transport)
        self._abort_when_quiet(-1)
        return True

    def _abort_when_quiet(self, moved: int) -> None:
        # A peer that ignores the hang-up would otherwise hold both connections for ever; one that
        # is slow to read what came before it may take its time.
        if self.peer.moved == moved and not self.peer.transport.get_write_buffer_size():
            self.abort()
        elif not self.transport.is_closing():
            loop = asyncio.get_running_loop()
            loop.call_later(HALF_OPEN_S, self._abort_when_quiet, self.peer.moved)

    def abort(self) -> None:
        """End both connections at once."""
        self.transport.abort()
        self.peer.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self.peer.transport.close()
        else:
            _reset(self.peer.transport)


def _reset(transport: asyncio.Transport) -> None:
    """End a connection as a fault: after a plain end, what is cut short would look complete."""
    if not transport.is_closing():
        at_once = struct.pack("ii", 1, 0)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    transport.abort()


class _RequestPipe(_Pipe):
    """The browser's end of a plain request: only that request's own body passes."""

    def __init__(self, transport: asyncio.Transport, body: Body) -> None:
        super().__init__(transport)
        self.body = body

    def data_received(self, data: bytes) -> None:
        try:
            data = self.body.take(data)
        except BadMessage as error:
            cast("_AnswerPipe", self.peer).spoil(error)
            return
        if data and not self.peer.ended:
            super().data_received(data)


class _AnswerPipe(_Pipe):
    """The server's end of a plain request: its head is rewritten, the rest passes."""

    def __init__(
        self, transport: asyncio.Transport, browser: _RequestPipe, *, upgrades: bool
    ) -> None:
        super().__init__(transport)
        self._browser = browser
        self._upgrades = upgrades
        self._head = bytearray()
        self._answered = self._failed = self._says_its_length = False

    def data_received(self, data: bytes) -> None:
        if self._answered:
            super().data_received(data)
            return
        searched = max(0, len(self._head) - 3)
        self._head += data
        try:
            while not self._answered and (end := HEAD_END.search(self._head, searched)):
                searched = 0
                head = rewrite_answer(bytes(self._head[: end.start()]))
                del self._head[: end.end()]
                self._head_came(head)
            if len(self._head) > MAX_HEAD_BYTES:
                raise BadMessage("the server's headers are too large")
        except BadMessage as error:
            self._fail(HTTPStatus.BAD_GATEWAY, str(error))

    def spoil(self, error: BadMessage) -> None:
        """End a request that turned out bad on the way; say so while there is no other answer."""
        if self._answered:
            self.abort()
        else:
            self._fail(error.status, str(error))

    def _head_came(self, head: ForwardedHead) -> None:
        if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
            if not self._upgrades:
                raise BadMessage("the server changed the protocol unasked")
            self._browser.body = Endless()
        self._says_its_length = head.says_its_length
        self._answered = head.status >= 200 or head.status == HTTPStatus.SWITCHING_PROTOCOLS
        rest = b""
        if self._answered:
            rest = bytes(self._head)
            self._head.clear()
        super().data_received(head.head + rest)

    def eof_received(self) -> bool:
        if not self._answered:
            self._fail(HTTPStatus.BAD_GATEWAY, NO_ANSWER)
            return False
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answered:
            self._fail(HTTPStatus.BAD_GATEWAY, NO_ANSWER)
        elif not self._failed:
            # The browser sees by itself that counted bytes are missing.
            super().connection_lost(None if self._says_its_length else exc)

    def _fail(self, status: HTTPStatus, reason: str) -> None:
        self._answered = self._failed = True
        answer(self._browser.transport, status, reason)
        self.transport.abort()

"""A WebSocket client for one purpose: taking a flood of text frames from a browser on loopback.

General libraries spend as long on a frame as we do on all that is in it, and a flood of console
lines fills both cores: what is saved here is what the page gets to run faster (docs/decisions).
Frames are cut from the bytes without a task or a queue in between. No extensions, no compression.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
READ_BYTES = 16 * 1024
"""Taken from the socket at once: a flood then lets other tasks in every half a millisecond."""
LARGE_READ_BYTES = 1024 * 1024
"""Bytes taken at once while a single large frame is coming in."""
HOLD_S = 0.02
"""Seconds that a flood waits for a call at most: a call may wait for the flood."""
MAX_HEAD_BYTES = 64 * 1024


class WireError(Exception):
    """The peer does not speak WebSocket as it must."""


class Frames:
    """An incremental cutter of bytes into messages; pure."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._held = bytearray()
        self._parts: list[bytes] = []
        self.missing = 0
        """Bytes that the frame at hand still lacks."""

    def feed(self, data: bytes | memoryview) -> list[tuple[int, bytes]]:
        """Return `(opcode, payload)` of each message and control frame that is complete now.

        Raises:
            WireError: masked, extended, too large or out of order.
        """
        held = self._held
        held += data
        found: list[tuple[int, bytes]] = []
        at, end = 0, len(held)
        self.missing = 0
        with memoryview(held) as view:
            while end - at >= 2:
                first, length = held[at], held[at + 1]
                start = at + 2
                if length > 125:
                    if length > 127:
                        raise WireError("a server's frames are not masked")
                    size = 2 if length == 126 else 8
                    if end - start < size:
                        break
                    length = int.from_bytes(view[start : start + size])
                    start += size
                if first & 0x70 or length > self._max:
                    raise WireError("a frame has an extension or is too large")
                stop = start + length
                if stop > end:
                    self.missing = stop - end
                    break
                self._take(first, bytes(view[start:stop]), found)
                at = stop
        del held[:at]
        return found

    def _take(self, first: int, payload: bytes, found: list[tuple[int, bytes]]) -> None:
        opcode, final = first & 0x0F, first & 0x80
        if opcode >= _CLOSE:
            found.append((opcode, payload))
        elif final and opcode and not self._parts:
            found.append((opcode, payload))  # nearly all of them
        else:
            if bool(opcode) == bool(self._parts):
                raise WireError("a fragment is out of order")
            self._parts.append(payload)
            if sum(map(len, self._parts)) > self._max:
                raise WireError("a message is too large")
            if final:
                found.append((_TEXT, b"".join(self._parts)))
                self._parts.clear()


def masked(opcode: int, payload: bytes) -> bytes:
    """Return a client's frame; the mask is what the protocol demands of clients."""
    mask = os.urandom(4)
    length = len(payload)
    head = bytes([0x80 | opcode])
    if length < 126:
        head += bytes([0x80 | length])
    elif length < 65536:
        head += b"\xfe" + length.to_bytes(2)
    else:
        head += b"\xff" + length.to_bytes(8)
    keys = (mask * (length // 4 + 1))[:length]
    body = (int.from_bytes(payload) ^ int.from_bytes(keys)).to_bytes(length)
    return head + mask + body


class Wire(asyncio.BufferedProtocol):
    """An open connection: messages go to `on_message` as they come."""

    def __init__(self, on_message: Callable[[bytes], None], max_bytes: int, key: bytes) -> None:
        self._on_message = on_message
        self._frames = Frames(max_bytes)
        self._key = key
        self._head: bytearray | None = bytearray()
        self._small = memoryview(bytearray(READ_BYTES))
        self._buffer = self._small
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._is_flooded = False
        self._held: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frames.missing <= LARGE_READ_BYTES // 8:
            self._buffer = self._small
        elif self._buffer is self._small:
            self._buffer = memoryview(bytearray(LARGE_READ_BYTES))
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        data = self._buffer[:count]
        self._is_flooded = count == len(self._buffer)
        try:
            if self._head is not None:
                rest = self._handshake(bytes(data))
                if rest is None:
                    return
                data = memoryview(rest)
            for opcode, payload in self._frames.feed(data):
                self._received(opcode, payload)
        except WireError as error:
            self._fail(error)

    def _received(self, opcode: int, payload: bytes) -> None:
        if opcode in (_TEXT, _BINARY):
            self._on_message(payload)
        elif opcode == _PING:
            self._write(masked(_PONG, payload))
        elif opcode == _CLOSE:
            self._write(masked(_CLOSE, payload[:2]))
            self.close()

    def _handshake(self, data: bytes) -> bytes | None:
        """Take the answer's head; return what follows it, or None while it is not complete."""
        assert self._head is not None
        self._head += data
        head, found, rest = bytes(self._head).partition(b"\r\n\r\n")
        if not found:
            if len(self._head) > MAX_HEAD_BYTES:
                raise WireError("the answer's head has no end")
            return None
        self._head = None
        status, *lines = head.split(b"\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (x.partition(b":") for x in lines)}
        wanted = base64.b64encode(hashlib.sha1(self._key + _GUID, usedforsecurity=False).digest())
        if status.split(b" ")[1:2] != [b"101"]:
            raise WireError(f"refused: {status.decode('latin-1')[:100]}")
        if headers.get(b"sec-websocket-accept") != wanted:
            raise WireError("the answer does not fit the question")
        if not self.opened.done():
            self.opened.set_result(None)
        return rest

    def _fail(self, error: WireError) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(WireError("the connection was closed"))
        self.closed.set()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def send(self, text: bytes) -> None:
        """Queue a text message; returns at once."""
        self.release()  # its answer may be waited for
        self._write(masked(_TEXT, text))

    # A `Pausable`, which waits for calls

    def hold(self) -> None:
        if self._is_flooded and self._held is None and self._transport is not None:
            self._transport.pause_reading()
            self._held = asyncio.get_running_loop().call_later(HOLD_S, self.release)

    def release(self) -> None:
        if self._held is not None and self._transport is not None:
            self._held.cancel()
            self._held = None
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(
    url: str, on_message: Callable[[bytes], None], *, max_bytes: int, deadline: float
) -> Wire:
    """Open a connection. Raises OSError, TimeoutError or WireError."""
    parts = urlsplit(url)
    if parts.scheme != "ws" or not parts.hostname:
        raise WireError(f"not a ws:// address: {url[:100]}")
    key = base64.b64encode(os.urandom(16))
    port = parts.port or 80
    async with asyncio.timeout(deadline):
        loop = asyncio.get_running_loop()
        transport, wire = await loop.create_connection(
            lambda: Wire(on_message, max_bytes, key), parts.hostname, port
        )
        try:
            # No Origin: a browser refuses every one that its flags do not name.
            transport.write(
                f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
                "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Key: {key.decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            await wire.opened
        except BaseException:
            transport.abort()
            raise
    return wire

"""A flood on the browser's socket waits for calls, for a moment and only if it is one."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from pilothouse.core.call_priority import CallPriority
from pilothouse.observe.cdp.websocket import _GUID, READ_BYTES, Wire, connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GUARD_S = 30.0
FLOOD = b"\x81\x7e" + (1_000).to_bytes(2) + b"x" * 1_000
"""One frame of it."""


@asynccontextmanager
async def flooding(frames: int) -> AsyncIterator[tuple[Wire, list[bytes]]]:
    """A wire whose other end has sent so many frames; what came of them."""
    came: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(x for x in head.split("\r\n") if x.lower().startswith("sec-websocket-key"))
        digest = hashlib.sha1(key.split(": ")[1].encode() + _GUID, usedforsecurity=False).digest()
        answer = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: "
        writer.write(answer + base64.b64encode(digest) + b"\r\n\r\n" + FLOOD * frames)
        with suppress(ConnectionResetError):  # the wire may be closed with something unread
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"ws://127.0.0.1:{port}/"
        wire = await connect(url, came.append, max_bytes=1 << 20, deadline=GUARD_S)
        try:
            yield wire, came
        finally:
            wire.close()


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def until(came: list[bytes], number: int) -> None:
    async with asyncio.timeout(GUARD_S):
        # More often than the shared `until` asks: the flood must not be over by then.
        while len(came) < number:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.001)


@pytest.mark.anyio
async def test_a_flood_waits_until_the_call_is_answered_and_loses_nothing() -> None:
    priority = CallPriority()
    async with flooding(2_000) as (wire, came):
        priority.add(wire)
        await until(came, READ_BYTES // 1_000)
        priority.asked()
        before = len(came)
        await turns(20)
        assert len(came) == before < 2_000
        priority.answered()
        await until(came, 2_000)


@pytest.mark.anyio
async def test_a_call_that_takes_long_holds_nothing_up() -> None:
    async with flooding(2_000) as (wire, came):
        await until(came, READ_BYTES // 1_000)
        wire.hold()
        await until(came, 2_000)


@pytest.mark.anyio
async def test_a_command_is_not_held_up_by_the_call_that_sends_it() -> None:
    async with flooding(2_000) as (wire, came):
        await until(came, READ_BYTES // 1_000)
        wire.hold()
        before = len(came)
        wire.send(b"{}")
        await turns(20)
        assert len(came) > before


@pytest.mark.anyio
async def test_without_a_flood_nothing_waits() -> None:
    async with flooding(3) as (wire, came):
        await until(came, 3)
        wire.hold()
        assert wire._held is None

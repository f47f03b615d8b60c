"""The line server of a worker: the same as stdio, on a unix socket. Relays connect by themselves.

A worker that is to end takes no more, and still answers what it has taken: a relay whose line was
not taken any more knows that it was not, and has another worker serve it.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.server.runtime import Runtime
    from pilothouse.server.transports.stdio import StdioReader

ROOM = 1 << 20
SETTLE_S = 0.05
"""Seconds until a line that was read last has become a call."""
FINISH_S = 2.0
"""Seconds that calls may take that run when the worker is to end."""


@asynccontextmanager
async def serving_lines(runtime: Runtime, listener: socket.socket) -> AsyncIterator[None]:
    """Serve who connects until the block ends."""
    server = _LineServer(runtime, listener)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.accept)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await server.close()
            tasks.cancel_scope.cancel()


class _LineServer:
    def __init__(self, runtime: Runtime, listener: socket.socket) -> None:
        self._runtime = runtime
        self._listener = listener
        self._accepting = anyio.CancelScope()
        self._links: set[socket.socket] = set()
        self._is_closing = False
        self._left = anyio.Event()
        """Event that a connection has ended."""

    async def accept(self) -> None:
        loop = asyncio.get_running_loop()
        async with anyio.create_task_group() as tasks:
            with self._accepting, self._listener:
                while True:
                    link, _ = await loop.sock_accept(self._listener)
                    tasks.start_soon(self._talk, link)

    async def close(self) -> None:
        """Take no more; return when what was taken is answered, or after a while."""
        self._is_closing = True
        self._accepting.cancel()
        for link in self._links:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RD)
        with anyio.move_on_after(SETTLE_S + FINISH_S):
            while self._links:
                self._left = anyio.Event()
                await self._left.wait()

    async def _talk(self, link: socket.socket) -> None:
        from mcp.server.stdio import stdio_server

        from pilothouse.server.mcp.handlers import build_server
        from pilothouse.server.mcp.sdk_bypass import SdkBypass
        from pilothouse.server.transports.log_echo import LogEcho
        from pilothouse.server.transports.stdio import StdioReader, StdioWriter

        self._links.add(link)
        echo: LogEcho | None = None
        with suppress(OSError):  # a large answer goes at once, and the relay is woken once
            link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        try:
            bypass = SdkBypass()
            first = self._runtime.priority
            writer = StdioWriter(link.fileno(), bypass, first.answered)
            lines = StdioReader(link.fileno(), writer, are_sound=True, asked=first.asked)
            reader = self._until_answered(lines)
            server = build_server(self._runtime, bypass)
            echo = LogEcho(writer)
            with self._runtime.log.copied_to(echo.add):
                async with stdio_server(reader, writer) as (read, write):  # type: ignore[arg-type]
                    await server.run(read, write, server.create_initialization_options())
            await echo.close()
        except* OSError:
            pass  # the relay was killed; the hub ends this worker
        finally:
            if echo is not None:
                echo.stop()
            self._links.discard(link)
            link.close()
            self._left.set()

    async def _until_answered(self, reader: StdioReader) -> AsyncIterator[str]:
        """Yield the lines. The server gives up what it does at their end: where that end is our
        own doing, it comes when the calls are done."""
        async for line in reader:
            yield line
        if self._is_closing:
            with anyio.move_on_after(FINISH_S):
                await anyio.sleep(SETTLE_S)
                # Calls do not report their end.
                while any(session.running_calls for session in self._runtime.sessions):  # noqa: ASYNC110
                    await anyio.sleep(0.005)

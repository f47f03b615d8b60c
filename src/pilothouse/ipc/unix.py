"""The Unix socket at which workers reach the services of the hub that all of them share."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pilothouse.ipc.local_socket import listen_at, peer_uid
from pilothouse.ipc.rpc import RpcConnection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from pilothouse.ipc.rpc import Report, Served

LEAVE_S = 5.0
"""Seconds for what was lent to come back when the hub ends."""


@asynccontextmanager
async def serve_rpc(
    path: Path, serve: Callable[[RpcConnection], Served], report: Report
) -> AsyncIterator[None]:
    """Take connections of this user until the block ends; each is served by what `serve` makes.

    Raises:
        OSError: the socket cannot be made.
    """
    lines: set[_ServedLine] = set()
    loop = asyncio.get_running_loop()
    listener = listen_at(str(path))
    server = await loop.create_unix_server(lambda: _ServedLine(serve, report, lines), sock=listener)
    try:
        yield
    finally:
        server.close()
        with suppress(FileNotFoundError):
            os.unlink(path)
        ending = list(lines)
        for line in ending:
            line.close("the hub has ended")
        settled = [asyncio.ensure_future(line.settled()) for line in ending]
        if settled:
            await asyncio.wait(settled, timeout=LEAVE_S)


class _ServedLine(RpcConnection):
    """A worker's connection."""

    def __init__(
        self, serve: Callable[[RpcConnection], Served], report: Report, lines: set[_ServedLine]
    ) -> None:
        super().__init__(serve, report)
        self._lines = lines

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._lines.add(self)
        uid = peer_uid(transport.get_extra_info("socket"))
        if uid != os.getuid():
            self._report("service_socket", PermissionError(f"user {uid} was refused"))
            self.close("it is another user's")

    def close(self, why: str) -> None:
        super().close(why)
        self._lines.discard(self)

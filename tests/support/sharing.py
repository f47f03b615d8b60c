"""Gateways of one Redis.

sharing.py REDIS LEASE_S FOLDER    one with its listener, as a process; prints its port
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.hub.sessions.open import Shared
from pilothouse.hub.sessions.ownership import FencedWorkers
from pilothouse.hub.sessions.peers import Peers
from pilothouse.hub.sessions.redis_registry import RedisRegistry
from pilothouse.hub.sessions.redis_wire import RedisWire, parse_address
from tests.support.listener_rig import listen, own_workers, template_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.model import Key
    from pilothouse.hub.ports import Authenticate
    from tests.support.listener_rig import Crew, Rig


class Gateway(RedisRegistry):
    """A registry that remembers what it told others."""

    def __init__(self, url: str, own_url: str, **options: Any) -> None:
        self.reported: list[tuple[str, dict[str, Any]]] = []
        super().__init__(
            RedisWire(parse_address(url)),
            own_url,
            report=lambda event, **details: self.reported.append((event, details)),
            **options,
        )
        self.lost: list[Key] = []
        self.on_lost = self.lost.append
        self._running: asyncio.Task[None] | None = None

    def go_on(self) -> None:
        """Look after the lease."""
        self._running = asyncio.create_task(self.run())

    async def freeze(self) -> None:
        """Stop looking after the lease, as a process that was stopped."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running
            self._running = None


@asynccontextmanager
async def gateway(
    url: str, own_url: str = "http://127.0.0.1:1", *, frozen: bool = False, **options: Any
) -> AsyncIterator[Gateway]:
    """One that is started, and looks after its lease unless it is frozen."""
    one = Gateway(url, own_url, **options)
    await one.start()
    if not frozen:
        one.go_on()
    try:
        yield one
    finally:
        await one.freeze()
        await one.close()


@asynccontextmanager
async def shared_listener(
    redis: str,
    crew: Crew,
    template: Template,
    authenticate: Authenticate | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Rig, Gateway]]:
    """A listener whose sessions other gateways know too."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with gateway(redis, url, **options) as one:
        fenced, peers = FencedWorkers(crew, one), Peers(one.lease, time.time)

        def lost(key: Key) -> None:
            one.lost.append(key)
            fenced.drop(key)

        one.on_lost = lost
        shared = Shared(one, fenced, peers)
        try:
            async with listen(
                crew, template, authenticate=authenticate, shared=shared, listener=listener
            ) as rig:
                yield rig, one
        finally:
            peers.close()


async def main(redis: str, lease_s: float, folder: Path) -> None:
    async with own_workers(folder) as crew:
        template = await template_of(crew)
        async with shared_listener(redis, crew, template, lease_s=lease_s) as (rig, _):
            sys.stdout.write(f"{rig.port}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])))

"""The registry of a hub, as its settings ask for it. Beside `wiring/standalone.py`, for the hub
alone."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from pilothouse.core.settings import BadSetting
from pilothouse.hub.sessions.registry import MemoryRegistry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pilothouse.core.settings import Settings
    from pilothouse.hub.model import Key
    from pilothouse.hub.ports import PlacedWorkers, Workers
    from pilothouse.hub.sessions.peers import Peers
    from pilothouse.hub.sessions.redis_registry import RedisRegistry
    from pilothouse.hub.sessions.registry import SessionRegistry

_EVERYWHERE = ("0.0.0.0", "::")


class Shared(NamedTuple):
    """The sessions of a hub, and the other gateways that know them too."""

    registry: SessionRegistry
    workers: Workers
    """Workers for the clients of the HTTP listener."""
    peers: Peers | None = None


@asynccontextmanager
async def open_registry(
    settings: Settings, workers: PlacedWorkers, url: str, report: Callable[..., None]
) -> AsyncIterator[Shared]:
    """Open the registry for the block.

    Args:
        settings: The hub's own.
        workers: Of this hub.
        url: At which its listener is reached.
        report: Is told what happens, by name and details.

    Raises:
        BadSetting: `--registry` or `--peer-url` asks for what there is not.
    """

    def has_worker(key: Key) -> bool:
        return workers.running(key) is not None

    most = settings.max_sessions
    if not settings.registry:
        memory = MemoryRegistry(time.time, max_sessions=most, has_worker=has_worker)
        yield Shared(memory, workers)
        return
    from pilothouse.hub.sessions.ownership import FencedWorkers
    from pilothouse.hub.sessions.peers import Peers
    from pilothouse.hub.sessions.redis_registry import RedisRegistry
    from pilothouse.hub.sessions.redis_wire import RedisWire, parse_address

    wire = RedisWire(parse_address(settings.registry))
    registry = RedisRegistry(
        wire,
        peer_url(settings.peer_url, url),
        max_sessions=most,
        has_worker=has_worker,
        report=report,
    )
    try:
        await _start(registry, str(wire.address))
        fenced = FencedWorkers(workers, registry)
        registry.on_lost = fenced.drop
        peers = Peers(registry.lease, time.time)
        running = asyncio.create_task(registry.run())
        try:
            yield Shared(registry, fenced, peers)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            peers.close()
    finally:
        await registry.close()


async def _start(registry: RedisRegistry, address: str) -> None:
    """Start the registry. Raises BadSetting, which names the fix."""
    from pilothouse.hub.model import RegistryAway
    from pilothouse.hub.sessions.redis_wire import RedisAway, RedisRefused

    try:
        await registry.start()
    except RedisAway as away:
        why = f"no Redis answers there ({away}); start one, or leave --registry out"
    except RedisRefused as refused:
        text = str(refused)
        if text.startswith("NOAUTH"):
            why = "it wants a password: redis://:PASSWORD@HOST"
        elif "AUTH" in text or text.startswith(("WRONGPASS", "ERR invalid password")):
            why = "it does not take this user and password"
        else:
            why = f"it says: {text}"
    except RegistryAway as away:
        why = away.message
    else:
        return
    raise BadSetting(f"--registry {address}: {why}")


def peer_url(given: str, own: str) -> str:
    """Return where other gateways reach this one: as set, or at its own URL. Raises BadSetting."""
    parts = urlsplit(given or own)
    try:
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or parts.path.strip("/"):
        raise BadSetting("--peer-url: expected http://HOST:PORT of this gateway")
    if parts.hostname in _EVERYWHERE:
        raise BadSetting(
            "--registry: other gateways have to know an address of this one, and"
            f" {parts.hostname} is none; add --peer-url {parts.scheme}://ADDRESS:{parts.port}"
        )
    return f"{parts.scheme}://{parts.netloc}"

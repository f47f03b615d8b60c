"""The services that exist once on the machine, as the hub offers them to its workers.

Beside `wiring/groups.py` the file that knows which groups have such services. Each is opened by the
first worker that asks for it, and what a worker holds of it is taken back when the worker dies.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pilothouse.hub.services.client import PORTS, SHOW
from pilothouse.ipc.frames import BadFrame
from pilothouse.ipc.rpc import LineLost, ServiceBroke
from pilothouse.ipc.unix import serve_rpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.bookmarks.hub_server import ServedLink
    from pilothouse.intercept.hub_server import ServedProxy
    from pilothouse.ipc.rpc import RpcConnection
    from pilothouse.server.metrics import Taken, Tally
    from pilothouse.server.runtime import Runtime

LOOK_S = 0.1
"""Seconds between two looks whether the browser of a dead worker is gone, too."""
COUNT_S = 1.0
"""Seconds that a worker may take to report its counts; a busy one reports them the next time."""
LEARN_S = 5.0
"""Seconds that a worker may take to learn of a port. One so busy serves no call meanwhile."""


@asynccontextmanager
async def open_services(runtime: Runtime, path: Path) -> AsyncIterator[Services]:
    """Serve workers at a unix socket until the block ends. The runtime is the hub's own.

    Raises:
        OSError: the socket cannot be made.
    """
    services = Services(runtime)
    runtime.listeners.on_change = runtime.services.on_change = services.announce
    runtime.metrics.gather = services.have_counted

    def report(do: str, error: BaseException) -> None:
        if isinstance(error, BadFrame):
            runtime.log.warn(do, why=str(error))  # a defect of the other side, which has its log
        else:
            runtime.log.error("service_failed", error, do=do)

    async with serve_rpc(path, lambda line: WorkerPeer(services, line), report):
        try:
            yield services
        finally:
            services.close()


class Services:
    """The workers of a hub, and what all of them share."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._peers: dict[WorkerPeer, None] = {}
        """Workers in the order in which they came."""
        self._releasing: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._releasing:
            task.cancel()

    def __len__(self) -> int:
        """Return the number of workers that have joined."""
        return len(self._peers)

    def came(self, peer: WorkerPeer) -> None:
        self._peers[peer] = None

    def went(self, peer: WorkerPeer) -> None:
        self._peers.pop(peer, None)
        self.listeners_changed()

    def ports_for(self, peer: WorkerPeer) -> dict[str, Any]:
        """Return what a worker must know of the others."""
        runtime = self.runtime
        return {
            "foreign": sorted(runtime.debug_ports.foreign(peer.session)),
            "listeners": sorted(runtime.listeners - peer.listeners),
            "services": dict(runtime.services),
            "paired": runtime.paired,
        }

    def listeners_changed(self) -> None:
        """Learn the listeners of all workers anew, when those of one have changed."""
        self.runtime.listeners.learn(port for peer in self._peers for port in peer.listeners)
        self.announce()

    def release_when_closed(self, claims: dict[str, int]) -> None:
        """Release a dead worker's browsers once they are gone: they are nobody else's before."""
        task = asyncio.ensure_future(self._release_when_closed(claims))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _release_when_closed(self, claims: dict[str, int]) -> None:
        for name, port in claims.items():
            while port and await _is_open(port):  # noqa: ASYNC110  # another process closes it
                await asyncio.sleep(LOOK_S)
            self.runtime.debug_ports.release(name)
        self.announce()

    def announce(self) -> None:
        """Tell every worker of the others."""
        for peer in self._peers:
            peer.tell_ports()

    def peers(self) -> dict[str, WorkerPeer]:
        """Return workers by session; of two, while one replaces the other, the newer one."""
        return {peer.session: peer for peer in self._peers}

    async def have_learnt(self) -> None:
        """Tell every worker of the others, and wait until they know it."""
        await asyncio.gather(*(peer.learn() for peer in self._peers))

    async def have_counted(self) -> None:
        """Take what all workers have counted."""
        await asyncio.gather(*(peer.count() for peer in self._peers))


class WorkerPeer:
    """One worker: implements `Served`."""

    def __init__(self, services: Services, line: RpcConnection) -> None:
        self.session = ""
        self.listeners: frozenset[int] = frozenset()
        self._services = services
        self._runtime = services.runtime
        self._line = line
        self._claims: dict[str, int] = {}
        """Debugging ports by their names in the hub's book; 0 for the user's own browser."""
        self._proxy: ServedProxy | None = None
        self._link: ServedLink | None = None
        self._counted: Taken = {}

    def tell_ports(self) -> None:
        self._line.tell(PORTS, self._services.ports_for(self))

    async def learn(self) -> None:
        with suppress(LineLost, ServiceBroke, TimeoutError):
            async with asyncio.timeout(LEARN_S):
                await self._line.call(PORTS, self._services.ports_for(self))

    async def count(self) -> None:
        with suppress(LineLost, ServiceBroke, TimeoutError):
            async with asyncio.timeout(COUNT_S):
                self._count(await self.show("counts"))

    def _count(self, told: Tally) -> None:
        self._runtime.metrics.take(told, self._counted)

    async def show(self, what: str, **given: Any) -> Any:
        """Ask for what people are to see of it. Raises Fault, LineLost, ServiceBroke."""
        return await self._line.call(SHOW + what, given)

    # What the worker asks

    async def call(self, do: str, given: dict[str, Any]) -> Any:
        match do:
            case "hello":
                self.session = given["session"]
                self._services.came(self)
                return self._services.ports_for(self)
            case "house.claim":
                return await self._claim(**given)
            case "house.counted":
                return self._count(given["told"])
        service, _, method = do.partition(".")
        return await (await self._served(service)).call(method, given)

    @asynccontextmanager
    async def hold(self, do: str, given: dict[str, Any]) -> AsyncIterator[Any]:
        service, _, method = do.partition(".")
        async with (await self._served(service)).hold(method, given) as value:
            yield value

    def tell(self, do: str, given: dict[str, Any]) -> None:
        match do:
            case "house.release":
                self._release(given["session_id"])
            case "house.listeners":
                self.listeners = frozenset(given["ports"])
                self._services.listeners_changed()
            case "house.counted":
                self._count(given["told"])
            case "bookmarks.wanted":
                if self._link is not None:
                    self._link.wanted()
            case _:
                raise LookupError(f"the hub does not care about {do[:80]}")

    def lost(self) -> None:
        self._services.went(self)
        self._services.release_when_closed(self._claims)

    async def _served(self, service: str) -> ServedProxy | ServedLink:
        """Return the service, opened now if need be. Raises LookupError for what there is not."""
        if not self.session:
            raise LookupError("a worker says hello first")
        if service == "intercept":
            return await self._intercept()
        if service == "bookmarks":
            return await self._bookmarks()
        raise LookupError(f"the hub has no {service[:80]}")

    async def _intercept(self) -> ServedProxy:
        from pilothouse.intercept.hub_server import ServedProxy
        from pilothouse.intercept.proxy import Proxy

        proxy = await self._runtime.shared.port(Proxy)
        if self._proxy is None:
            self._proxy = ServedProxy(proxy, self.session, partial(self._say, "intercept"))
        return self._proxy

    async def _bookmarks(self) -> ServedLink:
        from pilothouse.bookmarks.extension.server import ExtensionServer
        from pilothouse.bookmarks.hub_server import ServedLink

        link = await self._runtime.shared.port(ExtensionServer)
        if self._link is None:
            self._link = ServedLink(link, partial(self._say, "bookmarks"))
        return self._link

    def _say(self, service: str, what: str, given: dict[str, Any]) -> None:
        self._line.tell(f"{service}.{what}", given)

    # Debugging ports

    async def _claim(self, session_id: str, port: int, shared: bool) -> None:
        """Claim a port; return when every other worker knows that it is not its own."""
        name = f"{self.session}/{session_id}"
        self._claims[name] = 0 if shared else port
        self._runtime.debug_ports.claim(self.session, name, port, shared=shared)
        await self._services.have_learnt()

    def _release(self, session_id: str) -> None:
        name = f"{self.session}/{session_id}"
        self._claims.pop(name, None)
        self._runtime.debug_ports.release(name)
        self._services.announce()


async def _is_open(port: int) -> bool:
    """Return whether something of this machine answers there."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, OverflowError):  # the latter: there is no such port
        return False
    writer.close()
    return True

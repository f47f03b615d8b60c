"""The ports that are listened on, changed while others go on."""

from __future__ import annotations

import asyncio
import copy
import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mitmproxy import platform
from mitmproxy.proxy.mode_servers import ServerInstance
from mitmproxy.proxy.mode_specs import ProxyMode, TransparentMode

from pilothouse.intercept.engine.listen_modes import HOST, Wanted, wanted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mitmproxy.addons.proxyserver import Proxyserver
    from mitmproxy.connection import Client


@dataclass(slots=True)
class Listener:
    """A port that somebody wants to be listened on."""

    wanted: Wanted
    session: str = ""
    """Session whose browser it serves; empty for those of the configuration."""
    upstream: int = 0
    """Port of the proxy of a session, which decides where its browser may go; 0 for none."""
    secret: str = field(default="", repr=False)
    """Secret that the browser shows us, and we that proxy, where the system names no owner."""
    instance: ServerInstance[Any] | None = None
    """Server of mitmproxy, only while it runs."""
    port: int = 0
    """Port it really has, also where any free one was asked for."""
    reason: str = ""

    @property
    def is_judged(self) -> bool:
        """True if the proxy behind it judges what it takes."""
        return bool(self.upstream)

    def state(self) -> dict[str, Any]:
        return {
            "id": self.wanted.id,
            "port": self.port,
            "type": self.wanted.type,
            "running": self.instance is not None,
            "reason": self.reason,
        }


NOBODY = Listener(Wanted(0, 0, ""))


class ProxyListeners:
    """All listeners, started, found and ended; each is found by a mode object of its own."""

    def __init__(self, proxy: Proxyserver) -> None:
        self._proxy = proxy
        self._configured: list[Listener] = []
        self._browsers: dict[str, Listener] = {}
        self._by_mode: dict[int, Listener] = {}
        self._ports: frozenset[int] = frozenset()
        self._changing = asyncio.Lock()

    def of(self, client: Client) -> Listener:
        """Return the listener that took a client's connection."""
        return self._by_mode.get(id(client.proxy_mode), NOBODY)

    def states(self) -> list[dict[str, Any]]:
        return [listener.state() for listener in self._configured]

    def browsers(self) -> dict[str, int]:
        return {name: listener.port for name, listener in self._browsers.items()}

    def ports(self) -> frozenset[int]:
        """Return the ports on which we listen ourselves."""
        return self._ports

    async def configure(self, config: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Listen where the configuration says so and nowhere else; what did not change goes on."""
        async with self._changing:
            running = {one.wanted.spec: one for one in self._configured if one.instance}
            plan = wanted(config)
            kept = {one.spec for one in plan if one.mode}
            for spec, listener in running.items():
                if spec not in kept:
                    await self._stop(listener)
            self._configured = [self._kept(one, running) for one in plan]
            for listener in self._configured:
                if listener.wanted.mode and not listener.instance:
                    await self._start(listener)
            return self.states()

    def _kept(self, one: Wanted, running: dict[str, Listener]) -> Listener:
        listener = running.pop(one.spec, None) if one.mode else None
        if listener is None:
            return Listener(one, port=one.port, reason=one.reason)
        listener.wanted = one
        return listener

    async def open_browser(
        self, name: str, session: str, upstream: int | None, port: int, secret: str
    ) -> Listener:
        """Open a proxy for one browser; all its traffic goes on to port `upstream`."""
        mode = f"upstream:http://{HOST}:{upstream}" if upstream else "regular"
        async with self._changing:
            if old := self._browsers.pop(name, None):
                await self._stop(old)
            one = Wanted(0, port, "HTTP_PROXY", mode)
            listener = Listener(one, session, upstream or 0, secret, port=port)
            await self._start(listener)
            if listener.instance:
                self._browsers[name] = listener
            return listener

    def judge_of(self, session: str, port: int) -> Listener | None:
        """Return the listener of a session's browser behind which its requests are judged: the one
        on this port if it is still there."""
        open_now = [
            one for one in self._browsers.values() if one.session == session and one.is_judged
        ]
        return next((one for one in open_now if one.port == port), next(iter(open_now), None))

    async def close_browser(self, name: str) -> None:
        async with self._changing:
            if listener := self._browsers.pop(name, None):
                await self._stop(listener)

    async def close(self) -> None:
        async with self._changing:
            for listener in list(self._by_mode.values()):
                await self._stop(listener)

    async def _start(self, listener: Listener) -> None:
        # Parsed modes are shared by all that were spelled alike; ours must tell two apart.
        mode = copy.copy(ProxyMode.parse(listener.wanted.spec))
        if mode.transport_protocol == "both":
            mode.transport_protocol = "tcp"  # type: ignore[misc]  # HTTP/3 has a type of its own
        try:
            if isinstance(mode, TransparentMode):
                _prepare_transparent()
            instance: ServerInstance[Any] = ServerInstance.make(mode, self._proxy)
            await instance.start()
        except (OSError, RuntimeError, ValueError) as error:
            listener.reason = _reason(error, listener.port)
            return
        listener.instance, listener.reason = instance, ""
        listener.port = int(instance.listen_addrs[0][1])
        self._by_mode[id(mode)] = listener
        self._count_ports()

    def _count_ports(self) -> None:
        self._ports = frozenset(listener.port for listener in self._by_mode.values())

    async def _stop(self, listener: Listener) -> None:
        if listener.instance is None:
            return
        mode = listener.instance.mode
        await listener.instance.stop()
        listener.instance = None
        del self._by_mode[id(mode)]
        self._count_ports()
        for handler in list(self._proxy.connections.values()):
            ends = handler.transports.get(handler.client)
            if handler.client.proxy_mode is mode and ends and ends.handler:
                ends.handler.cancel("its listener was closed")


def _prepare_transparent() -> None:
    if platform.original_addr is None:
        raise RuntimeError("transparent proxies are not supported on this system")
    platform.init_transparent_mode()


def _reason(error: Exception, port: int) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"port {port} is taken by another program"
    if isinstance(error, OSError) and error.errno == errno.EACCES:
        return f"port {port} needs rights that Pilothouse does not have; use one from 1024 on"
    return str(error) or type(error).__name__

"""Connections before any request: pass-through, and the last check of where they lead.

An addon of mitmproxy, beside `Capture`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mitmproxy.proxy.mode_specs import UpstreamMode

if TYPE_CHECKING:
    from mitmproxy.addons.proxyserver import Proxyserver
    from mitmproxy.proxy.server_hooks import ServerConnectionHookData
    from mitmproxy.tls import ClientHelloData, TlsData

    from pilothouse.intercept.engine.listeners import ProxyListeners
    from pilothouse.intercept.engine.own_ports import OwnPortGuard
    from pilothouse.intercept.engine.rules.apply import RuleApplier
    from pilothouse.intercept.engine.rules.mocks import Mocks

logger = logging.getLogger(__name__)


class ConnectionHooks:
    def __init__(
        self,
        changes: RuleApplier,
        listeners: ProxyListeners,
        guard: OwnPortGuard,
        mocks: Mocks,
        proxy: Proxyserver,
    ) -> None:
        self._changes = changes
        self._listeners = listeners
        self._guard = guard
        self._mocks = mocks
        self._proxy = proxy

    def tls_clienthello(self, hello: ClientHelloData) -> None:
        client, server = hello.context.client, hello.context.server
        names = [hello.client_hello.sni, server.address[0] if server.address else None]
        port = self._listeners.of(client).port
        for name in filter(None, names):
            if self._changes.passes_through(name, port):
                hello.ignore_connection = True
                logger.info("TLS to %s passes through as it is", name)
                return
        if self._mocks:
            hello.establish_server_tls_first = False  # a server that is mocked need not exist

    def tls_failed_client(self, data: TlsData) -> None:
        server = data.context.server.address
        logger.warning(
            "the client %s did not accept our certificate for %s (%s): it must trust the authority"
            " that `pilothouse ca` shows, or that server must be in sslPassThroughs",
            data.context.client.peername,
            data.context.client.sni or (server[0] if server else "an unnamed server"),
            data.conn.error or "no reason given",
        )

    async def server_connect(self, data: ServerConnectionHookData) -> None:
        address = data.server.address
        if address is None or not self._guard.concerns(address[1]) or _is_upstream(data):
            return
        if await self._guard.leads_home(address[0]):
            data.server.error = f"port {address[1]} is one of Pilothouse's own"

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """Close it if its name has come to lead to a port of ours since it was looked at."""
        peer = data.server.peername
        if peer is None or not self._guard.concerns(peer[1]) or _is_upstream(data):
            return
        if self._guard.is_home(peer[0]):
            handler = self._proxy.connections.get(data.client.id)
            ends = handler.transports.get(data.server) if handler else None
            if ends and ends.writer:
                ends.writer.close()  # nothing has been sent yet, and now nothing will be


def _is_upstream(data: ServerConnectionHookData) -> bool:
    """Return whether the server is the proxy that the listener itself goes through."""
    mode = data.client.proxy_mode
    return isinstance(mode, UpstreamMode) and data.server.address == mode.address

# mypy: allow-untyped-calls
"""Which users of this machine may be clients of the proxy: our own and root, or by a token.

An addon of mitmproxy, and its first one. A client of another user is hung up on before it has
said anything. Where everybody is to be asked for the token, or the system does not tell who has
connected, a client of an HTTP proxy shows it in Proxy-Authorization. A forwarder and a browser's
own listener have no place for it: they stay our own user's.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
from typing import TYPE_CHECKING
from weakref import WeakSet

from mitmproxy.http import Response

from pilothouse.local_users import Caller, caller_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from mitmproxy.connection import Client
    from mitmproxy.http import HTTPFlow

    from pilothouse.intercept.engine.listeners import Listener, Listeners

HEADER = "Proxy-Authorization"
logger = logging.getLogger(__name__)


class LocalClients:
    def __init__(
        self, listeners: Listeners, token: Callable[[], str | None], *, asks_everybody: bool
    ) -> None:
        self._listeners = listeners
        self._token = token
        self._asks_everybody = asks_everybody
        self._unknown: WeakSet[Client] = WeakSet()
        """Those that have to show the token."""
        self._told: set[int] = set()
        """Ports of which it was logged that somebody was refused."""

    def client_connected(self, client: Client) -> None:
        caller = caller_at(client.peername, client.sockname, client.transport_protocol)
        listener = self._listeners.of(client)
        takes_tokens = listener.wanted.type == "HTTP_PROXY" and not listener.session
        if takes_tokens and (self._asks_everybody or caller is Caller.UNKNOWN):
            self._unknown.add(client)
        elif caller is not Caller.OWN:
            client.error = "the client belongs to another user of this machine"
            self._tell(listener, caller)

    def _tell(self, listener: Listener, caller: Caller) -> None:
        if listener.port not in self._told:
            self._told.add(listener.port)
            who = "a process of another user" if caller is Caller.OTHER else "somebody unknown"
            logger.warning("closed a connection of %s to port %s", who, listener.port)

    def http_connect(self, flow: HTTPFlow) -> None:
        self._check(flow)

    def requestheaders(self, flow: HTTPFlow) -> None:
        self._check(flow)

    def _check(self, flow: HTTPFlow) -> None:
        if flow.client_conn not in self._unknown:
            return
        token = self._token()
        offered = flow.request.headers.pop(HEADER, "")
        if token and hmac.compare_digest(_secret(offered).encode(), token.encode()):
            if flow.request.method == "CONNECT":
                self._unknown.discard(flow.client_conn)  # its tunnel is its own from here on
            return
        flow.response = Response.make(
            407,
            "This proxy asks for the token that `pilothouse token --http` prints: send it as the"
            " password, with any name, or as a bearer token.\n",
            {"Proxy-Authenticate": 'Basic realm="pilothouse"'},
        )


def _secret(header: str) -> str:
    """Return what a Proxy-Authorization header has as token or password."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() == "bearer":
        return text.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(text.strip(), validate=True).decode("latin-1").partition(":")[2]
    except binascii.Error:
        return ""

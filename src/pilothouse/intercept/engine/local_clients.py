# mypy: allow-untyped-calls
"""Users of this machine who may be clients of the proxy: our own and root, or by a token.

An addon of mitmproxy, and its first one. A client of another user is disconnected before it has
sent anything. Where everybody is to be asked for the token, or the system does not tell who has
connected, a client of an HTTP proxy shows it in Proxy-Authorization, which goes no further. The
listener of a session's browser has a secret of its own for that, which is good for the session's
proxy behind it, too. A forwarder has no place for a token: it stays our own user's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from weakref import WeakSet

from mitmproxy.http import Response

from pilothouse.core.net.proxy_auth import CHALLENGE, HEADER, credentials, is_own, is_shown
from pilothouse.machine.net.local_users import Caller, caller_at, tells_callers

if TYPE_CHECKING:
    from collections.abc import Callable

    from mitmproxy.connection import Client
    from mitmproxy.http import HTTPFlow

    from pilothouse.intercept.engine.listeners import Listener, ProxyListeners

logger = logging.getLogger(__name__)

_NOT_SHOWN = "This proxy is that of one browser, which has its password.\n"
_NO_TOKEN = (
    "This proxy asks for the token that `pilothouse token --http` prints: send it as the password,"
    " with any name, or as a bearer token.\n"
)


class LocalClients:
    def __init__(
        self, listeners: ProxyListeners, token: Callable[[], str | None], *, asks_everybody: bool
    ) -> None:
        self._listeners = listeners
        self._token = token
        self._asks_everybody = asks_everybody
        self._unknown: WeakSet[Client] = WeakSet()
        """Clients that have to show the token."""
        self._tunnels: WeakSet[Client] = WeakSet()
        """Clients that have opened a tunnel."""
        self._reported: set[int] = set()
        """Ports for which a refused client was logged."""

    def client_connected(self, client: Client) -> None:
        # Refused until it is known: mitmproxy logs what is raised here, and goes on.
        client.error = "the client belongs to another user of this machine"
        caller = caller_at(client.peername, client.sockname, client.transport_protocol)
        listener = self._listeners.of(client)
        takes_tokens = listener.wanted.type == "HTTP_PROXY"
        asks_all = self._asks_everybody and not listener.session
        if takes_tokens and (asks_all or caller is Caller.UNKNOWN):
            self._unknown.add(client)
        elif caller is not Caller.OWN:
            self._tell(listener, caller)
            return
        client.error = None

    def _tell(self, listener: Listener, caller: Caller) -> None:
        if listener.port not in self._reported:
            self._reported.add(listener.port)
            who = "a process of another user" if caller is Caller.OTHER else "somebody unknown"
            logger.warning("closed a connection of %s to port %s", who, listener.port)

    def http_connect(self, flow: HTTPFlow) -> None:
        self._check(flow, self._taken_off(flow))

    def http_connected(self, flow: HTTPFlow) -> None:
        self._tunnels.add(flow.client_conn)

    def requestheaders(self, flow: HTTPFlow) -> None:
        if flow.client_conn in self._tunnels:
            # It was shown when the tunnel was opened, and Playwright's WebKit shows it there again.
            # What is not ours is for the server, which may be a proxy itself.
            headers = flow.request.headers
            headers.fields = tuple(field for field in headers.fields if not is_own(*field))
            if self._is_ours(headers.get(HEADER, ""), self._listeners.of(flow.client_conn)):
                headers.pop(HEADER)
            return
        self._check(flow, self._taken_off(flow))
        if flow.response is None:
            self._show(flow)

    def _taken_off(self, flow: HTTPFlow) -> str:
        """Take off what a client shows its proxy, and return it. It is for one hop: no server and
        no history gets it, also where nobody has asked for it."""
        if self._listeners.of(flow.client_conn).wanted.type != "HTTP_PROXY":
            return ""
        return str(flow.request.headers.pop(HEADER, ""))

    def _is_ours(self, shown: str, listener: Listener) -> bool:
        """Tell whether what is shown is the token or the listener's secret, under any name."""
        return bool(shown) and (
            is_shown(shown, listener.secret or None) or is_shown(shown, self._token())
        )

    def _check(self, flow: HTTPFlow, shown: str) -> None:
        if flow.client_conn not in self._unknown:
            return
        # Refused until it is known, as above.
        flow.response = Response.make(407, _NOT_SHOWN, dict([CHALLENGE]))
        listener = self._listeners.of(flow.client_conn)
        if not listener.session:
            flow.response.text = _NO_TOKEN
        token = listener.secret if listener.session else self._token()
        if is_shown(shown, token):
            flow.response = None
            if flow.request.method == "CONNECT":
                self._unknown.discard(flow.client_conn)  # its tunnel is its own from here on

    # Towards the proxy of a session

    def http_connect_upstream(self, flow: HTTPFlow) -> None:
        self._show(flow)

    def _show(self, flow: HTTPFlow) -> None:
        """Show the secret to the proxy behind a browser's listener. It may not know who we are."""
        secret = self._listeners.of(flow.client_conn).secret
        if secret and not tells_callers():
            flow.request.headers[HEADER] = credentials(secret)

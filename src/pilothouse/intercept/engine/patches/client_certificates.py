# mypy: allow-untyped-calls
"""Servers that ask for a client certificate: that they did is noted, and what it led to reported.

With TLS 1.3 a server refuses a client without a certificate after the handshake, by an alert.
mitmproxy logs an alert and goes on, and does not notice the connection's end either, because
OpenSSL counts the alert as one: the client would wait for ever. Here an alert closes the
connection. An addon of mitmproxy, imported for what it does as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mitmproxy import connection
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.tls import ServerTLSLayer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from mitmproxy import http
    from mitmproxy.tls import TlsData
    from OpenSSL import SSL

    type Commands = Generator[commands.Command, Any]

_MISSING = (
    "The server asks for a client certificate, and the proxy has none for it: start Pilothouse with"
    " --client-cert FILE (PEM, with its key)"
)
_REFUSED = "The server did not accept the client certificate of --client-cert"
_ASKING = b"read server certificate request"
"""Part of OpenSSL's name for the state in which that message was read."""
_LOGGED = "TLS Error: "
"""Beginning of what mitmproxy logs of an alert."""

_asked: WeakKeyDictionary[connection.Connection, str] = WeakKeyDictionary()
"""Reason why it may have given up, for each server that asked for a certificate."""


def given_up(server: connection.Connection) -> str:
    """Return why a server that gave up on us may have done so, empty if it asked for nothing."""
    return _asked.get(server, "")


class ClientCertificates:
    """Addon that notes which servers ask for a certificate."""

    def tls_start_server(self, data: TlsData) -> None:
        if data.ssl_conn is None:
            return
        server = data.conn

        def notice(tls: SSL.Connection, where: int, result: int) -> None:
            if _ASKING in tls.get_state_string():
                _asked[server] = _REFUSED if tls.get_certificate() else _MISSING

        data.ssl_conn.set_info_callback(notice)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Forget a server that answers: what ends it later has another reason."""
        if _asked:
            _asked.pop(flow.server_conn, None)


def _closing(receive: Callable[[Any, bytes], Commands]) -> Callable[[Any, bytes], Commands]:
    """Close the connection for the layers above when an alert has ended it."""

    def received(self: Any, data: bytes) -> Commands:
        is_over, reply = False, None
        receiving = receive(self, data)
        try:
            while True:
                command = receiving.send(reply)
                if isinstance(command, commands.Log) and command.message.startswith(_LOGGED):
                    is_over = True
                reply = yield command
        except StopIteration:
            pass
        if is_over and self.conn.state & connection.ConnectionState.CAN_READ:
            self.conn.state &= ~connection.ConnectionState.CAN_READ
            # A later request for this server over the same connection fails at once.
            self.conn.error = given_up(self.conn) or self.conn.error
            yield from self.event_to_child(events.ConnectionClosed(self.conn))

    return received


def _fill() -> None:
    layer: Any = ServerTLSLayer
    layer.receive_data = _closing(layer.receive_data)


_fill()

# mypy: allow-untyped-calls
"""Messages of WebSocket, TCP and UDP connections: recorded as they pass, and put in by hand.

Pings, pongs and the end of a WebSocket are rows, too: PING, PONG and CLOSE instead of TEXT and
BINARY. The body of a CLOSE is its code and its reason as text.

An addon of mitmproxy, beside `capture`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mitmproxy import http, tcp, udp
from mitmproxy.proxy.layers.tcp import TcpMessageInjected
from mitmproxy.proxy.layers.udp import UdpMessageInjected
from mitmproxy.proxy.layers.websocket import Fragmentizer, WebSocketMessageInjected
from mitmproxy.websocket import WebSocketMessage
from wsproto.events import Ping
from wsproto.frame_protocol import CloseReason, Opcode

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.engine.flows.http import address_of
from pilothouse.intercept.engine.flows.streamed_bodies import KEPT_BODY
from pilothouse.intercept.model import ConnectionEnd, Exchange, Kind, WireMessage
from pilothouse.intercept.replay.http1 import target_text

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mitmproxy.addons.proxyserver import Proxyserver
    from mitmproxy.flow import Flow
    from mitmproxy.proxy.events import MessageInjected
    from mitmproxy.websocket import WebSocketData

    from pilothouse.intercept.engine.flows.http import ExchangeRecorder
    from pilothouse.intercept.engine.listeners import ProxyListeners
    from pilothouse.intercept.engine.patches.control_frames import Control
    from pilothouse.intercept.engine.rules.apply import RuleApplier
    from pilothouse.intercept.engine.rules.breakpoints import Side

# mitmproxy cuts what was changed or put in, and with it characters of more than one byte.
Fragmentizer.FRAGMENT_SIZE = sys.maxsize
logger = logging.getLogger(__name__)
_USUAL_ENDS = (
    CloseReason.NORMAL_CLOSURE,
    CloseReason.GOING_AWAY,
    CloseReason.NO_STATUS_RCVD,
)

type Message = WebSocketMessage | tcp.TCPMessage | udp.UDPMessage


@dataclass(frozen=True, slots=True, eq=False)
class _Own:
    payload: bytes
    record: bool


class Live:
    """Connections that are open, each by the id that its packets carry as `connection`."""

    def __init__(
        self,
        history: ExchangeRecorder,
        listeners: ProxyListeners,
        changes: RuleApplier,
        proxy: Proxyserver,
    ) -> None:
        self._history = history
        self._listeners = listeners
        self._changes = changes
        self._proxy = proxy
        self._flows: dict[str, Flow] = {}
        self._put_in: dict[str, list[_Own]] = {}
        """Messages that we put in ourselves and that have not come by yet, by connection."""

    async def inject(
        self,
        connection: str,
        *,
        to_client: bool,
        payload: bytes,
        is_text: bool,
        record: bool = False,
    ) -> None:
        """Send a message over an open connection, as if the other side had sent it.

        No rule changes it. Whoever records it otherwise leaves `record` out.

        Raises:
            InvalidInput
        """
        flow = self._flows.get(connection)
        handler = self._proxy.connections.get(connection)
        if flow is None or handler is None:
            raise InvalidInput(
                f"connection: {connection} is not open any more",
                hint="send over a connection whose packets still arrive",
            )
        payload = bytes(bytearray(payload))  # an object of its own, by which it is known again
        self._put_in.setdefault(connection, []).append(_Own(payload, record))
        await handler.server_event(_injected(flow, payload, not to_client, is_text))

    # Hooks

    def websocket_start(self, flow: http.HTTPFlow) -> None:
        self._flows[flow.client_conn.id] = flow

    def websocket_message(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        assert flow.websocket is not None
        return self._pass("WebSocket", flow, flow.websocket.messages)  # type: ignore[arg-type]

    def websocket_control(self, control: Control) -> None:
        frame = control.frame
        method = "PING" if isinstance(frame, Ping) else "PONG"
        self._note(control.flow, method, bytes(frame.payload), from_client=control.from_client)

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        self._forget(flow)
        ended = flow.websocket
        if ended is None or ended.close_code is None:
            return
        by_client = bool(ended.closed_by_client)
        said = f"{ended.close_code} {ended.close_reason or ''}".strip()
        self._note(flow, "CLOSE", said.encode(), from_client=by_client, error=_closed(ended))

    def tcp_start(self, flow: tcp.TCPFlow) -> None:
        self._flows[flow.client_conn.id] = flow

    def tcp_message(self, flow: tcp.TCPFlow) -> Awaitable[None] | None:
        return self._pass("TCP", flow, flow.messages)  # type: ignore[arg-type]

    def tcp_end(self, flow: tcp.TCPFlow) -> None:
        self._forget(flow)

    def tcp_error(self, flow: tcp.TCPFlow) -> None:
        self._forget(flow)
        if flow.error:
            logger.warning("%s: %s", self._server_name(flow), flow.error.msg)

    def udp_start(self, flow: udp.UDPFlow) -> None:
        self._flows[flow.client_conn.id] = flow

    def udp_message(self, flow: udp.UDPFlow) -> Awaitable[None] | None:
        return self._pass("UDP", flow, flow.messages)  # type: ignore[arg-type]

    def udp_end(self, flow: udp.UDPFlow) -> None:
        self._forget(flow)

    def udp_error(self, flow: udp.UDPFlow) -> None:
        self._forget(flow)

    def _forget(self, flow: Flow) -> None:
        self._flows.pop(flow.client_conn.id, None)
        self._put_in.pop(flow.client_conn.id, None)

    # Recording

    def _pass(self, kind: Kind, flow: Flow, kept: list[Message]) -> Awaitable[None] | None:
        message = kept[-1]
        # mitmproxy would keep them all for as long as the connection is open.
        kept.clear()
        own = self._own(flow, message)
        if own and not own.record:
            return None
        exchange = self._opened(kind, flow)
        exchange.resend = own is not None
        server = self._changes.server_for(exchange.server_name, exchange.server.port)
        exchange.encode = server["encoder"] if server else exchange.encode
        if isinstance(message, WebSocketMessage):
            exchange.method = message.type.name
        side: Side = "request" if message.from_client else "response"
        if not own and self._changes.rule(side, server):
            return self._rule(exchange, message, side, server)
        self._record(exchange, message, None)
        return None

    async def _rule(
        self, exchange: Exchange, message: Message, side: Side, server: dict[str, Any] | None
    ) -> None:
        """Apply the rules to a message; those that follow on its connection wait, others do not."""
        edited = await asyncio.to_thread(self._changes.applied, side, server, message.content)
        self._record(exchange, message, edited)

    def _record(self, exchange: Exchange, message: Message, edited: bytes | None) -> None:
        before = message.content
        sent = _sent(message.timestamp, before if edited is None else edited)
        if edited is not None:
            sent.modified, sent.original = True, (b"", before[:KEPT_BODY])
            if not edited and isinstance(message, WebSocketMessage):
                message.drop()
            message.content = edited
        if message.from_client:
            exchange.request = sent
        else:
            exchange.response = sent
        self._history.post(exchange)

    def _note(
        self, flow: Flow, method: str, content: bytes, *, from_client: bool, error: str = ""
    ) -> None:
        """Record a frame that is no message; no rule changes one."""
        exchange = self._opened("WebSocket", flow)
        exchange.method, exchange.error = method, error
        sent = _sent(time.time(), content)
        if from_client:
            exchange.request = sent
        else:
            exchange.response = sent
        self._history.post(exchange)

    def _own(self, flow: Flow, message: Message) -> _Own | None:
        """Return the entry of a message that we put in ourselves, None for any other."""
        pending = self._put_in.get(flow.client_conn.id, [])
        for own in pending:
            # A WebSocket's message is joined from frames, but says itself that it was put in.
            if own.payload is message.content or (
                isinstance(message, WebSocketMessage)
                and message.injected
                and own.payload == message.content
            ):
                pending.remove(own)
                return own
        return None

    def _opened(self, kind: Kind, flow: Flow) -> Exchange:
        client, server = flow.client_conn, flow.server_conn
        listener = self._listeners.of(client)
        port = server.address[1] if server.address else 0
        exchange = Exchange(
            connection=client.id,
            kind=kind,
            client=address_of(client),
            server=ConnectionEnd(*server.peername[:2])
            if server.peername
            else ConnectionEnd("", port),
            server_name=self._server_name(flow),
            scheme="udp" if kind == "UDP" else "tls" if client.tls else "tcp",
            alpn=(client.alpn or b"").decode("ascii", "replace"),
            encode=kind,
            session=listener.session,
            listener=listener.port,
        )
        if isinstance(flow, http.HTTPFlow):
            exchange.scheme = "wss" if flow.request.scheme == "https" else "ws"
            exchange.url, exchange.encode = target_text(flow.request.data.path), "HTTP"
            exchange.server_name = flow.request.pretty_host
        return exchange

    def _server_name(self, flow: Flow) -> str:
        address = flow.server_conn.address
        return flow.client_conn.sni or (str(address[0]) if address else "")


def _sent(seconds: float, content: bytes) -> WireMessage:
    return WireMessage(
        time=seconds * 1000,
        body=content[:KEPT_BODY],
        length=len(content),
        body_length=len(content),
    )


def _closed(ended: WebSocketData) -> str:
    """Return why a WebSocket ended, empty for an end that is as it should be."""
    side = "client" if ended.closed_by_client else "server"
    if ended.close_code == CloseReason.ABNORMAL_CLOSURE:
        return f"the {side} ended the WebSocket without closing it ({int(ended.close_code)})"
    if ended.close_code in _USUAL_ENDS:
        return ""
    why = f": {ended.close_reason}" if ended.close_reason else ""
    return f"the {side} closed the WebSocket with {ended.close_code}{why}"


def _injected(flow: Flow, payload: bytes, from_client: bool, is_text: bool) -> MessageInjected[Any]:
    if isinstance(flow, tcp.TCPFlow):
        return TcpMessageInjected(flow, tcp.TCPMessage(from_client, payload))
    if isinstance(flow, udp.UDPFlow):
        return UdpMessageInjected(flow, udp.UDPMessage(from_client, payload))
    opcode = Opcode.TEXT if is_text else Opcode.BINARY
    return WebSocketMessageInjected(flow, WebSocketMessage(opcode, from_client, payload))

# mypy: allow-untyped-calls
"""HTTP flows: recorded, refused, mocked, changed by rules, held.

An addon of mitmproxy. Its hooks are plain functions that hand back a coroutine only where they
must wait, because each of them is called for every request there is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from mitmproxy import http

from pilothouse.intercept.engine.flows import messages, streamed_bodies
from pilothouse.intercept.engine.flows.messages import KEY_HEADER
from pilothouse.intercept.model import ConnectionEnd, Exchange, WireMessage
from pilothouse.intercept.replay.http1 import target_text

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mitmproxy.connection import Connection

    from pilothouse.intercept.engine.listeners import ProxyListeners
    from pilothouse.intercept.engine.own_ports import OwnPortGuard
    from pilothouse.intercept.engine.rules.apply import RuleApplier
    from pilothouse.intercept.engine.rules.breakpoints import Side
    from pilothouse.intercept.engine.rules.mocks import Mock, Mocks

_EXCHANGE = "pilothouse"
_MOCKED = "pilothouse mocked"
logger = logging.getLogger(__name__)


class ExchangeRecorder(Protocol):
    """The part of the history that is needed here."""

    def post(self, exchange: Exchange) -> None: ...


class Capture:
    def __init__(
        self,
        history: ExchangeRecorder,
        listeners: ProxyListeners,
        guard: OwnPortGuard,
        mocks: Mocks,
        changes: RuleApplier,
    ) -> None:
        self._history = history
        self._listeners = listeners
        self._guard = guard
        self._mocks = mocks
        self._changes = changes

    # Requests

    def requestheaders(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        exchange = self._open(flow)
        if flow.error:
            return None  # a malformed request; the error hook follows
        request = flow.request
        if KEY_HEADER in request.headers:
            del request.headers[KEY_HEADER]
        if messages.is_ambiguous(request):
            _refuse(flow, 400, "A control character in the request could hide another one in it.")
            return None
        if self._concerns_us(flow):
            return self._admit(flow, exchange)
        self._let_in(flow, exchange)
        return None

    def _concerns_us(self, flow: http.HTTPFlow) -> bool:
        is_judged = self._listeners.of(flow.client_conn).is_judged
        return self._guard.concerns(flow.request.port, is_judged=is_judged)

    async def _admit(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        if await self._guard.leads_home(flow.request.host):
            _refuse(flow, 403, _own_port(flow.request))
        else:
            self._let_in(flow, exchange)

    def _let_in(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        request = flow.request
        if exchange.session:
            exchange.key = uuid4().hex
            request.headers[KEY_HEADER] = exchange.key.encode()
        whole = self._changes.concern("request", flow, exchange) or self._mocks
        _arrange(request, exchange.kind, whole=bool(whole))

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        exchange = _exchange(flow)
        if exchange is None:
            return None
        request = flow.request
        exchange.request = _sent(request, messages.request_head(request))
        refused = flow.response is not None
        if refused or request.raw_content is None:
            if request.raw_content is None:
                self._tell_if_skipped("request", flow, exchange)
            self._history.post(exchange)
            return None
        if self._changes.concern("request", flow, exchange) or self._mocks:
            return self._request_changed(flow, exchange)
        self._history.post(exchange)
        return None

    async def _request_changed(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        if not await self._changes.make("request", flow, exchange):
            exchange.error = "a rule or a breakpoint dropped the request"
            flow.kill()
        exchange.method = flow.request.method
        exchange.url = target_text(flow.request.data.path)
        self._history.post(exchange)
        if not flow.error and (mock := self._mock_for(flow, exchange)):
            await asyncio.sleep(mock.delay_s)
            flow.response = mock.response()
            messages.leave_body_out(flow.response, flow.request.method)
            flow.metadata[_MOCKED] = True

    def _mock_for(self, flow: http.HTTPFlow, exchange: Exchange) -> Mock | None:
        if not self._mocks:
            return None
        return self._mocks.find(exchange.session, exchange.method, flow.request.pretty_url)

    # Responses

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        exchange = _exchange(flow)
        response = flow.response
        if exchange is None or response is None:
            return
        if KEY_HEADER in response.headers:
            del response.headers[KEY_HEADER]
        if exchange.key:
            response.headers[KEY_HEADER] = exchange.key.encode()
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            exchange.kind = "SSE"
            if "content-encoding" not in response.headers:
                self._follow(flow, exchange, response)
                return
        _arrange(response, exchange.kind, whole=self._changes.concern("response", flow, exchange))

    def _follow(self, flow: http.HTTPFlow, exchange: Exchange, response: http.Response) -> None:
        """Record the response's head at once and each event when it comes, as a row of its own.

        A stream may never end, and one that is packed cannot be read before it does.
        """
        head = messages.response_head(response)
        exchange.response = WireMessage(
            time=response.timestamp_start * 1000, head=head, length=len(head)
        )
        exchange.status = response.status_code
        if flow.server_conn.peername:
            exchange.server = address_of(flow.server_conn)
        self._history.post(exchange)
        self._tell_if_skipped("response", flow, exchange)
        response.stream = streamed_bodies.EventStreamBody(
            lambda events: self._history.post(_event(exchange, events))
        )

    def response(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        exchange = _exchange(flow)
        response = flow.response
        if exchange is None or response is None:
            return None
        if isinstance(response.stream, streamed_bodies.EventStreamBody):
            self._close(flow, exchange)
            return None
        exchange.response = _sent(response, messages.response_head(response))
        exchange.response.modified = _MOCKED in flow.metadata
        if response.raw_content is None:
            self._tell_if_skipped("response", flow, exchange)
        elif self._changes.concern("response", flow, exchange):
            return self._response_changed(flow, exchange)
        self._close(flow, exchange)
        return None

    async def _response_changed(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        if not await self._changes.make("response", flow, exchange):
            exchange.error = "a rule or a breakpoint dropped the response"
            flow.kill()
        self._close(flow, exchange)

    def error(self, flow: http.HTTPFlow) -> None:
        exchange = _exchange(flow)
        if exchange is None or flow.error is None:
            return
        if flow.response is not None and exchange.response is None:
            exchange.response = _sent(flow.response, messages.response_head(flow.response))
        exchange.error = exchange.error or flow.error.msg
        self._close(flow, exchange)

    def http_connect(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        if flow.response is not None:
            return None  # refused, because it did not show the token
        if self._concerns_us(flow):
            return self._refuse_tunnel(flow)
        self._spare_the_server(flow)
        return None

    async def _refuse_tunnel(self, flow: http.HTTPFlow) -> None:
        if await self._guard.leads_home(flow.request.host):
            flow.response = _refusal(403, _own_port(flow.request))
        else:
            self._spare_the_server(flow)

    def _spare_the_server(self, flow: http.HTTPFlow) -> None:
        """Open a tunnel without the server where a mock may answer for it: it need not exist."""
        if self._mocks:
            flow.response = http.Response.make(200, b"")
            flow.response.data.reason = b"Connection established"
            flow.response.headers.clear()

    def http_connect_error(self, flow: http.HTTPFlow) -> None:
        """Record a tunnel that was not opened: there will be no request inside it."""
        exchange = self._open(flow)
        exchange.url = f"{flow.request.host}:{flow.request.port}"
        if flow.response:
            exchange.response = _sent(flow.response, messages.response_head(flow.response))
        self._close(flow, exchange)

    # Both

    def _open(self, flow: http.HTTPFlow) -> Exchange:
        request, client = flow.request, flow.client_conn
        listener = self._listeners.of(client)
        server = self._changes.server_for(request.host, request.port)
        content_type = request.headers.get("content-type", "")
        exchange = Exchange(
            connection=client.id,
            kind="gRPC" if content_type.startswith("application/grpc") else "HTTP",
            client=address_of(client),
            server=_server_of(flow),
            server_name=request.pretty_host,
            scheme=request.scheme,
            method=request.method,
            url=target_text(request.data.path),
            version=request.http_version,
            alpn=(client.alpn or b"").decode("ascii", "replace"),
            encode=server["encoder"] if server else "HTTP",
            session=listener.session,
            listener=listener.port,
        )
        flow.metadata[_EXCHANGE] = exchange
        return exchange

    def _close(self, flow: http.HTTPFlow, exchange: Exchange) -> None:
        response, request = flow.response, flow.request
        if exchange.request is None:  # an answer, or an error, before the request was over
            exchange.request = _sent(request, messages.request_head(request))
        if response is not None:
            exchange.status = response.status_code
            ended = response.timestamp_end or time.time()
            exchange.duration_ms = (ended - request.timestamp_start) * 1000
            if isinstance(response.stream, streamed_bodies.EventStreamBody):
                response.stream.close()
        if flow.server_conn.peername:
            exchange.server = address_of(flow.server_conn)
        self._history.post(exchange)

    def _tell_if_skipped(self, side: Side, flow: http.HTTPFlow, exchange: Exchange) -> None:
        if self._changes.concern(side, flow, exchange) or (side == "request" and self._mocks):
            logger.warning(
                "%s %s: its %s was streamed, so rules, mocks and breakpoints did not apply to it",
                exchange.method,
                flow.request.pretty_url,
                side,
            )


def _exchange(flow: http.HTTPFlow) -> Exchange | None:
    kept: Exchange | None = flow.metadata.get(_EXCHANGE)
    return kept


def _event(stream: Exchange, events: bytes) -> Exchange:
    """Return events as a packet of the server's, like a message of a WebSocket."""
    return replace(
        stream,
        method="",
        status=None,
        duration_ms=None,
        request=None,
        response=WireMessage(
            time=time.time() * 1000,
            body=events[: streamed_bodies.KEPT_BODY],
            length=len(events),
            body_length=len(events),
        ),
        request_id=0,
        response_id=0,
    )


def _sent(message: http.Message, head: bytes) -> WireMessage:
    if message.raw_content is None and (tee := streamed_bodies.tee_of(message)):
        return tee.sent(message, head)
    return messages.sent(message, head)


def _arrange(message: http.Message, kind: str, *, whole: bool) -> None:
    """Decide whether the body is held back until it is whole or passes while it arrives."""
    if kind in ("SSE", "gRPC") or _is_large(message):
        streamed_bodies.stream(message)
    elif whole:
        streamed_bodies.hold_back(message)
    elif "content-length" not in message.headers:
        streamed_bodies.stream(message)
    else:
        message.stream = False


def _is_large(message: http.Message) -> bool:
    length = message.headers.get("content-length", "")
    return length.isdigit() and int(length) > streamed_bodies.KEPT_BODY


def address_of(connection: Connection) -> ConnectionEnd:
    peer = connection.peername
    return ConnectionEnd(peer[0], peer[1]) if peer else ConnectionEnd()


def _server_of(flow: http.HTTPFlow) -> ConnectionEnd:
    """Return the server's address, as far as it is known before there is a connection to it."""
    if flow.server_conn.peername:
        return address_of(flow.server_conn)
    host, port = flow.request.host, flow.request.port
    is_address = host.replace(".", "").isdigit() or ":" in host
    return ConnectionEnd(host if is_address else "", port)


def _refuse(flow: http.HTTPFlow, status: int, reason: str) -> None:
    if "transfer-encoding" in flow.request.headers or _is_large(flow.request):
        flow.kill()  # an answer could only be given after the whole body
    else:
        flow.request.stream = False
        flow.response = _refusal(status, reason)
        messages.leave_body_out(flow.response, flow.request.method)


def _refusal(status: int, reason: str) -> http.Response:
    return http.Response.make(status, reason + "\n", {"content-type": "text/plain; charset=utf-8"})


def _own_port(request: http.Request) -> str:
    return (
        f"{request.host}:{request.port} is one of Pilothouse's own ports, which cannot be reached"
        " through the proxy."
    )

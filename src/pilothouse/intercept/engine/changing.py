"""Rules and breakpoints, applied to messages that are here as a whole."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pilothouse.intercept.engine import messages
from pilothouse.intercept.engine.messages import NotAMessage
from pilothouse.intercept.rules import Rules

if TYPE_CHECKING:
    from mitmproxy import http

    from pilothouse.intercept.engine.breakpoints import Breakpoints, Side
    from pilothouse.intercept.model import Exchange, Sent
    from pilothouse.intercept.rules import Direction

MOST_SERVERS = 1_000
_DIRECTIONS: dict[Side, Direction] = {"request": "CLIENT_REQUEST", "response": "SERVER_RESPONSE"}
logger = logging.getLogger(__name__)


class Changes:
    def __init__(self, breakpoints: Breakpoints) -> None:
        self._breakpoints = breakpoints
        self._rules = Rules()
        self._servers: dict[tuple[str, int], dict[str, Any] | None] = {}
        """What the rules said of hosts that were asked for."""

    def use(self, rules: Rules) -> None:
        """From the next message on."""
        self._rules = rules
        self._servers.clear()

    def server_for(self, host: str, port: int) -> dict[str, Any] | None:
        """The configured server that is meant, if there is one."""
        place = (host, port)
        if place not in self._servers:
            if len(self._servers) >= MOST_SERVERS:
                self._servers.clear()
            self._servers[place] = self._rules.server_for(host, port)
        return self._servers[place]

    def passes_through(self, server_name: str, listen_port: int) -> bool:
        return self._rules.passes_through(server_name, listen_port)

    def applied(self, side: Side, server: dict[str, Any] | None, message: bytes) -> bytes | None:
        """What the rules make of a message; None if they leave it as it is."""
        return self._rules.apply(_DIRECTIONS[side], server["id"] if server else None, message)

    def concern(self, side: Side, flow: http.HTTPFlow, exchange: Exchange) -> bool:
        """Whether the message must be here as a whole before it goes on."""
        server = self._server(flow)
        return self._rules.concerns(_DIRECTIONS[side], server["id"] if server else None) or (
            bool(self._breakpoints) and self._stops(side, flow, exchange)
        )

    async def make(self, side: Side, flow: http.HTTPFlow, exchange: Exchange) -> bool:
        """Apply the rules, then wait at a breakpoint; False if the message is to be dropped."""
        message = _message(side, flow)
        before = exchange.request if side == "request" else exchange.response
        if message is None or before is None:
            return True
        seen = messages.decoded(message, before.head)
        if not _take_over(
            side, flow, exchange, before, self.applied(side, self._server(flow), seen)
        ):
            return False
        if not self._stops(side, flow, exchange):
            return True
        decision = await self._breakpoints.hold(
            side,
            exchange.session,
            exchange.method,
            flow.request.pretty_url,
            messages.head_of(message),
            messages.decoded(message, b""),
        )
        if decision.drop:
            return False
        return _take_over(side, flow, exchange, before, decision.edited)

    def _server(self, flow: http.HTTPFlow) -> dict[str, Any] | None:
        return self.server_for(flow.request.host, flow.request.port)

    def _stops(self, side: Side, flow: http.HTTPFlow, exchange: Exchange) -> bool:
        url = flow.request.pretty_url
        return self._breakpoints.stops(side, exchange.session, exchange.method, url)


def _message(side: Side, flow: http.HTTPFlow) -> http.Message | None:
    return flow.request if side == "request" else flow.response


def _take_over(
    side: Side, flow: http.HTTPFlow, exchange: Exchange, before: Sent, edited: bytes | None
) -> bool:
    """Make the message what it was edited to; False if nothing is left of it."""
    message = _message(side, flow)
    if edited is None or message is None:
        return True
    if not edited:
        return False
    try:
        messages.change(message, edited)
    except NotAMessage as error:
        logger.warning("an edit of %s was not applied: %s", flow.request.pretty_url, error)
        return True
    after = messages.sent(message, messages.head_of(message))
    after.modified, after.original = True, (before.head, before.body)
    if side == "request":
        exchange.request = after
    else:
        exchange.response = after
    return True

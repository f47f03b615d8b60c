"""Rules and breakpoints, applied to messages that are here as a whole."""

from __future__ import annotations

import logging
from asyncio import to_thread
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mitmproxy.connection import ConnectionState

from pilothouse.intercept.config.rules import ReadyRules
from pilothouse.intercept.engine.flows import messages
from pilothouse.intercept.engine.flows.messages import NotAMessage

if TYPE_CHECKING:
    from mitmproxy import http

    from pilothouse.intercept.config.rules import Direction
    from pilothouse.intercept.engine.flows.messages import Readable
    from pilothouse.intercept.engine.rules.breakpoints import Breakpoints, Side
    from pilothouse.intercept.model import Exchange, WireMessage

MOST_SERVERS = 1_000
_DIRECTIONS: dict[Side, Direction] = {"request": "CLIENT_REQUEST", "response": "SERVER_RESPONSE"}
logger = logging.getLogger(__name__)


class RuleApplier:
    def __init__(self, breakpoints: Breakpoints) -> None:
        self._breakpoints = breakpoints
        self._rules = ReadyRules()
        self._servers: dict[tuple[str, int], dict[str, Any] | None] = {}
        """Configured servers, or None, for hosts that were asked for."""

    def use(self, rules: ReadyRules) -> None:
        """Use these rules from the next message on."""
        self._rules = rules
        self._servers.clear()

    def server_for(self, host: str, port: int) -> dict[str, Any] | None:
        """Return the configured server that is meant, if there is one."""
        place = (host, port)
        if place not in self._servers:
            if len(self._servers) >= MOST_SERVERS:
                self._servers.clear()
            self._servers[place] = self._rules.server_for(host, port)
        return self._servers[place]

    def passes_through(self, server_name: str, listen_port: int) -> bool:
        return self._rules.passes_through(server_name, listen_port)

    def rule(self, side: Side, server: dict[str, Any] | None) -> bool:
        """Return whether there is a rule for messages from or to a server."""
        return self._rules.concerns(_DIRECTIONS[side], _id(server))

    def applied(self, side: Side, server: dict[str, Any] | None, message: bytes) -> bytes | None:
        """Apply the rules to a message; None if they leave it as it is. For a thread."""
        return self._rules.apply(_DIRECTIONS[side], _id(server), message)

    def concern(self, side: Side, flow: http.HTTPFlow, exchange: Exchange) -> bool:
        """Return whether the message must be here as a whole before it goes on."""
        return self.rule(side, self._server(flow)) or (
            bool(self._breakpoints) and self._stops(side, flow, exchange)
        )

    async def make(self, side: Side, flow: http.HTTPFlow, exchange: Exchange) -> bool:
        """Apply the rules, then wait at a breakpoint; False if the message is to be dropped."""
        message = flow.request if side == "request" else flow.response
        before = exchange.request if side == "request" else exchange.response
        if message is None or before is None:
            return True
        change = _Change(side, message, exchange, before)
        server = self._server(flow)
        if self.rule(side, server) and not await to_thread(self._ruled, change, server):
            return False
        if not self._stops(side, flow, exchange):
            return True
        seen = await to_thread(messages.readable, message)
        url = flow.request.pretty_url
        decision = await self._breakpoints.hold(
            side,
            exchange,
            url,
            seen,
            lambda: bool(flow.client_conn.state & ConnectionState.CAN_READ),
        )
        if decision.drop:
            return False
        return await to_thread(change.take_over, seen, decision.edited)

    def _ruled(self, change: _Change, server: dict[str, Any] | None) -> bool:
        seen = messages.readable(change.message)
        return change.take_over(seen, self.applied(change.side, server, seen.head + seen.body))

    def _server(self, flow: http.HTTPFlow) -> dict[str, Any] | None:
        return self.server_for(flow.request.host, flow.request.port)

    def _stops(self, side: Side, flow: http.HTTPFlow, exchange: Exchange) -> bool:
        url = flow.request.pretty_url
        return self._breakpoints.stops(side, exchange.session, exchange.method, url)


def _id(server: dict[str, Any] | None) -> int | None:
    return server["id"] if server else None


@dataclass(frozen=True, slots=True)
class _Change:
    """One message with its exchange, for rules and breakpoints to change."""

    side: Side
    message: http.Message
    exchange: Exchange
    before: WireMessage

    def take_over(self, seen: Readable, edited: bytes | None) -> bool:
        """Make the message what it was edited to; False if nothing is left of it."""
        if edited is None:
            return True
        if not edited:
            return False
        try:
            messages.change(self.message, seen, edited, self.exchange.method)
        except NotAMessage as error:
            logger.warning("an edit of %s was not applied: %s", self.exchange.url, error)
            return True
        after = messages.sent(self.message, messages.head_of(self.message))
        after.modified, after.original = True, (self.before.head, self.before.body)
        if self.side == "request":
            self.exchange.request = after
        else:
            self.exchange.response = after
        return True

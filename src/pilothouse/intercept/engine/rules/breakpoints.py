"""Messages that wait for somebody's decision, for so long and no longer."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.engine.flows import messages
from pilothouse.intercept.engine.rules.match import Match, RuleBook, match_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.intercept.model import Exchange

AUTO_FORWARD_S = 30.0
MOST_HELD = 100
SHOWN_BODY = 64 * 1024
"""Bytes of a body that a list of what is held shows."""
SIDES = ("request", "response", "both")
logger = logging.getLogger(__name__)

type Side = Literal["request", "response"]


@dataclass(frozen=True, slots=True)
class Stop:
    """A breakpoint."""

    match: Match
    on: str
    rule: dict[str, Any]
    """Rule as it was given."""

    def shown(self) -> dict[str, Any]:
        return self.rule


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision on a held message; `edited` is the whole message if it was changed."""

    drop: bool = False
    edited: bytes | None = None


@dataclass(slots=True)
class HeldFlow:
    session: str
    side: Side
    method: str
    url: str
    head: bytes
    body: bytes
    """Body without content coding."""
    since: float
    is_awaited: Callable[[], bool]
    """Function that tells whether the client is still there."""
    id: str = field(default_factory=lambda: uuid4().hex[:12])
    decision: asyncio.Future[Decision] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def shown(self, limit_s: float) -> dict[str, Any]:
        return {
            "held_id": self.id,
            "session": self.session,
            "side": self.side,
            "method": self.method,
            "url": self.url,
            "since": self.since,
            "forwarded_at": self.since + limit_s * 1000,
            "head": b64encode(self.head).decode(),
            "body": b64encode(self.body[:SHOWN_BODY]).decode(),
            "body_length": len(self.body),
        }


class Breakpoints(RuleBook[Stop]):
    def __init__(
        self, clock: Clock, tell: Callable[[dict[str, Any]], None], limit_s: float = AUTO_FORWARD_S
    ) -> None:
        super().__init__("breakpoints", _stop)
        self._clock = clock
        self._tell = tell
        self._limit_s = limit_s
        self._held: dict[str, HeldFlow] = {}

    def stops(self, side: Side, session: str, method: str, url: str) -> bool:
        return any(
            stop.on in (side, "both") and stop.match.takes(session, method, url) for stop in self
        )

    async def hold(
        self,
        side: Side,
        exchange: Exchange,
        url: str,
        seen: messages.Readable,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> Decision:
        """Wait for the decision; without one in time, forward the message as it is."""
        if len(self._held) >= MOST_HELD:
            logger.warning("%s %s was not held: %d are already", exchange.method, url, MOST_HELD)
            return Decision()
        session, method = exchange.session, exchange.method
        held = HeldFlow(session, side, method, url, seen.head, seen.body, self._clock(), is_awaited)
        self._held[held.id] = held
        self._tell({"event": "held", "held": held.shown(self._limit_s)})
        try:
            return await asyncio.wait_for(held.decision, self._limit_s)
        except TimeoutError:
            logger.info("%s %s was forwarded: nobody decided", method, url)
            return Decision()
        finally:
            del self._held[held.id]
            self._tell({"event": "released", "held_id": held.id, "session": session})

    def held(self, session: str | None) -> list[dict[str, Any]]:
        """Return what this session may decide on; None for all."""
        self._give_up()
        return [
            held.shown(self._limit_s)
            for held in self._held.values()
            if _concerns(held, session) and not held.decision.done()
        ]

    def decide(
        self, held_id: str, action: str, edit: Mapping[str, Any], session: str | None = None
    ) -> dict[str, Any]:
        """Decide on what is held; `edit` has a new `head` or `body`, in base64 as they are shown.

        Raises:
            InvalidInput
        """
        self._give_up()
        held = self._held.get(held_id)
        if held is None or held.decision.done() or not _concerns(held, session):
            raise InvalidInput(
                f"held_id: nothing is held as {held_id!r}; it may have been forwarded after"
                f" {self._limit_s:g} s, or its client has gone",
                hint="list what is held, and decide on one of those",
            )
        if action not in ("forward", "drop"):
            raise InvalidInput(f"action: give forward or drop, not {action!r}")
        edited = None
        if action == "forward" and edit:
            head = _with_line_ends(_given(edit, "head", held.head))
            edited = head + _given(edit, "body", held.body)
            _check(held.side, edited)
        held.decision.set_result(Decision(action == "drop", edited))
        return {"held_id": held_id, "action": action, "edited": edited is not None}

    def _give_up(self) -> None:
        """Let go what nobody waits for any more: it is not sent, and its record says why."""
        for held in self._held.values():
            if not held.decision.done() and not held.is_awaited():
                held.decision.set_result(Decision())

    def release(self, session: str) -> None:
        """Forward what is held for a session that ends."""
        for held in self._held.values():
            if held.session == session and not held.decision.done():
                held.decision.set_result(Decision())


def _concerns(held: HeldFlow, session: str | None) -> bool:
    """Return whether a session may see it: its own, and that of listeners that belong to none."""
    return session is None or held.session in ("", session)


def _given(edit: Mapping[str, Any], name: str, otherwise: bytes) -> bytes:
    return b64decode(edit[name]) if name in edit else otherwise


def _check(side: Side, edited: bytes) -> None:
    try:
        messages.check(side, edited)
    except messages.NotAMessage as error:
        raise InvalidInput(
            f"head: {error}; it is still held",
            hint="give the start line and all headers, as held_packets shows them",
            field="head",
        ) from None


def _with_line_ends(head: bytes) -> bytes:
    """Return a head with the line ends of HTTP, whatever the editor made of them."""
    lines = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _stop(session: str, rule: Mapping[str, Any], where: str) -> Stop:
    on = str(rule.get("on", "request"))
    if on not in SIDES:
        raise InvalidInput(f"{where}.on: give one of {', '.join(SIDES)}, not {on!r}")
    return Stop(match_of(session, rule, where), on, dict(rule))

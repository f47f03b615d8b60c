"""One send: a recorded packet, edited, on its way, and the exchange that is recorded of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.model import ConnectionEnd, Exchange, WireMessage
from pilothouse.intercept.replay import edits as editing
from pilothouse.intercept.replay.edits import Message, SetHeader
from pilothouse.intercept.replay.http1 import parse_head, target_text
from pilothouse.intercept.replay.sockets import Outcome, Sender, SendTarget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.intercept.ports import Detail, Side
    from pilothouse.intercept.replay.edits import Direction, Edit, Edited
    from pilothouse.intercept.replay.sockets import Hold

_SECURE = frozenset({"https", "wss", "tls"})
_OVER_HTTP2 = ("HTTP/2", "HTTP/3")
_GONE = "its request is not in the history any more"
_WHY_NO_REQUEST = {"SSE": "the server sent it; send the request of its stream again"}
BINARY = "BINARY"
"""Value of the column `method` for a WebSocket's message whose frame said so."""
CONTROL = frozenset({"PING", "PONG", "CLOSE"})
"""Values of the same column for frames that are no messages."""
_FRESH = frozenset({"TCP", "UDP"})
"""Kinds that a connection of their own can carry on without what was sent before."""


class Inject(Protocol):
    """Function to put a message on a live connection; its caller records it, no rule changes it."""

    async def __call__(
        self, connection: str, *, to_client: bool, payload: bytes, is_text: bool
    ) -> None:
        """Put a message on a connection; raises InvalidInput if that is closed."""


@dataclass(frozen=True, slots=True)
class SendTemplate:
    """A packet to be sent again: the bytes that were sent, after all rules."""

    packet_id: int
    row: dict[str, Any]
    side: Side
    is_message: bool
    """True for one of a WebSocket, TCP or UDP connection: without headers."""
    to_client: bool

    @property
    def target(self) -> SendTarget:
        row = self.row
        return SendTarget(
            host=row["server_name"] or row["server_ip"],
            ip=row["server_ip"],
            port=row["server_port"],
            is_secure=row["scheme"] in _SECURE,
            session=row["session"] if self.is_judged else "",
            listener=row["listener"],
        )

    @property
    def is_judged(self) -> bool:
        """True if it goes only where the browser of its session may. What an agent sends of its own
        accord is its session's, too, but no listener took it."""
        return bool(self.row["session"] and self.row["listener"])


def template_of(packet_id: int, detail: Detail, edits: Sequence[Edit]) -> SendTemplate:
    """Make a template; raises InvalidInput for a packet that cannot be sent, or not so edited."""
    request = detail.request
    is_message = not (request and request.head) and detail.row["type"] in ("WebSocket", *_FRESH)
    side = (request or detail.response) if is_message else request
    if side is None:
        raise _unsendable(packet_id, _WHY_NO_REQUEST.get(detail.row["type"], _GONE))
    if is_message and detail.row["method"] in CONTROL:
        raise _unsendable(packet_id, f"a {detail.row['method']} is no message; send one that is")
    if len(side.body) < side.body_length:
        raise _unsendable(
            packet_id,
            f"only the first {len(side.body)} of {side.body_length} bytes of its body were kept",
        )
    on_head = [one for one in edits if isinstance(one, SetHeader) and one.target != "response"]
    if is_message and on_head:
        raise _unsendable(packet_id, "it has no headers to edit; regex_replace edits its payload")
    return SendTemplate(packet_id, detail.row, side, is_message, is_message and request is None)


def _unsendable(packet_id: int, why: str) -> InvalidInput:
    return InvalidInput(
        f"packet {packet_id} cannot be sent again: {why}",
        hint="get_history lists packets, get_packet_detail shows what is kept of one",
        field="packet_id",
        expected="a packet that was kept whole",
        received=str(packet_id),
    )


@dataclass(slots=True, kw_only=True)
class Delivery:
    """A send that is prepared: the exchange has its request, and later its outcome."""

    template: SendTemplate
    edits: tuple[Edit, ...]
    values: Mapping[str, str]
    allow_duplicates: bool
    exchange: Exchange
    timeout_s: float
    counts: list[int] = field(default_factory=list)
    """Number of places that each edit changed."""


class Courier:
    """Courier that prepares and delivers sends."""

    def __init__(self, sender: Sender, inject: Inject, clock: Clock) -> None:
        self._sender = sender
        self._inject = inject
        self._clock = clock

    async def prepare(
        self,
        template: SendTemplate,
        edits: tuple[Edit, ...],
        values: Mapping[str, str],
        exchange: Exchange,
        *,
        allow_duplicates: bool,
        timeout_s: float,
    ) -> Delivery:
        """Edit what goes out and enter it in the exchange."""
        delivery = Delivery(
            template=template,
            edits=edits,
            values=values,
            allow_duplicates=allow_duplicates,
            exchange=exchange,
            timeout_s=timeout_s,
        )
        before = Message(template.side.head, template.side.body)
        edited = await self._edited(delivery, before, "request")
        delivery.counts = edited.counts
        sent = _sent(edited, before, self._clock(), trailers=template.side.trailers)
        sent.chunks = template.side.chunks
        if template.to_client:
            exchange.response = sent
        else:
            exchange.request = sent
        if not template.is_message:
            words = parse_head(sent.head).words
            exchange.method = words[0].decode("latin-1") if words else ""
            exchange.url = _path(target_text(words[1])) if len(words) > 1 else ""
        return delivery

    async def deliver(self, delivery: Delivery, hold: Hold) -> None:
        """Send it, as soon as `hold` lets it go, and enter the outcome in the exchange.

        Raises:
            InvalidInput: the connection that should take a message is closed.
        """
        template, exchange = delivery.template, delivery.exchange
        if template.is_message:
            await hold()
            await self._put(delivery)
            return
        assert exchange.request is not None
        is_http2 = exchange.version.startswith(_OVER_HTTP2)
        if is_http2:
            exchange.version = "HTTP/2.0"  # also for what came over HTTP/3
        outcome = await self._sender.http(
            template.target,
            exchange.request.head,
            exchange.request.body,
            exchange.request.trailers,
            chunks=exchange.request.chunks,
            is_http2=is_http2,
            timeout_s=delivery.timeout_s,
            hold=hold,
        )
        await self._enter(delivery, outcome)

    async def _put(self, delivery: Delivery) -> None:
        """Put it on the live connection; without one, TCP and UDP to the server get a new one."""
        template, exchange = delivery.template, delivery.exchange
        sent = exchange.response if template.to_client else exchange.request
        assert sent is not None
        connection, kind = template.row["connection"], template.row["type"]
        try:
            await self._inject(
                connection,
                to_client=template.to_client,
                payload=sent.body,
                is_text=_is_text(template.row["method"], sent.body),
            )
        except InvalidInput:
            if kind not in _FRESH or template.to_client:
                raise InvalidInput(
                    f"packet {template.packet_id} cannot be sent again:"
                    f" its {kind} connection is closed",
                    hint="open the connection anew, then send one of its own packets again",
                    field="packet_id",
                    expected="a packet of a live connection",
                    received=str(template.packet_id),
                ) from None
            await self._put_on_fresh(delivery, sent.body)

    async def _put_on_fresh(self, delivery: Delivery, payload: bytes) -> None:
        template, exchange = delivery.template, delivery.exchange
        exchange.connection = f"{exchange.job}-{exchange.connection}"
        send = self._sender.udp if template.row["type"] == "UDP" else self._sender.tcp
        outcome = await send(template.target, payload, timeout_s=delivery.timeout_s)
        await self._enter(delivery, outcome)

    async def _enter(self, delivery: Delivery, outcome: Outcome) -> None:
        exchange, response = delivery.exchange, outcome.response
        assert exchange.request is not None
        exchange.request.time = outcome.started
        exchange.client, exchange.alpn = outcome.client, outcome.alpn
        exchange.server = outcome.server if outcome.server.port else exchange.server
        exchange.error = outcome.error
        exchange.duration_ms = outcome.ended - outcome.started
        if not outcome.has_response:
            return
        before = Message(response.head, bytes(response.body))
        edited = await self._edited(delivery, before, "response")
        delivery.counts = [sum(pair) for pair in zip(delivery.counts, edited.counts, strict=True)]
        missing = response.body_length - len(response.body)
        sent = _sent(edited, before, response.time, trailers=response.trailers, missing=missing)
        exchange.response = sent
        exchange.status = parse_head(sent.head).status

    async def _edited(self, delivery: Delivery, message: Message, direction: Direction) -> Edited:
        if not delivery.edits:
            return editing.Edited(message, counts=[])
        return await asyncio.to_thread(
            editing.apply,
            delivery.edits,
            message,
            direction,
            delivery.values,
            allow_duplicates=delivery.allow_duplicates,
        )


def blank_exchange(template: SendTemplate, *, connection: str, session: str, job: str) -> Exchange:
    """Return an exchange of our own that goes where the recorded one went; what was judged stays
    so, however often it is sent again."""
    row = template.row
    return Exchange(
        connection=row["connection"] if template.is_message else connection,
        kind=row["type"],
        server=ConnectionEnd(row["server_ip"], row["server_port"]),
        server_name=row["server_name"],
        scheme=row["scheme"],
        method=(row["method"] or "") if template.is_message else "",
        url=row["url"] or "",
        version=row["version"],
        encode=row["encode"],
        session=row["session"] if template.is_judged else session,
        listener=row["listener"] if template.is_judged else 0,
        resend=True,
        job=job,
    )


def _sent(
    edited: Edited, before: Message, time: float, *, trailers: bytes, missing: int = 0
) -> WireMessage:
    message = edited.message
    body_length = len(message.body) + missing
    return WireMessage(
        time=time,
        head=message.head,
        body=message.body,
        length=len(message.head) + body_length,
        body_length=body_length,
        modified=edited.is_changed,
        original=(before.head, before.body) if edited.is_changed else None,
        trailers=trailers,
    )


def _path(target: str) -> str:
    """Return path and query of a request's target, also where it is a whole URL."""
    scheme, separator, rest = target.partition("://")
    if not separator or not scheme.isalpha():
        return target
    return rest[rest.find("/") :] if "/" in rest else "/"


def _is_text(opcode: str | None, payload: bytes) -> bool:
    """Return whether it goes as text: as its frame said, unless it is no text any more."""
    if opcode == BINARY:
        return False
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True

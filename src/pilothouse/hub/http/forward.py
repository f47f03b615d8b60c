"""Passes a request to the caller's worker, and the answer back."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pilothouse.core.net.http1 import kept, write_head
from pilothouse.hub.http.answer import Passing, ResultReader, Tapped
from pilothouse.hub.http.replies import error_text
from pilothouse.hub.http.upstream import Unreachable
from pilothouse.hub.mcp.routing_keys import calls_one_of
from pilothouse.hub.model import GatewayFault, SessionUnknown, WorkerLost
from pilothouse.hub.notices import LOST, RESET

if TYPE_CHECKING:
    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.http.connection import Connection
    from pilothouse.hub.http.upstream import UpstreamPool
    from pilothouse.hub.mcp.handshake import Greetings
    from pilothouse.hub.mcp.routing_keys import RoutingFacts
    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.model import Key, SessionRecord
    from pilothouse.hub.ports import Lease, TrafficObserver, Upstream, Workers
    from pilothouse.hub.sessions.registry import SessionRegistry

SESSION = "mcp-session-id"
PEER = "x-pilothouse-peer"
"""Header with which gateways pass on requests to each other (hub/sessions/peers.py)."""
DYING_S = 1.0
"""Seconds that a worker that nobody can reach may take to be known as dead."""
_NOT_FOR_WORKERS = frozenset(
    {
        "host",
        "origin",
        "authorization",
        "cookie",
        "expect",
        "content-length",
        "transfer-encoding",
        SESSION,
        PEER,
    }
)
"""Headers that the hub judged itself, with a caller's secrets, and those that it writes anew."""


_NO_TOOLS: frozenset[str] = frozenset()


class Call:
    """One request on its way through the hub."""

    def __init__(
        self, client: Connection, head: RequestHead, path: str, asked: RoutingFacts
    ) -> None:
        self.client = client
        self.head = head
        self.path = path
        self.asked = asked
        self.body = b""
        self.message: dict[str, Any] = {}
        self.is_passed_on = False
        """True if another gateway passed it on, because the session's worker is here."""
        self.mints = False
        """A worker is started for it that only what its answer names will lead to."""
        self.has_named = False
        """Its answer has named something that lives in the worker."""

    @property
    def method(self) -> str:
        """Method of the message; empty for the answer to a request of the worker's."""
        method: str = self.message.get("method", "")
        return method

    @property
    def id(self) -> str | int | None:
        """Id of a request; None for anything that gets no answer."""
        id: str | int | None = self.message.get("id") if "method" in self.message else None
        return id


class Forwarder:
    """Carries requests to workers."""

    def __init__(
        self,
        registry: SessionRegistry,
        workers: Workers,
        relay: UpstreamPool,
        greetings: Greetings,
        traffic: TrafficObserver,
    ) -> None:
        self._registry = registry
        self._workers = workers
        self._relay = relay
        self._greetings = greetings
        self._traffic = traffic
        self._unreported: set[Key] = set()
        """Keys whose worker was replaced, of which the client has not been told yet."""

    def forget(self, key: Key) -> None:
        self._unreported.discard(key)

    async def forward(
        self, call: Call, record: SessionRecord, template: Template, *, greets: bool = False
    ) -> bool:
        """Have the record's worker answer, which is started if need be.

        Args:
            call: The request.
            record: Whose it is.
            template: Of that worker.
            greets: The session must be known to the worker by an id.

        Returns:
            Whether the client's connection may go on.

        Raises:
            GatewayFault: there is no worker, or it went away before it answered.
        """
        began, outcome = perf_counter(), "left"
        try:
            try:
                stays = await self._try(call, record, template, greets)
            except WorkerLost as lost:
                if greets and await self._is_over(record):
                    raise SessionUnknown from None
                if not isinstance(lost, Unreachable):
                    raise
                # It has not seen the request: another one may.
                stays = await self._try(call, record, template, greets)
            outcome = "answered"
            return stays
        except GatewayFault as fault:
            outcome = fault.name
            raise
        finally:
            self._traffic(call.method, perf_counter() - began, outcome)

    async def _is_over(self, record: SessionRecord) -> bool:
        """Return whether the session was ended, which may be why its worker is gone."""
        return await self._registry.find(record.id, record.principal) is None

    async def _try(
        self, call: Call, record: SessionRecord, template: Template, greets: bool
    ) -> bool:
        if call.method != "subscriptions/listen":
            async with await self._workers.get(record.key, record) as lease:
                return await self._serve(call, record, template, lease, greets=greets)
        # Whoever only listens does not keep a worker busy.
        began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with await self._workers.get(record.key, record) as lease:
            serving = asyncio.create_task(
                self._serve(call, record, template, lease, greets=greets, began=began)
            )
            try:
                either: list[asyncio.Future[Any]] = [serving, began]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                serving.cancel()
                raise
        try:
            return await serving
        finally:
            serving.cancel()

    async def _serve(
        self,
        call: Call,
        record: SessionRecord,
        template: Template,
        lease: Lease,
        *,
        greets: bool,
        began: asyncio.Future[None] | None = None,
    ) -> bool:
        worker = lease.worker
        if lease.is_fresh:
            self._unreported.add(record.key)
        try:
            session = await self._greetings.greet(record, worker) if greets else ""
            sink = self._sink(call, record, template)
            sink.began = began
            sink.withholds = 404 if session else 0
            if not await self._exchange(call, worker.address, record, session, sink):
                # It knows this session no more, and has lost what belonged to it.
                self._greetings.forget(record)
                self._unreported.add(record.key)
                session = await self._greetings.greet(record, worker)
                sink = self._sink(call, record, template)
                await self._exchange(call, worker.address, record, session, sink)
        except Unreachable:
            await asyncio.wait([worker.died], timeout=DYING_S)
            raise
        return sink.may_go_on

    async def pass_on(
        self, call: Call, upstream: Upstream, record: SessionRecord, session: str
    ) -> bool | None:
        """Pass on what starts no worker and keeps none busy; None: the worker does not know the
        session. Raises WorkerLost."""
        sink = Passing(call.client, call.head, record.id)
        sink.withholds = 404
        taken = await self._exchange(call, upstream, record, session, sink)
        return sink.may_go_on if taken else None

    def _sink(self, call: Call, record: SessionRecord, template: Template) -> Passing:
        public = record.id if record.era == "2025" else ""
        if call.id is None or call.method != "tools/call":
            return Passing(call.client, call.head, public)
        # All others are found without a name; those with a session of their own by that alone.
        naming = {"handle": template.minting | template.naming, "session": _NO_TOOLS}
        names = calls_one_of(call.message, naming.get(record.key.kind, template.minting))
        if not names and record.key not in self._unreported:
            return Passing(call.client, call.head, public)
        notice = RESET if record.key in self._unreported else ""
        return Tapped(call.client, call.head, public, call.id, ResultReader(notice))

    async def _exchange(
        self, call: Call, upstream: Upstream, record: SessionRecord, session: str, sink: Passing
    ) -> bool:
        """Exchange a call for its answer; return False if the worker does not know the session."""
        request = _request(call, upstream, session)
        whole = await self._relay.exchange(upstream, request, call.head.method, sink)
        if sink.refused:
            return False
        if isinstance(sink, Tapped):
            for name in sink.read(whole=whole):
                await self._registry.bind(name, record.key)
                call.has_named = True
            if whole:
                self._unreported.discard(record.key)
        sink.finish(whole=whole, lost=b"" if whole else error_text(call.id, -32603, LOST))
        return True


def _request(call: Call, upstream: Upstream, session: str) -> bytes:
    head = call.head
    # Only our own server takes a 2025-era request without a session, and only there.
    is_alone = not session and call.asked.era == "2025" and call.path == "/message"
    path = call.path if is_alone else upstream.endpoint
    host = upstream.host_header or head.one("host") or "localhost"
    fields = [("Host", host), *kept(head.fields, head.values, _NOT_FOR_WORKERS)]
    if session:
        fields.append(("Mcp-Session-Id", session))
    if head.method == "POST":
        fields.append(("Content-Length", str(len(call.body))))
    return write_head(f"{head.method} {path} HTTP/1.{head.minor}", fields) + call.body

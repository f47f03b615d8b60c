"""What becomes of a request to an MCP endpoint: answered here, or passed to the caller's worker."""

from __future__ import annotations

import asyncio
import math
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pilothouse.core.net import jsonrpc
from pilothouse.hub.http.client import NoAnswer, delete
from pilothouse.hub.http.forward import SESSION, Forwarder
from pilothouse.hub.http.push_stream import PushStreams
from pilothouse.hub.http.replies import INVALID_REQUEST, Reply, error, error_text, result_text
from pilothouse.hub.mcp import param_headers, revision_2026
from pilothouse.hub.mcp.handshake import Greetings
from pilothouse.hub.mcp.routing_keys import calls_one_of, key_of, names_in
from pilothouse.hub.mcp.template import accepts, answer_from, initialize, refuse_initialize, shaped
from pilothouse.hub.model import Key, SessionRecord, SessionUnknown, WorkerLost
from pilothouse.hub.notices import LOST, TOOLS_CHANGED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pilothouse.hub.http.forward import Call
    from pilothouse.hub.http.upstream import UpstreamPool
    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.ports import Templates, Throttle, TrafficObserver, Upstream, Workers
    from pilothouse.hub.sessions.registry import SessionRegistry

MAX_HELLO_BYTES = 64 * 1024
MAX_SUBSCRIPTIONS = 1_000
"""Most subscriptions sent again to a later worker; of a client's others that one will not know."""
DELETE_S = 2.0
"""Seconds that a worker may take to learn that its session is over, before it is ended itself."""


class McpEndpoint:
    """The MCP endpoints of a hub."""

    def __init__(
        self,
        *,
        registry: SessionRegistry,
        workers: Workers,
        relay: UpstreamPool,
        templates: Templates,
        clock: Callable[[], float],
        throttle: Throttle = lambda principal, tool: None,
        traffic: TrafficObserver = lambda method, seconds, outcome: None,
    ) -> None:
        self._registry = registry
        self._workers = workers
        self._templates = templates
        self._clock = clock
        self._throttle = throttle
        self._push_streams = PushStreams(relay)
        self._greetings = Greetings(registry, self._push_streams)
        self._forwarder = Forwarder(registry, workers, relay, self._greetings, traffic)
        self._ending: set[asyncio.Task[None]] = set()

    async def handle(self, call: Call) -> Reply | bool:
        """Return the answer to be given; or, when the worker's was passed on, whether the
        connection may go on. Raises GatewayFault, BadMessage."""
        if call.asked.era == "2026":
            return await self._modern(call)
        id = call.head.one(SESSION)
        match call.head.method:
            case "POST":
                refusal = await self._read(call)
                if id is None:
                    return refusal or await self._without_session(call)
                record = await self._find(call, id)
                return refusal or await self._in_session(call, record)
            case "GET" | "DELETE" if id is None:
                return error(400, INVALID_REQUEST, "Bad Request: Missing session ID")
            case "GET":
                return await self._listen(call, await self._find(call, id or ""))
            case "DELETE":
                return await self._end(await self._find(call, id or ""))
        allowed = [("Allow", "GET, POST, DELETE")]
        return error(405, INVALID_REQUEST, "Method Not Allowed", headers=allowed)

    async def _read(self, call: Call) -> Reply | None:
        """Read the body into the call; return why it is not taken, if it is not."""
        body = call.body or await call.client.body(call.head, jsonrpc.MAX_BYTES)
        if body is None:
            why = f"request body is larger than {jsonrpc.MAX_BYTES} bytes"
            return error(413, INVALID_REQUEST, why)
        wrong_kind = jsonrpc.refuse_kind(call.head.one("content-type"))
        if wrong_kind is not None:
            return error(415, wrong_kind.code, wrong_kind.message)
        message = jsonrpc.parse(body)
        if isinstance(message, jsonrpc.Refusal):
            return error(400, message.code, message.message, message.id)
        call.body, call.message = body, message
        return None

    async def _find(self, call: Call, id: str) -> SessionRecord:
        record = await self._registry.find(id, call.asked.principal)
        if record is None:
            raise SessionUnknown
        return record

    # 2026

    async def _modern(self, call: Call) -> Reply | bool:
        if call.head.method != "POST":
            return Reply(405, headers=(("Allow", "POST"),))
        refusal = await self._read(call)
        if refusal is not None:
            return refusal
        template = await self._templates()
        refusal = revision_2026.refuse(
            call.head, call.message, template.modern_versions, template.versions
        )
        refusal = refusal or param_headers.refuse(call.head, call.message, template.repeated)
        if refusal is not None:
            return refusal
        if call.id is None:
            return Reply(202)
        return await self._alone(call, template)

    async def _alone(self, call: Call, template: Template) -> Reply | bool:
        """Answer a request that stands alone, in either era."""
        key = await self._key(call, template)
        known = answer_from(template, call.asked.era, call.head, call.message, in_session=False)
        if known is not None and not self._is_stale(template, call, key):
            return known
        early = self._too_early(call)
        if early is not None:
            return early
        record = await self._registry.of_key(key)
        try:
            return await self._forwarder.forward(call, record, template)
        finally:
            if call.mints and not call.has_named:
                self._bury_later(self._give_back(record))

    async def _key(self, call: Call, template: Template) -> Key:
        owner = None
        if template.minting:
            for name in names_in(call.message):
                owner = owner or await self._registry.owner(name, call.asked.principal)
        call.mints = owner is None and calls_one_of(call.message, template.minting)
        return key_of(call.asked, owner=owner, mint=_new_id if call.mints else None)

    def _is_stale(self, template: Template, call: Call, key: Key) -> bool:
        may_change = template.may_change(call.asked.era, call.method)
        return may_change and self._workers.running(key) is not None

    def _too_early(self, call: Call) -> Reply | None:
        """Return the answer to a tool call that the rate does not allow, None if it does."""
        if call.method != "tools/call":
            return None
        name = call.message.get("params", {}).get("name")
        refusal = self._throttle(call.asked.principal, name if isinstance(name, str) else "")
        if refusal is None:
            return None
        # Whole, where the client takes that: there is nothing to wait for.
        answer = shaped(call.head, "2026", result_text(call.id, refusal.result))
        return answer.with_headers(("Retry-After", str(math.ceil(refusal.wait_s))))

    # 2025

    async def _without_session(self, call: Call) -> Reply | bool:
        if call.method == "initialize" and call.id is not None:
            return await self._open(call)
        template = await self._templates()
        # The e2e spec's clients send single requests there.
        if call.path == "/message" and call.id is not None and template.minting:
            return await self._alone(call, template)
        return error(400, INVALID_REQUEST, "Bad Request: Missing session ID")

    async def _open(self, call: Call) -> Reply:
        if len(call.body) > MAX_HELLO_BYTES:
            why = f"initialize is larger than {MAX_HELLO_BYTES} bytes"
            return error(413, INVALID_REQUEST, why, call.id)
        template = await self._templates()
        refusal = refuse_initialize(template, call.head, call.message)
        if refusal is not None:
            return refusal
        reply = initialize(template, call.head, call.message)
        if reply.status != 200:
            return reply
        id, principal, now = _new_id(), call.asked.principal, self._clock()
        key = Key("session", id, principal)
        params = call.message["params"]
        record = SessionRecord(
            id, key, "2025", now, now, principal, params, template.agreed(params["protocolVersion"])
        )
        await self._registry.open(record)
        return reply.with_headers(("Mcp-Session-Id", id))

    async def _in_session(self, call: Call, record: SessionRecord) -> Reply | bool:
        template = await self._templates()
        if call.id is None:
            return await self._note(call, record)
        if call.method == "initialize":
            refusal = refuse_initialize(template, call.head, call.message)
            reply = refusal or initialize(template, call.head, call.message)
            return reply.with_headers(("Mcp-Session-Id", record.id))
        await self._remember(call, record)
        known = answer_from(template, "2025", call.head, call.message)
        if known is None and self._workers.running(record.key) is None:
            known = _settled(template, call)
        if known is not None and not self._is_stale(template, call, record.key):
            return known.with_headers(("Mcp-Session-Id", record.id))
        early = self._too_early(call)
        if early is not None:
            return early.with_headers(("Mcp-Session-Id", record.id))
        return await self._forwarder.forward(call, record, template, greets=True)

    async def _remember(self, call: Call, record: SessionRecord) -> None:
        """Keep what a later worker will have to be sent."""
        params = call.message.get("params", {})
        match call.method:
            case "logging/setLevel" if isinstance(level := params.get("level"), str):
                record.log_level = level
            case "resources/subscribe" if isinstance(uri := params.get("uri"), str):
                if len(record.subscriptions) < MAX_SUBSCRIPTIONS:
                    record.subscriptions[uri] = None
            case "resources/unsubscribe" if isinstance(uri := params.get("uri"), str):
                record.subscriptions.pop(uri, None)
            case _:
                return
        await self._registry.save(record)

    async def _note(self, call: Call, record: SessionRecord) -> Reply | bool:
        """Pass on a notification or the answer to the worker's request: it starts nothing."""
        if call.method == "notifications/initialized":
            record.initialized = True
            await self._registry.save(record)
        worker = self._workers.running(record.key)
        if worker is None or not self._greetings.knows(record, worker):
            return Reply(202)
        with suppress(WorkerLost):
            session = await self._greetings.greet(record, worker)
            passed = await self._forwarder.pass_on(call, worker.address, record, session)
            return Reply(202) if passed is None else passed
        return Reply(202)

    async def _listen(self, call: Call, record: SessionRecord) -> Reply | bool:
        """Open a client's stream for what nobody asked for, or for the rest of a broken one."""
        if not accepts(call.head)[1]:
            why = "Not Acceptable: Client must accept text/event-stream"
            return error(406, INVALID_REQUEST, why)
        first = b""
        if call.head.one("last-event-id"):
            present = self._greetings.present(record)
            if present is not None:
                passed = await self._forwarder.pass_on(call, present[0], record, present[1])
                if passed is not None:
                    return passed
            # Who was answering is gone: whoever waits for the rest must not wait for ever.
            first = error_text(None, -32603, LOST)
        reply = await self._push_streams.hold(
            call.client,
            call.head,
            record,
            join=lambda: self._greetings.present(record),
            seen=lambda: self._registry.find(record.id, record.principal),
            first=first,
        )
        return call.head.stays_open if reply is None else reply

    async def _end(self, record: SessionRecord) -> Reply:
        await self._registry.end(record)
        self._forwarder.forget(record.key)
        self._push_streams.end(record)
        self._bury_later(self._bury(record, self._greetings.present(record)))
        self._greetings.forget(record)
        return Reply(200, headers=(("Mcp-Session-Id", record.id),))

    def _bury_later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _give_back(self, record: SessionRecord) -> None:
        """End what was made for a call that came to nothing: nobody can ever ask for it again."""
        await self._registry.end(record)
        self._forwarder.forget(record.key)
        await self._workers.end(record.key)

    async def _bury(self, record: SessionRecord, present: tuple[Upstream, str] | None) -> None:
        if present is not None and present[1]:
            with suppress(NoAnswer):
                await delete(present[0], {"Mcp-Session-Id": present[1]}, DELETE_S)
        await self._workers.end(record.key)

    def tools_changed(self) -> None:
        """Tell who listens and has no worker that the list of tools is another one now."""
        self._push_streams.tell(TOOLS_CHANGED)

    async def close(self) -> None:
        """Wait until the workers of sessions that were ended are gone."""
        while self._ending:
            await asyncio.wait(self._ending)


def _new_id() -> str:
    return str(uuid.uuid4())


def _settled(template: Template, call: Call) -> Reply | None:
    """Answer what needs no worker yet, else return None: one that starts later will be told."""
    features = template.capabilities("2025")
    match call.method:
        case "logging/setLevel":
            known = "logging" in features
        case "resources/subscribe" | "resources/unsubscribe":
            known = bool(features.get("resources", {}).get("subscribe"))
        case _:
            known = False
    return shaped(call.head, "2025", result_text(call.id, "{}")) if known else None

"""How a session is known to its worker: a new one is told what the client said to those before it.

A client shakes hands once, with the hub, and never learns that workers come and go. So each worker
that starts is told the client's `initialize` and `notifications/initialized`, the log level that it
set and what it has subscribed to, before it gets the first request. Roots need no telling: that the
client has them stands in its `initialize`, and the worker asks for them. What tools have built up
is lost with a worker.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from pilothouse.core.net.http1 import BadMessage
from pilothouse.hub.http.client import NoAnswer, post
from pilothouse.hub.http.upstream import Unreachable
from pilothouse.hub.mcp.revision_2026 import VERSION_HEADER

if TYPE_CHECKING:
    from pilothouse.hub.http.push_stream import PushStreams
    from pilothouse.hub.model import SessionRecord
    from pilothouse.hub.ports import Upstream, Worker
    from pilothouse.hub.sessions.registry import SessionRegistry

UPDATED = "notifications/resources/updated"
GREETING_S = 10.0
"""Seconds that a worker that has just started may take for one step of the handshake."""


class Greeting:
    """A session's handshake with one worker."""

    shaking: asyncio.Task[str]

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.session: str | None = None
        """The id by which the worker knows the session, once it has given one."""


class Greetings:
    """The handshakes of all sessions with their present workers."""

    def __init__(self, registry: SessionRegistry, push_streams: PushStreams) -> None:
        self._registry = registry
        self._push_streams = push_streams
        self._current: dict[str, Greeting] = {}

    async def greet(self, record: SessionRecord, worker: Worker) -> str:
        """Return the id by which the worker knows the session, introduced to it if need be.

        Raises:
            Unreachable: it does not shake hands; nothing else was sent to it.
        """
        greeting = self._current.get(record.id)
        if greeting is None or greeting.worker is not worker:
            greeting = self._current[record.id] = Greeting(worker)
            # A task of its own: whoever asked first may leave while others wait for the same.
            greeting.shaking = asyncio.create_task(self._shake(record, greeting))
            greeting.shaking.add_done_callback(_noticed)
            worker.died.add_done_callback(lambda _: self._gone(record.id, worker))
        if greeting.shaking.done() and not greeting.shaking.exception():
            return greeting.shaking.result()
        try:
            return await asyncio.shield(greeting.shaking)
        except Exception:
            self.forget(record, greeting)
            raise

    def knows(self, record: SessionRecord, worker: Worker) -> bool:
        """Return whether the session was introduced to this worker, or is just being so."""
        greeting = self._current.get(record.id)
        return greeting is not None and greeting.worker is worker

    def present(self, record: SessionRecord) -> tuple[Upstream, str] | None:
        """Return where the session's worker listens, and the id by which it knows the session."""
        greeting = self._current.get(record.id)
        if greeting is None or greeting.session is None:
            return None
        return greeting.worker.address, greeting.session

    def forget(self, record: SessionRecord, greeting: Greeting | None = None) -> None:
        """Drop a handshake: the worker does not know the session, or the session is over."""
        if greeting is None or self._current.get(record.id) is greeting:
            self._current.pop(record.id, None)

    def _gone(self, id: str, worker: Worker) -> None:
        greeting = self._current.get(id)
        if greeting is not None and greeting.worker is worker:
            del self._current[id]

    async def _shake(self, record: SessionRecord, greeting: Greeting) -> str:
        upstream = greeting.worker.address
        had_another = bool(record.worker_sid)
        try:
            greeting.session = session = await self._introduce(record, upstream)
            await self._push_streams.join(record, upstream, session)
        except (NoAnswer, BadMessage) as error:
            raise Unreachable(f"the worker does not shake hands: {error}") from None
        record.worker_sid = session
        await self._registry.save(record)
        if had_another:
            # What was there before is lost, and what there is now was never sent.
            for uri in list(record.subscriptions):
                self._push_streams.say(record, _updated(uri))
        return session

    async def _introduce(self, record: SessionRecord, upstream: Upstream) -> str:
        told = await post(upstream, "initialize", record.initialize, within=GREETING_S)
        answer = told.body if isinstance(told.body, dict) else {}
        if "result" not in answer:
            why = answer.get("error", {}).get("message") or f"status {told.status}"
            raise NoAnswer(f"initialize: {why}")
        headers = {VERSION_HEADER: answer["result"].get("protocolVersion", record.version)}
        if told.session:
            headers["Mcp-Session-Id"] = told.session
        if record.initialized:
            await post(upstream, "notifications/initialized", headers=headers, within=GREETING_S)
        if record.log_level:
            level = {"level": record.log_level}
            await post(upstream, "logging/setLevel", level, headers, GREETING_S)
        for uri in list(record.subscriptions):
            await post(upstream, "resources/subscribe", {"uri": uri}, headers, GREETING_S)
        return told.session


def _updated(uri: str) -> bytes:
    said = {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}
    return json.dumps(said).encode()


def _noticed(shaking: asyncio.Task[str]) -> None:
    """Have asyncio know that a failure was seen: whoever waited for it may have left."""
    if not shaking.cancelled():
        shaking.exception()

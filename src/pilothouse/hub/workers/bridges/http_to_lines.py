"""Workers that speak HTTP, made to speak lines with a relay as our own do (relay/relay.py)."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pilothouse.core.net.http1 import Chunked, write_head
from pilothouse.hub.http.client import NoAnswer, delete
from pilothouse.hub.http.replies import JSON, compact, error_text
from pilothouse.hub.http.sse import SSE, message_of, take_event
from pilothouse.hub.http.upstream import UpstreamPool
from pilothouse.hub.mcp.param_headers import repeating
from pilothouse.hub.mcp.revision_2026 import (
    NAMED_BY,
    VERSION_HEADER,
    VERSION_KEY,
    encoded,
    unsupported,
)
from pilothouse.hub.model import GatewayFault
from pilothouse.ipc.local_socket import listen_at

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.core.net.http1 import AnswerHead, Body
    from pilothouse.hub.http.upstream import UpstreamConnection
    from pilothouse.hub.model import Key, SessionRecord
    from pilothouse.hub.ports import Templates, Worker, Workers

    type Message = dict[str, Any]

LONGEST_LINE = 64 << 20
CONGESTED = 1 << 20
AGAIN_S = 1.0
"""Seconds until a stream for what the worker sends unasked is opened once more."""
SESSION = "mcp-session-id"
INTERNAL_ERROR = -32603
NOT_FOUND = 404


class Bridges:
    """A socket for each relay whose worker speaks HTTP."""

    def __init__(self, folder: Path, workers: Workers, templates: Templates) -> None:
        self._folder = folder
        self._workers = workers
        self._templates = templates
        self._relay = UpstreamPool()
        self._open: dict[Key, asyncio.Server] = {}

    async def path(self, record: SessionRecord) -> str:
        """Return the socket on which the record's relay can speak with its present worker."""
        path = self._path(record)
        if record.key not in self._open:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                worker = self._workers.running(record.key)
                if worker is not None:
                    bridge = Bridge(
                        record,
                        worker,
                        writer,
                        workers=self._workers,
                        relay=self._relay,
                        templates=self._templates,
                    )
                    await bridge.run(reader)
                writer.close()

            self._open[record.key] = await asyncio.start_unix_server(
                serve, sock=listen_at(str(path)), limit=LONGEST_LINE
            )
        return str(path)

    def close(self, record: SessionRecord) -> None:
        server = self._open.pop(record.key, None)
        if server is not None:
            server.close()
            self._path(record).unlink(missing_ok=True)

    def _path(self, record: SessionRecord) -> Path:
        return self._folder / f"r{record.id[:12]}"


class Bridge:
    """One relay and one worker."""

    def __init__(
        self,
        record: SessionRecord,
        worker: Worker,
        writer: asyncio.StreamWriter,
        *,
        workers: Workers,
        relay: UpstreamPool,
        templates: Templates,
    ) -> None:
        self._record = record
        self._worker = worker
        self._writer = writer
        self._workers = workers
        self._relay = relay
        self._templates = templates
        self._session: dict[str, str] = {}
        """Headers of the session that the worker has opened."""
        self._asking: dict[object, asyncio.Task[None]] = {}
        self._push_stream: asyncio.Task[None] | None = None

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Run until the relay hangs up or the worker ends: we hang up, and the relay asks anew."""
        self._worker.died.add_done_callback(lambda _: self._writer.close())
        try:
            with suppress(OSError, ValueError, GatewayFault):
                while line := await reader.readline():
                    await self._take(json.loads(line))
                await self._settle()
        finally:
            for task in [*self._asking.values(), self._push_stream]:
                if task is not None:
                    task.cancel()
            if self._session:
                with suppress(NoAnswer):
                    await delete(self._worker.address, self._session)

    async def _settle(self) -> None:
        """Wait for the answers to what the relay has asked for before its last word."""
        if self._asking:
            await asyncio.wait(self._asking.values())

    async def _take(self, message: Message) -> None:
        id, method = message.get("id"), message.get("method")
        if id is not None and method is not None:
            task = self._asking[id] = asyncio.create_task(self._ask(message))
            task.add_done_callback(lambda _: self._asking.pop(id, None))
            if method == "initialize":
                await asyncio.wait([task])
            return
        if method == "notifications/cancelled" and not self._session:
            # In 2026 a request is given up by hanging up on it.
            given_up = self._asking.get(message.get("params", {}).get("requestId"))
            if given_up is not None:
                given_up.cancel()
            return
        await self._post(message)
        if method == "notifications/initialized" and self._push_stream is None and self._session:
            self._push_stream = asyncio.create_task(self._stand())

    async def _ask(self, message: Message) -> None:
        try:
            async with await self._workers.get(self._record.key, self._record) as lease:
                if lease.worker is not self._worker:
                    self._writer.close()
                    return
                refusal = await self._refusal(message)
                if refusal is not None:
                    self.say(refusal)
                    return
                incoming = await self._post(message)
        except GatewayFault:
            self._writer.close()
            return
        if incoming.has_answered:
            return
        if incoming.status == NOT_FOUND and self._session:
            # It has forgotten the session: the relay will introduce its client anew.
            self._writer.close()
            return
        why = f"the worker answered {message['method']} with status {incoming.status} alone"
        self.say(error_text(message["id"], INTERNAL_ERROR, incoming.refusal or why))

    async def _refusal(self, message: Message) -> bytes | None:
        """Refuse a request of 2026 for a worker of 2025, which might not answer it at all."""
        version = about(message).get(VERSION_HEADER)
        if version is None:
            return None
        template = await self._templates()
        if template.modern:
            return None
        return unsupported(version, template.versions, message["id"]).body

    async def _post(self, message: Message) -> Incoming:
        body = compact(message).encode()
        fields = {
            "Content-Type": JSON,
            "Content-Length": str(len(body)),
            **self._session,
            **await self._about(message),
        }
        incoming = Incoming(self, message.get("id") if "method" in message else None)
        await self._exchange("POST", fields, body, incoming)
        incoming.end()
        if message.get("method") == "initialize":
            self._session = incoming.session
        return incoming

    async def _about(self, message: Message) -> dict[str, str]:
        """Return the headers in which a request of 2026 repeats what its body says."""
        headers = about(message)
        if headers and message["method"] == "tools/call":
            headers |= repeating(message, (await self._templates()).repeated)
        return headers

    async def _stand(self) -> None:
        """Receive what the worker sends unasked."""
        with suppress(GatewayFault):
            while True:
                incoming = Incoming(self)
                await self._exchange("GET", self._session, b"", incoming)
                if incoming.status != 200:
                    return
                await asyncio.sleep(AGAIN_S)

    async def _exchange(
        self, method: str, fields: dict[str, str], body: bytes, incoming: Incoming
    ) -> None:
        address = self._worker.address
        accept = f"{JSON}, {SSE}" if method == "POST" else SSE
        head = {"Host": address.host_header or "localhost", "Accept": accept, **fields}
        request = write_head(f"{method} {address.endpoint} HTTP/1.1", head.items()) + body
        await self._relay.exchange(address, request, method, incoming)

    def say(self, line: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(line + b"\n")

    def wait_for_relay(self, link: UpstreamConnection) -> None:
        """Have the worker wait for a relay whose client is slow."""
        if self._writer.transport.get_write_buffer_size() > CONGESTED:
            link.pause_reading()
            asyncio.get_running_loop().create_task(self._resume(link))

    async def _resume(self, link: UpstreamConnection) -> None:
        with suppress(OSError):
            await self._writer.drain()
        link.resume_reading()


class Incoming:
    """An answer of the worker's: each message in it becomes a line."""

    def __init__(self, bridge: Bridge, asked: object = None) -> None:
        """Take the bridge, and `asked`, the id of the request that it answers."""
        self._bridge = bridge
        self._asked = asked
        self.refusal = ""
        """Why it answers nobody, in the worker's words."""
        self._link: UpstreamConnection | None = None
        self._head: AnswerHead | None = None
        self._content = bytearray()
        self._chunked: Chunked | None = None
        self._answer: Message = {}

    @property
    def has_answered(self) -> bool:
        return bool(self._answer)

    @property
    def status(self) -> int:
        return self._head.status if self._head is not None else 0

    @property
    def _kind(self) -> str:
        return self._head.first("content-type") if self._head is not None else ""

    @property
    def session(self) -> dict[str, str]:
        """The headers of further requests, after an `initialize` that went well."""
        version = self._answer.get("result", {}).get("protocolVersion")
        id = self._head.first(SESSION) if self._head is not None else ""
        versions = {VERSION_HEADER: version} if isinstance(version, str) else {}
        return versions | ({"Mcp-Session-Id": id} if id else {})

    def begin(self, link: UpstreamConnection, head: AnswerHead, body: Body, first: bytes) -> None:
        self._link, self._head = link, head
        self._chunked = Chunked(self._content) if isinstance(body, Chunked) else None
        self.data(first)

    def data(self, data: bytes) -> None:
        if self._chunked is not None:
            self._chunked.take(data)
        else:
            self._content += data
        if self._kind.startswith(SSE):
            while one := take_event(self._content):
                self._receive(message_of(one))
            assert self._link is not None
            self._bridge.wait_for_relay(self._link)

    def end(self) -> None:
        if self._kind.startswith(JSON):
            with suppress(ValueError):
                self._receive(json.loads(self._content))

    def _receive(self, message: object) -> None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return
        if "method" not in message:
            if self._asked is not None and message.get("id") is None:
                # As servers refuse a request before they have read it: nobody waits for that id.
                self.refusal = str(message.get("error", {}).get("message", ""))
                return
            self._answer = message
        self._bridge.say(compact(message).encode())


def about(message: Message) -> dict[str, str]:
    """Return the headers in which every request of 2026 repeats its body; none for others."""
    params = message.get("params", {})
    version = params.get("_meta", {}).get(VERSION_KEY)
    if not isinstance(version, str) or "method" not in message:
        return {}
    headers = {VERSION_HEADER: version, "Mcp-Method": message["method"]}
    name = params.get(NAMED_BY.get(message["method"], ""))
    return headers | ({"Mcp-Name": encoded(name)} if isinstance(name, str) else {})

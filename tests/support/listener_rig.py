"""The hub's HTTP listener on a real port, with workers that tests hold in their hands."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Self

import anyio

from pilothouse.core.net.http1 import Chunked, Counted, parse_answer_head, parse_request_head
from pilothouse.core.net.origins import OriginPolicy
from pilothouse.core.settings import Settings
from pilothouse.hub.http.endpoint import McpEndpoint
from pilothouse.hub.http.listener import HttpListener, ListenerDeps
from pilothouse.hub.http.upstream import UpstreamPool
from pilothouse.hub.mcp.template_probe import capture
from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.ports import Upstream
from pilothouse.hub.sessions.open import Shared
from pilothouse.hub.sessions.registry import MemoryRegistry
from pilothouse.server.logs import Log
from pilothouse.server.mcp.handlers import build_server
from pilothouse.server.runtime import open_runtime
from pilothouse.server.transports.asgi import serving
from pilothouse.server.transports.http import HttpAppDeps, http_app
from pilothouse.server.transports.pages import Pages
from pilothouse.wiring.groups import GROUP_SPECS
from pilothouse.wiring.standalone import make_redactor
from tests.support.fixture_tools import GROUP_SPEC
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from anyio.abc import TaskStatus

    from pilothouse.core.net.http1 import AnswerHead, Body, RequestHead
    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.ports import Authenticate, Workers
    from pilothouse.hub.sessions.registry import SessionRegistry
    from pilothouse.server.groups import GroupSpec

    type Start = Callable[[Key], Awaitable[Hand]]
    type Script = Callable[[Asked], Awaitable[None]]

GUARD_S = 30.0
BOTH = "application/json, text/event-stream"


# Workers


class Hand:
    """A worker that lives in the test's own process."""

    def __init__(self, address: Upstream, stop: Callable[[], None] = lambda: None) -> None:
        self.address = address
        self.stop = stop
        self.pid = os.getpid()
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Hired:
    """A lease; the crew counts how many are out."""

    def __init__(self, crew: Crew, key: Key, worker: Hand, is_fresh: bool) -> None:
        self.worker = worker
        self.is_fresh = is_fresh
        self._crew, self._key = crew, key

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._crew.leases[self._key] -= 1


class Crew:
    """Workers by key, started by the function that the test gives."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._starting = asyncio.Lock()
        self._lost: set[Key] = set()
        self.hands: dict[Key, Hand] = {}
        self.started: list[Key] = []
        self.ended: list[Key] = []
        self.leases: dict[Key, int] = {}
        self.last: Key | None = None
        """Whose worker was asked for last."""

    async def get(self, key: Key, record: SessionRecord) -> Hired:
        async with self._starting:
            if key not in self.hands:
                self.hands[key] = await self._start(key)
                self.started.append(key)
        self.last, is_fresh = key, key in self._lost
        self._lost.discard(key)
        self.leases[key] = self.leases.get(key, 0) + 1
        return Hired(self, key, self.hands[key], is_fresh)

    def running(self, key: Key) -> Hand | None:
        return self.hands.get(key)

    async def end(self, key: Key) -> None:
        self.ended.append(key)
        self.lose(key)

    def drop(self, key: Key) -> None:
        self.lose(key)

    def lose(self, key: Key) -> None:
        """The worker is gone, with its state."""
        hand = self.hands.pop(key, None)
        if hand is not None:
            hand.stop()
            hand.died.set_result(None)
            self._lost.add(key)


@asynccontextmanager
async def own_workers(
    folder: Path, spec: GroupSpec = GROUP_SPEC, extend: Callable[[Any], None] = lambda server: None
) -> AsyncIterator[Crew]:
    """Each worker is our own server with the fixture tools, on a unix socket."""
    settings = Settings(profile="full")
    redactor = make_redactor(settings)

    async def run(path: str, *, task_status: TaskStatus[Hand]) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        log, pages = Log("worker", "error", redactor), Pages(page=_page, css="p {}")
        with anyio.CancelScope() as scope:
            async with open_runtime((*GROUP_SPECS, spec), settings, redactor, log) as runtime:
                server = build_server(runtime)
                extend(server)
                app = http_app(
                    HttpAppDeps(
                        runtime=runtime,
                        server=server,
                        origin_policy=OriginPolicy(),
                        pages=pages,
                        base_url="",
                    )
                )
                async with serving(app, listener):
                    hand = Hand(Upstream("localhost", path=path), scope.cancel)
                    task_status.started(hand)
                    await anyio.sleep_forever()

    async def start(key: Key) -> Hand:
        hand: Hand = await tasks.start(run, f"{folder}/{next(numbers)}")
        return hand

    numbers, crew = count(), Crew(start)
    async with anyio.create_task_group() as tasks:
        yield crew
        tasks.cancel_scope.cancel()


def _page(url: str) -> str:
    return f"<p>{url}</p>"


async def template_of(crew: Crew) -> Template:
    """What the crew's workers answer alike, asked from one that is of no use afterwards."""
    key = Key("handle", "template")
    async with await crew.get(key, SessionRecord("template", key, "2026", 0, 0)) as lease:
        captured = await capture(lease.worker.address)
    crew.lose(key)
    crew.started.clear()
    return replace(captured, minting=frozenset({"startSession"}))


# A plain upstream


@dataclass
class Asked:
    """One request that reached a plain upstream, and the way back."""

    head: RequestHead
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.body)
        return message

    def answer(self, status: str, body: bytes = b"", *fields: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields, "", ""]
        self.writer.write("\r\n".join(lines).encode() + body)

    def result(self, result: object = None, *fields: str) -> None:
        message = {"jsonrpc": "2.0", "id": self.message.get("id"), "result": result or {}}
        body = json.dumps(message).encode()
        self.answer("200 OK", body, "Content-Type: application/json", *fields)


@dataclass
class Plain:
    """An upstream that answers as the test says, and remembers what it was asked."""

    script: Script
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """A client closed its connection."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (asked := await read_request(reader, writer)) is not None:
                self.asked.append(asked)
                await self.script(asked)
                if not asked.head.stays_open:
                    return
            self.hung_up.set()
        except ConnectionError:
            self.hung_up.set()
        finally:
            writer.close()


def _next(body: Body) -> int:
    """How much may be read without taking from what comes after the body."""
    return body.left if isinstance(body, Counted) else 1 if isinstance(body, Chunked) else 65_536


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked | None:
    try:
        head = parse_request_head((await reader.readuntil(b"\r\n\r\n"))[:-4])
    except asyncio.IncompleteReadError:
        return None
    body = bytearray()
    framing = Chunked(body) if isinstance(head.body, Chunked) else head.body
    while framing is not None and not framing.ended:
        data = await reader.read(_next(framing))
        if not data:
            return None
        piece = framing.take(data)
        if not isinstance(framing, Chunked):
            body += piece
    return Asked(head, bytes(body), reader, writer)


@asynccontextmanager
async def plain(path: Path, script: Script) -> AsyncIterator[tuple[Plain, Crew]]:
    """A crew whose only worker is a plain upstream; the same for every key."""
    upstream = Plain(script)
    server = await asyncio.start_unix_server(upstream.serve, path)

    async def start(key: Key) -> Hand:
        return Hand(Upstream("worker.example", path=str(path)))

    try:
        yield upstream, Crew(start)
    finally:
        server.close()


# The listener


@dataclass
class Rig[W: Workers = Crew]:
    """A listener that is open."""

    port: int
    listener: HttpListener
    registry: SessionRegistry
    crew: W
    reported: list[Exception]
    clients: list[Raw] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def connect(self) -> Raw:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.clients.append(Raw(reader, writer, self.port))
        return self.clients[-1]


@asynccontextmanager
async def listen[W: Workers](
    crew: W,
    template: Template,
    *,
    pages: Upstream | None = None,
    authenticate: Authenticate | None = None,
    origin_policy: OriginPolicy | None = None,
    max_sessions: int = 1000,
    shared: Shared | None = None,
    listener: socket.socket | None = None,
) -> AsyncIterator[Rig[W]]:
    """The listener on a free port; what it reports fails the test."""
    reported: list[Exception] = []
    relay = UpstreamPool()
    if shared is None:
        registry = MemoryRegistry(
            time.time,
            max_sessions=max_sessions,
            has_worker=lambda key: crew.running(key) is not None,
        )
        shared = Shared(registry, crew)

    async def templates() -> Template:
        return template

    endpoint = McpEndpoint(
        registry=shared.registry,
        workers=shared.workers,
        relay=relay,
        templates=templates,
        clock=time.time,
    )
    served = HttpListener(
        ListenerDeps(
            endpoint=endpoint,
            relay=relay,
            pages=pages or Upstream("", path="/nowhere"),
            origin_policy=origin_policy or OriginPolicy(),
            report=lambda what, error: reported.append(error),
            authenticate=authenticate,
            peers=shared.peers,
        )
    )
    listener = listener or socket.create_server(("127.0.0.1", 0))
    server = await asyncio.get_running_loop().create_server(served.client, sock=listener)
    rig = Rig(listener.getsockname()[1], served, shared.registry, crew, reported)
    try:
        yield rig
    finally:
        for client in rig.clients:
            client.abort()
        server.close()
        served.close()
        await endpoint.close()
        relay.close()
        await until(lambda: len(served) == 0)
    assert reported == []


# A client that sends what no library would


@dataclass
class Got:
    """An answer."""

    head: AnswerHead
    body: bytes
    whole: bool = True

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def json(self) -> Any:
        """The message, also out of a stream of events, where it is the last."""
        if self.head.first("content-type").startswith("text/event-stream"):
            return json.loads(self.body.decode().rpartition("data: ")[2])
        return json.loads(self.body)


@dataclass
class Raw:
    """A connection to the listener."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    port: int

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def request(self, method: str, path: str, *fields: str, body: bytes | None = None) -> None:
        lines = [f"{method} {path} HTTP/1.1", *fields]
        if not any(line.lower().startswith("host:") for line in fields):
            lines.append(f"Host: 127.0.0.1:{self.port}")
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))

    def post(self, message: object, *fields: str, path: str = "/mcp") -> None:
        body = json.dumps(message).encode()
        kind = ("Content-Type: application/json", f"Accept: {BOTH}")
        self.request("POST", path, *kind, *fields, body=body)

    async def head(self) -> AnswerHead:
        async with asyncio.timeout(GUARD_S):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        head = parse_answer_head(raw[:-4])
        return await self.head() if head.status == 100 else head

    async def answer(self, method: str = "POST") -> Got:
        head = await self.head()
        body, framing = bytearray(), head.body(method)
        content = bytearray()
        if isinstance(framing, Chunked):
            framing = Chunked(content)
        async with asyncio.timeout(GUARD_S):
            while not framing.ended:
                try:
                    piece = await self.reader.read(_next(framing))
                except ConnectionError:
                    piece = b""
                if not piece:
                    ended = not head.values.keys() & {"content-length", "transfer-encoding"}
                    return Got(head, bytes(content or body), whole=ended)
                body += framing.take(piece)
        return Got(head, bytes(content or body))

    async def read(self, size: int = 65536) -> bytes:
        async with asyncio.timeout(GUARD_S):
            return await self.reader.read(size)

    async def until(self, needle: bytes) -> bytes:
        async with asyncio.timeout(GUARD_S):
            return await self.reader.readuntil(needle)

    async def initialize(self, **capabilities: Any) -> str:
        """Open a session; its id."""
        self.post(hello(**capabilities))
        got = await self.answer()
        assert got.status == 200, got
        return got.head.first("mcp-session-id")

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        self.writer.transport.abort()


def hello(version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
    return request("initialize", params, 0)


def request(method: str, params: dict[str, Any] | None = None, id: object = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def call(tool: str, id: object = 1, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", {"name": tool, "arguments": arguments}, id)


def modern(message: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A message of the 2026 era, and its headers."""
    version = "2026-07-28"
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {**message.get("params", {}), "_meta": meta}
    fields = [f"MCP-Protocol-Version: {version}", f"Mcp-Method: {message['method']}"]
    if (name := params.get("name") or params.get("uri")) is not None:
        fields.append(f"Mcp-Name: {name}")
    return {**message, "params": params}, fields

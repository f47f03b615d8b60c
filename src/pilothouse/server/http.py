"""The HTTP door: MCP at /mcp and /message, health, metrics and the status page."""

from __future__ import annotations

import os
import re
import socket
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from pilothouse import __version__
from pilothouse.core import jsonrpc
from pilothouse.server.auth import JwtVerifier, OAuthConfig, metadata_routes, protect
from pilothouse.server.edge import Guard, SoundMessages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp.server import Server
    from mcp.server.streamable_http import EventCallback, StreamableHTTPServerTransport
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pilothouse.core.origins import Doorkeeper
    from pilothouse.server.house import House

MCP_PATHS = ("/mcp", "/message")

SESSION_IDLE_S = 6 * 3600
"""A session's record is small and clients do not come back from a 404: keep it for hours."""
MAX_SESSIONS = 1_000

RETRY_MS = 500
"""When a client whose stream broke should ask for the rest of it."""
KEPT_STREAMS = 32
KEPT_PER_STREAM = 64
KEPT_CHARACTERS = 4 * 2**20
"""What a session keeps for such a client; two screenshots fit, a session's whole past does not."""

_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def http_app(
    house: House,
    server: Server[Any],
    doorkeeper: Doorkeeper,
    oauth: OAuthConfig | None,
    page: Callable[[str], tuple[str, str]],
    base_url: str,
) -> ASGIApp:
    """The ASGI application; `page` makes the status page's HTML and CSS for a base URL."""
    managers = _Managers(server)
    endpoint: ASGIApp = SoundMessages(managers, house)

    verifier = JwtVerifier(oauth) if oauth is not None else None

    def guarded(app: ASGIApp, path: str = MCP_PATHS[0]) -> ASGIApp:
        if oauth is None or verifier is None:
            return app
        return protect(app, verifier, base_url + path, oauth)

    routes = [
        *(Route(path, endpoint=_Endpoint(guarded(endpoint, path))) for path in MCP_PATHS),
        Route("/health", lambda request: JSONResponse(health(house))),
        Route("/metrics", endpoint=_Endpoint(guarded(_asgi(lambda _: _metrics(house))))),
        Route("/", endpoint=_Endpoint(guarded(_asgi(lambda request: _page(request, page, 0))))),
        Route("/style.css", lambda request: _page(request, page, 1)),
    ]
    if oauth is not None:
        for path in MCP_PATHS:
            routes += metadata_routes(base_url + path, oauth)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with managers.run():
            yield

    return Guard(Starlette(routes=routes, lifespan=lifespan), doorkeeper)


class _Endpoint:
    """A plain ASGI application as a Starlette endpoint: a class instance takes all methods."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})
        await self._app(scope, receive, send)


class _Managers:
    """The SDK's session manager, and a stateless one for 2025-era requests to /message that have
    no session: the e2e spec's clients send a single POST."""

    def __init__(self, server: Server[Any]) -> None:
        # Host, Origin and size are checked at our own edge, once for all routes.
        self._stateful = _ResumableSessions(
            server,
            max_request_body_size=jsonrpc.MAX_BYTES,
            session_idle_timeout=SESSION_IDLE_S,
            max_sessions=MAX_SESSIONS,
            retry_interval=RETRY_MS,
        )
        self._stateless = StreamableHTTPSessionManager(
            server, max_request_body_size=jsonrpc.MAX_BYTES, stateless=True, json_response=True
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with self._stateful.run(), self._stateless.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
        method = scope["state"].get("message", {}).get("method")
        alone = (
            scope["path"] == "/message"
            and scope["method"] == "POST"
            and b"mcp-session-id" not in headers
            and (not version or version in HANDSHAKE_PROTOCOL_VERSIONS)
            and method != "initialize"
        )
        manager = self._stateless if alone else self._stateful
        await manager.handle_request(scope, receive, send)


class _ResumableSessions(StreamableHTTPSessionManager):
    """Gives each session its own store: the SDK names streams by request id, and every client
    counts those from one, so a shared store would hand one session's answers to another."""

    def _admit_session(self, requestor: Any) -> StreamableHTTPServerTransport | None:
        self.event_store = RecentEvents()
        return super()._admit_session(requestor)


@dataclass
class _Stream:
    """The newest events of the answer to one request, or of the session's standing GET."""

    number: int
    events: deque[tuple[int, JSONRPCMessage | None]] = field(
        default_factory=lambda: deque(maxlen=KEPT_PER_STREAM)
    )
    written: int = 0
    size: int = 0
    answered: bool = False


_EVENT_ID = re.compile(r"([0-9]{1,12})-([0-9]{1,12})")
"""A stream's number, from one on, and that of an event in it."""


class RecentEvents(EventStore):
    """What a 2025-era session was sent last, so that a broken connection loses no answer."""

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {}
        self._opened = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            self._opened += 1
            stream = _Stream(self._opened)
        self._streams[stream_id] = stream  # now the newest
        stream.written += 1
        stream.events.append((stream.written, message))
        if isinstance(message, JSONRPCResponse):
            # Only results are large, and a stream has one.
            stream.size = _characters(message.result)
        stream.answered = isinstance(message, JSONRPCResponse | JSONRPCError)
        self._make_room()
        return f"{stream.number}-{stream.written}"

    def _make_room(self) -> None:
        older = [name for name in self._streams if name != GET_STREAM_KEY][:-1]
        size = sum(stream.size for stream in self._streams.values())
        for name in older:
            if len(self._streams) <= KEPT_STREAMS and size <= KEPT_CHARACTERS:
                return
            size -= self._streams.pop(name).size

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        named = _EVENT_ID.fullmatch(last_event_id)
        number, last = map(int, named.groups()) if named else (0, 0)
        for name, stream in self._streams.items():
            if stream.number != number:
                continue
            for written, message in list(stream.events):
                if written > last and message is not None:
                    await send_callback(EventMessage(message, f"{number}-{written}"))
            # The SDK goes on with a stream that is named here; one that is over must end.
            return name if name == GET_STREAM_KEY or not stream.answered else None
        return None


def _characters(value: Any) -> int:
    """About how much memory a JSON value takes, without writing it out."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    if isinstance(value, list):
        return sum(map(_characters, value))
    return 8


def _asgi(respond: Callable[[Request], Response]) -> ASGIApp:
    from starlette.requests import Request

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(Request(scope, receive))(scope, receive, send)

    return app


def health(house: House) -> dict[str, Any]:
    """What the e2e spec's health check shows."""
    return {
        "status": "ok",
        "version": __version__,
        "uptime": round((house.clock() - house.started_at) / 1000, 3),
        "activeSessions": len(house.sessions),
        "memory": {"rss": resident_bytes()},
    }


def resident_bytes() -> int:
    """This process' resident memory."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no /proc, as on macOS
        import psutil

        return int(psutil.Process().memory_info().rss)


def _metrics(house: House) -> Response:
    return Response(
        house.metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


def _page(request: Request, page: Callable[[str], tuple[str, str]], which: int) -> Response:
    text = page(str(request.base_url).rstrip("/"))[which]
    if which:
        return Response(text, media_type="text/css", headers=_PAGE_HEADERS)
    return HTMLResponse(text, headers=_PAGE_HEADERS)


def listen(host: str, port: int) -> socket.socket:
    """A bound listening socket. Raises OSError when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's delay off only where it is.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener

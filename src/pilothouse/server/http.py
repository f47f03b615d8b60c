"""The HTTP door: MCP at /mcp and /message, health, metrics and the status page."""

from __future__ import annotations

import os
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from pilothouse import __version__
from pilothouse.core import jsonrpc
from pilothouse.server.auth import JwtVerifier, OAuthConfig, metadata_routes, protect
from pilothouse.server.edge import Guard, SoundMessages
from pilothouse.server.resume import RETRY_MS, ResumableSessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp.server import Server
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pilothouse.core.origins import Doorkeeper
    from pilothouse.server.house import House

MCP_PATHS = ("/mcp", "/message")

SESSION_IDLE_S = 6 * 3600
"""A session's record is small and clients do not come back from a 404: keep it for hours."""
MAX_SESSIONS = 1_000

_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Pages:
    """The pages for people, handed in by the dashboard."""

    page: Callable[[str], str]
    """HTML of the status page for the URL by which it was asked for."""
    css: str

    def html(self, request: Request) -> Response:
        return HTMLResponse(self.page(str(request.base_url).rstrip("/")), headers=_PAGE_HEADERS)

    def style(self, request: Request) -> Response:
        return Response(self.css, media_type="text/css", headers=_PAGE_HEADERS)


def http_app(
    house: House,
    server: Server[Any],
    doorkeeper: Doorkeeper,
    oauth: OAuthConfig | None,
    pages: Pages,
    base_url: str,
) -> ASGIApp:
    """The ASGI application; `base_url` is how clients reach it."""
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
        Route("/", endpoint=_Endpoint(guarded(_asgi(pages.html)))),
        Route("/style.css", pages.style),
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
        self._stateful = ResumableSessions(
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
        "activeSessions": len(house.debug_ports),
        "agents": len(house.sessions),
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

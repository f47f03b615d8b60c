"""The HTTP server of a single process: MCP at /mcp and /message, and what is served beside it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.routing import Route

from pilothouse.core.net import jsonrpc
from pilothouse.server.mcp.resume import RETRY_MS, ResumableSessions
from pilothouse.server.transports.edge import OriginGuard, SoundMessages
from pilothouse.server.transports.oauth import BearerAuth
from pilothouse.server.transports.pages import AsgiEndpoint, health, health_answer, page_routes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp.server import Server
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pilothouse.core.net.origins import OriginPolicy
    from pilothouse.machine.net.http_access import Access
    from pilothouse.server.runtime import Runtime
    from pilothouse.server.transports.oauth import OAuthConfig
    from pilothouse.server.transports.pages import Pages

MCP_PATHS = ("/mcp", "/message")

SESSION_IDLE_S = 6 * 3600
"""A session's record is small and clients do not come back from a 404: keep it for hours."""
MAX_SESSIONS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAppDeps:
    """Dependencies of the ASGI application."""

    runtime: Runtime
    server: Server[Any]
    origin_policy: OriginPolicy
    pages: Pages
    base_url: str
    """URL by which clients reach it."""
    oauth: OAuthConfig | None = None
    access: Access | None = None
    """Judge of who may connect; without one nobody is asked who they are but by `oauth`."""
    trouble: Callable[[], str] = lambda: ""
    """Says why clients cannot be served."""


def http_app(deps: HttpAppDeps) -> ASGIApp:
    """Make the ASGI application."""
    managers = _Managers(deps.server)
    endpoint: ASGIApp = SoundMessages(managers, deps.runtime)

    guard = BearerAuth(deps.oauth, deps.base_url) if deps.oauth is not None else None

    def guarded(app: ASGIApp, path: str = MCP_PATHS[0]) -> ASGIApp:
        return app if guard is None else guard.protect(app, path)

    async def check_health(_: Request) -> Response:
        return health_answer(health(deps.runtime), deps.trouble(), 500)  # as the e2e spec has it

    routes = [
        *(Route(path, endpoint=AsgiEndpoint(guarded(endpoint, path))) for path in MCP_PATHS),
        *page_routes(deps.runtime, deps.pages, guarded, check_health),
        *(guard.metadata_routes(MCP_PATHS) if guard is not None else ()),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with managers.run():
            yield

    app = Starlette(routes=routes, lifespan=lifespan)
    return OriginGuard(app, deps.origin_policy, deps.access)


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

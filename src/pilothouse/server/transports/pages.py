"""What an HTTP server serves beside MCP: health, metrics, pages for people. Without the SDK."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from pilothouse import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from pilothouse.server.runtime import Runtime

    type Guarded = Callable[[ASGIApp], ASGIApp]
    """Wrapper that lets only callers through who may see what a session did."""
    type CheckHealth = Callable[[Request], Awaitable[Response]]

_KINDS_OF_MEMORY = {"anonymous": "RssAnon", "file": "RssFile", "shared": "RssShmem"}
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
    shell: Mapping[str, Callable[[Request], Response]] = field(default_factory=dict)
    """Files of the dashboard, by path. They hold no data: everybody may have them."""
    api: Mapping[str, ASGIApp] = field(default_factory=dict)
    """Applications that the dashboard asks for data, by path."""

    def html(self, request: Request) -> Response:
        return HTMLResponse(self.page(str(request.base_url).rstrip("/")), headers=_PAGE_HEADERS)

    def style(self, request: Request) -> Response:
        return Response(self.css, media_type="text/css", headers=_PAGE_HEADERS)


def page_routes(
    runtime: Runtime, pages: Pages, guarded: Guarded, check_health: CheckHealth
) -> list[Route]:
    """Return the routes of all that is no MCP."""
    return [
        Route("/health", check_health),
        Route("/metrics", endpoint=AsgiEndpoint(guarded(_metrics(runtime)))),
        Route("/status", endpoint=AsgiEndpoint(guarded(_asgi(pages.html)))),
        Route("/style.css", pages.style),
        *(Route(path, respond) for path, respond in pages.shell.items()),
        *(Route(path, endpoint=AsgiEndpoint(guarded(app))) for path, app in pages.api.items()),
    ]


class AsgiEndpoint:
    """A plain ASGI application as a Starlette endpoint: a class instance takes all methods."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})
        await self._app(scope, receive, send)


def _asgi(respond: Callable[[Request], Response]) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(Request(scope, receive))(scope, receive, send)

    return app


def health(runtime: Runtime) -> dict[str, Any]:
    """Return what the e2e spec's health check shows."""
    return {
        "status": "ok",
        "version": __version__,
        "uptime": round((runtime.clock() - runtime.started_at) / 1000, 3),
        "activeSessions": len(runtime.debug_ports),
        "agents": len(runtime.sessions),
        "services": dict(runtime.services),
        "memory": memory_by_kind(),
    }


def health_answer(facts: Mapping[str, Any], trouble: str, refusal: int) -> Response:
    """Answer 200, or `refusal` with the reason where there is trouble: it cannot serve."""
    if not trouble:
        return JSONResponse(dict(facts))
    return JSONResponse({**facts, "status": "unavailable", "reason": trouble}, refusal)


def memory_by_kind() -> dict[str, int]:
    """Return this process' resident bytes and, on Linux, what they are: its own (`anonymous`), of
    files that are mapped (`file`) or shared with others by name (`shared`)."""
    try:
        with open("/proc/self/status") as status:
            told = dict(line.split(":", 1) for line in status)
        kinds = {kind: int(told[name].split()[0]) * 1024 for kind, name in _KINDS_OF_MEMORY.items()}
    except (OSError, KeyError):  # not Linux
        return {"rss": resident_bytes()}
    return {"rss": sum(kinds.values()), **kinds}


def resident_bytes() -> int:
    """Return the bytes of this process' resident memory."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no /proc, as on macOS
        import psutil

        return int(psutil.Process().memory_info().rss)


def _metrics(runtime: Runtime) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        text = await runtime.metrics.scraped()
        answer = Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
        await answer(scope, receive, send)

    return app


def listen(host: str, port: int) -> socket.socket:
    """Open a bound listening socket. Raises OSError when the port is taken."""
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

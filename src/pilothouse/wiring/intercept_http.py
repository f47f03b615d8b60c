"""The servers of the intercept group beside MCP: its REST API, the endpoint for configurations, and
what the dashboard shows of the history.

The first two are opened with the first call that uses the group. One whose port is taken stays
shut, and the group's log and `status` say why.
"""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import Request

from pilothouse.core.declare.faults import Fault
from pilothouse.core.net.origins import OriginPolicy
from pilothouse.core.timeline.timeline import Timeline
from pilothouse.intercept.agent import AgentInterceptor
from pilothouse.intercept.model import TokenRefused
from pilothouse.intercept.rest.app import RestService, failure, read_app, rest_app
from pilothouse.intercept.rest.config_endpoint import config_app
from pilothouse.intercept.rest.openapi import Operation
from pilothouse.intercept.tools.history import filter_explain, get_history, get_packet_detail
from pilothouse.machine.net.http_access import Access
from pilothouse.machine.port_holders import port_trouble
from pilothouse.server.call import parse_args
from pilothouse.server.transports.asgi import serving
from pilothouse.server.transports.edge import OriginGuard
from pilothouse.server.transports.pages import listen
from pilothouse.wiring.access_token import access_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from pilothouse.core.declare.tool import Tool
    from pilothouse.intercept.proxy import Proxy
    from pilothouse.server.session import Session

HOST = "127.0.0.1"
TOKEN_HEADER = "X-Intercept-Token"
"""Header with the token of a page that reads the history."""


@asynccontextmanager
async def intercept_listeners(shared: Session, proxy: Proxy) -> AsyncIterator[None]:
    """Open both servers, as far as they can be opened, for the block."""
    from pilothouse.intercept.tools.listing import TOOLS

    access = _access(shared)

    def guard(app: Any) -> Any:
        return OriginGuard(app, OriginPolicy(), access)

    service = _service(
        shared, proxy, "REST", tools_listing=lambda: [_listed(tool) for tool in TOOLS]
    )
    apps = {
        "REST API": (shared.settings.rest_port, rest_app(service, guard)),
        "config endpoint": (
            shared.settings.config_port,
            config_app(_view(shared, proxy, "config endpoint"), guard),
        ),
    }
    async with AsyncExitStack() as stack:
        for name, (port, app) in apps.items():
            try:
                listener = listen(HOST, port)
            except OSError as error:
                # All processes of the machine may have to be looked at.
                why = await anyio.to_thread.run_sync(port_trouble, port, error)
                shared.services[name] = f"off: {why}"
                proxy.book.write("warn", f"the {name} is {shared.services[name]}")
                continue
            port = listener.getsockname()[1]
            shared.listeners.add(port)
            await stack.enter_async_context(serving(app, listener))
            shared.services[name] = f"http://{HOST}:{port}"
        yield


def _access(shared: Session) -> Access | None:
    """Return who may connect beside our own user: whoever brings the token that these two ask
    everybody for."""
    if shared.settings.local_users == "all":
        return None
    secret = access_token(shared.settings)
    return Access(token=secret.present, shown_by="pilothouse token", has_pages=False)


def packet_views(shared: Session) -> dict[str, ASGIApp]:
    """Return the apps by which a page reads the history, by path: as REST does, with the token in a
    header of its own, since another token may stand in the usual one."""
    operations = (
        Operation(
            method="GET",
            path="/api/packets",
            tool=get_history,
            fixed={"all_sessions": True},
            renamed={"cursor": "after"},
        ),
        Operation(method="GET", path="/api/packets/{packet_id}", tool=get_packet_detail),
        Operation(
            method="GET", path="/api/filter", tool=filter_explain, renamed={"filter": "text"}
        ),
    )
    return {one.path: _Packets(shared, one) for one in operations}


class _Packets:
    """One path to the history. The group is opened with the first request that has a token."""

    def __init__(self, shared: Session, operation: Operation) -> None:
        self._shared = shared
        self._operation = operation
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if not _page_token(Request(scope)):
                raise TokenRefused(
                    "the access token is missing",
                    hint=f"`pilothouse token` prints it; send it in the header {TOKEN_HEADER}",
                )
            app = self._app or await self._open()
        except Fault as fault:
            app = failure(fault, self._shared.redactor)
        await app(scope, receive, send)

    async def _open(self) -> ASGIApp:
        from pilothouse.intercept.proxy import Proxy

        proxy = await self._shared.port(Proxy)
        service = _service(self._shared, proxy, "the dashboard", token=_page_token)
        self._app = read_app(service, self._operation)
        return self._app


def _page_token(request: Request) -> str | None:
    offered = request.headers.getlist(TOKEN_HEADER)
    return offered[0] if len(offered) == 1 else None


def _view(shared: Session, proxy: Proxy, who: str) -> AgentInterceptor:
    return AgentInterceptor(
        proxy=proxy, session="", redactor=shared.redactor, timeline=Timeline(), who=who
    )


def _service(shared: Session, proxy: Proxy, who: str, **more: Any) -> RestService:
    def incident(error: Exception) -> str:
        number = secrets.token_hex(4)
        proxy.book.write("error", f"incident {number}: {type(error).__name__}: {error}", "rest")
        return number

    view = _view(shared, proxy, who)
    return RestService(interceptor=view, parse=parse_args, incident=incident, **more)


def _listed(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": tool.annotations,
    }

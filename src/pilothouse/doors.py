"""The doors of the intercept group beside MCP: its REST API and the endpoint for configurations.

Both are opened with the first call that uses the group. One whose port is taken stays shut, and
the group's log and `status` say why.
"""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pilothouse.core.origins import Doorkeeper
from pilothouse.core.timeline import Timeline
from pilothouse.intercept.config_endpoint import config_app
from pilothouse.intercept.rest import Service, rest_app
from pilothouse.intercept.view import View
from pilothouse.server.call import parse_args
from pilothouse.server.edge import Guard
from pilothouse.server.http import listen
from pilothouse.server.serving import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.core.tool import Tool
    from pilothouse.intercept.adapter import Proxy
    from pilothouse.server.session import Session

HOST = "127.0.0.1"


@asynccontextmanager
async def intercept_doors(shared: Session, proxy: Proxy) -> AsyncIterator[None]:
    """Both doors, as far as they can be opened, until the block ends."""
    from pilothouse.intercept.tools import TOOLS

    def view(who: str) -> View:
        return View(proxy=proxy, session="", redactor=shared.redactor, timeline=Timeline(), who=who)

    def guard(app: Any) -> Any:
        return Guard(app, Doorkeeper())

    def incident(error: Exception) -> str:
        number = secrets.token_hex(4)
        proxy.book.write("error", f"incident {number}: {type(error).__name__}: {error}", "rest")
        return number

    service = Service(
        interceptor=view("REST"),
        parse=parse_args,
        tools_listing=lambda: [_listed(tool) for tool in TOOLS],
        incident=incident,
    )
    apps = {
        "REST API": (shared.settings.rest_port, rest_app(service, guard)),
        "config endpoint": (
            shared.settings.config_port,
            config_app(view("config endpoint"), guard),
        ),
    }
    async with AsyncExitStack() as stack:
        for name, (port, app) in apps.items():
            try:
                listener = listen(HOST, port)
            except OSError as error:
                shared.services[name] = f"off: port {port} cannot be used ({error.strerror})"
                proxy.book.write("warn", f"the {name} is {shared.services[name]}")
                continue
            port = listener.getsockname()[1]
            shared.listeners.add(port)
            await stack.enter_async_context(serving(app, listener))
            shared.services[name] = f"http://{HOST}:{port}"
        yield


def _listed(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": tool.annotations,
    }

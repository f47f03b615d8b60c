"""The dashboard, wired: what it shows of a process, and how its pages are served.

Beside `intercept_http.py` a file that knows what others have built. Both kinds of process use it:
the hub with its workers, and one that serves alone.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pilothouse import __version__
from pilothouse.dashboard.api import api
from pilothouse.dashboard.site_files import asset, shell
from pilothouse.e2e.failure.dossier_page import CSS as DOSSIER_STYLE
from pilothouse.server.transports.pages import Pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from pilothouse.dashboard.ports import Agents
    from pilothouse.server.runtime import Runtime

PACKETS = ("/api/packets", "/api/packets/{packet_id}", "/api/filter")
BOOKMARKS_LINK = "bookmarks link"
"""Name of the bookmarks link among the services."""


def pages(runtime: Runtime, agents: Agents, status: Callable[[str], str], css: str) -> Pages:
    """Make all pages for people; `status` makes the one that needs no script."""

    def report(path: str, error: Exception) -> None:
        runtime.log.error("dashboard_failed", error, path=path)

    return Pages(
        page=status,
        css=css,
        shell={"/": shell(DOSSIER_STYLE), "/assets/{name:path}": asset},
        # The more special paths first: the API's own last one takes all that is left.
        api={path: _Packets(runtime, path) for path in PACKETS} | api(agents, report),
    )


def frame(runtime: Runtime, url: str) -> dict[str, Any]:
    """Return what an overview has beside the agents."""
    return {
        "version": __version__,
        "uptimeSec": round((runtime.clock() - runtime.started_at) / 1000),
        "url": url,
        "services": dict(runtime.services),
        "bookmarks": _bookmarks(runtime),
    }


def _bookmarks(runtime: Runtime) -> dict[str, Any]:
    state = runtime.services.get(BOOKMARKS_LINK)
    if state is None:
        return {"state": "off: no tool has used it yet", "profiles": []}
    from pilothouse.bookmarks.extension.server import ExtensionServer

    link: ExtensionServer | None = runtime.shared.opened(ExtensionServer)
    profiles = link.profiles if link is not None else []
    return {"state": state, "profiles": [profile.peer.name for profile in profiles]}


class _Packets:
    """A path to the history. What it takes is imported with the first request, and not in the loop:
    a hub should not wait for it, nor have it for nothing."""

    def __init__(self, runtime: Runtime, path: str) -> None:
        self._runtime = runtime
        self._path = path
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            views = await asyncio.to_thread(import_module, "pilothouse.wiring.intercept_http")
            self._app = views.packet_views(self._runtime.shared)[self._path]
        await self._app(scope, receive, send)

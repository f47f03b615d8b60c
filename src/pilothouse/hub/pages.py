"""What the hub shows beside MCP, whom it lets in and what it counts. Wiring, for `start.py`
alone."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from pilothouse.hub.ports import Denied, TooMany
from pilothouse.observe.metrics import NAMES as COUNTED_BY_WORKERS
from pilothouse.server.groups import summaries
from pilothouse.server.runtime import too_many
from pilothouse.server.transports.pages import health, health_answer, page_routes

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.ports import Admit, Authenticate, Throttle
    from pilothouse.hub.services.server import Services
    from pilothouse.hub.state import Hub
    from pilothouse.machine.net.http_access import Access
    from pilothouse.machine.net.local_users import Caller
    from pilothouse.server.logs import Log
    from pilothouse.server.metrics import Metrics
    from pilothouse.server.runtime import Runtime
    from pilothouse.server.transports.oauth import BearerAuth

MCP_PATHS = ("/mcp", "/message")
UNAVAILABLE = "no worker can be started; the hub's log says why"
SHOWN = 50
"""Sessions on the status page."""
_COUNTED = {
    "worker_started": "workers_started",
    "worker_died": "workers_died",
    "worker_start_failed": "worker_starts_failed",
}
_WARNINGS = {
    "worker_died",
    "worker_start_failed",
    "parent_refused",
    "control_refused",
    "leftover_ended",
    "worker_ports_open",
    "registry_lost",
    "registry_failed",
    "lease_begun_anew",
}
_METHODS = frozenset({"tools/call", "resources/read", "resources/list", "subscriptions/listen"})


def pages_app(
    runtime: Runtime, hub: Hub, services: Services, gate: BearerAuth | None, base_url: str
) -> ASGIApp:
    """Return the app for everything that the hub serves over HTTP and that is no MCP."""
    from starlette.applications import Starlette

    from pilothouse.dashboard.status_page import CSS, HubFacts, SessionRow, status_page
    from pilothouse.hub.agents import HubShowing
    from pilothouse.wiring.dashboard import frame, pages

    scheme = base_url.partition("://")[0]

    def guarded(app: ASGIApp) -> ASGIApp:
        return app if gate is None else gate.protect(app, MCP_PATHS[0])

    def page(url: str) -> str:
        seats = [seat for _, seat in zip(range(SHOWN), hub.seats(), strict=False)]
        return status_page(
            runtime.listings.values(),
            summaries(runtime.specs),
            sessions=len(hub.registry),
            uptime_sec=(runtime.clock() - runtime.started_at) / 1000,
            # The private socket by which it was asked for knows nothing of TLS.
            url=f"{scheme}://{url.partition('://')[2]}",
            hub=HubFacts(
                rows=[SessionRow(*seat[:-1]) for seat in seats],
                workers=hub.workers,
                memory=hub.pool.memory,
                queued=hub.pool.queued,
                services=dict(runtime.services),
            ),
        )

    showing = HubShowing(hub, services, lambda: frame(runtime, base_url), time.monotonic)
    served = pages(runtime, showing, page, CSS)

    async def check_health(_: Request) -> Response:
        await hub.pool.weigh_new()
        trouble = hub.trouble()
        # A worker's last output is for who may call it; this is served without a token.
        shown = trouble if gate is None else trouble and UNAVAILABLE
        return health_answer(hub_health(runtime, hub), shown, 503)

    routes = page_routes(runtime, served, guarded, check_health)
    return Starlette(routes=routes + (gate.metadata_routes(MCP_PATHS) if gate else []))


def hub_health(runtime: Runtime, hub: Hub) -> dict[str, Any]:
    workers = {
        "running": hub.workers,
        "queued": hub.pool.queued,
        "memory": hub.pool.memory,
    }
    return {**health(runtime), "agents": len(hub.registry), "workers": workers}


def admitter(access: Access) -> Admit:
    """Return the check of who may use a listener that no OAuth server guards."""

    def admit(caller: Caller, head: RequestHead) -> Denied | None:
        authorizations = head.values.get("authorization", ())
        cookies = head.values.get("cookie", ())
        refused = access.judge(caller, head.method, head.target, authorizations, cookies)
        return None if refused is None else Denied(refused.status, refused.body, refused.headers)

    return admit


def authenticator(gate: BearerAuth) -> Authenticate:
    """Return the check that knows callers by their bearer token."""
    from pilothouse.server.transports.oauth import BearerRefused
    from pilothouse.server.transports.principal import name_of

    async def authenticate(head: RequestHead) -> str | Denied:
        path = head.target.partition("?")[0]
        endpoint = path if path in MCP_PATHS else MCP_PATHS[0]
        found = await gate.judge(head.values.get("authorization", ()), endpoint)
        if isinstance(found, BearerRefused):
            return Denied(found.status, json.dumps(found.body).encode(), (found.header,))
        return name_of(found)

    return authenticate


def throttle(runtime: Runtime) -> Throttle:
    """Return the check of how often a principal may call, with errors in the tool's own form."""
    if not runtime.limits.are_on:
        return lambda principal, tool: None
    runtime.registry  # noqa: B018  # imported now, and not while calls wait

    def check(principal: str, tool: str) -> TooMany | None:
        wait = runtime.limits.admit(principal or "local", tool)
        return TooMany(json.dumps(_refusal(runtime, tool, wait)), wait) if wait else None

    return check


def _refusal(runtime: Runtime, name: str, wait: float) -> dict[str, Any]:
    tool = runtime.tool(name)
    if tool is None:  # of a worker that is not ours
        text = f"too many calls in the last minute; wait {wait:.0f} s, then call again"
        return {"content": [{"type": "text", "text": text}], "isError": True}
    answer = too_many(runtime, tool, wait)
    return {
        "content": [{"type": "text", "text": answer.text}],
        "structuredContent": answer.structured,
        "isError": True,
    }


class HubCounts:
    """Log and counts of a hub's workers, and of what passes to them."""

    def __init__(self, metrics: Metrics, log: Log) -> None:
        self._metrics = metrics
        self._log = log
        metrics.describe("workers_started", "Workers that were started")
        metrics.describe("workers_died", "Workers that ended without being asked to")
        metrics.describe("worker_starts_failed", "Workers that could not be started")
        metrics.describe("workers_ended", "Workers that were ended, by the reason")
        metrics.describe("relayed", "Requests that were passed to workers, by their outcome")
        metrics.describe("http_requests", "Requests that came to the HTTP listener")
        for name, help in COUNTED_BY_WORKERS.items():
            metrics.describe(name, help)
        for name in (*_COUNTED.values(), *COUNTED_BY_WORKERS):
            metrics.count(name, 0)
        for why in ("over", "idle", "evicted", "stale", "closing"):
            metrics.count("workers_ended", 0, why=why)
        self._took = metrics.histogram(
            "relayed_duration_seconds",
            "How long requests took that were passed to workers",
            "method",
        )

    def watch(self, hub: Hub) -> None:
        """Have the numbers of this hub shown."""
        metrics = self._metrics
        metrics.gauge("sessions", "Sessions that are known", lambda: len(hub.registry))
        metrics.gauge("workers", "Workers that run", lambda: hub.workers)
        metrics.gauge("workers_queued", "Calls that wait for a worker", lambda: hub.pool.queued)
        metrics.gauge("workers_memory_bytes", "Memory of all workers", lambda: hub.pool.memory)
        metrics.gauge(
            "http_connections", "Connections to the HTTP listener", lambda: len(hub.listener)
        )

        def count_requests() -> None:
            metrics.counters["http_requests", ()] = hub.listener.requests

        metrics.at_scrape(count_requests)

    def happened(self, event: str, **details: Any) -> None:
        self._log.write("warn" if event in _WARNINGS else "info", event, details)
        if event in _COUNTED:
            self._metrics.count(_COUNTED[event])
        elif event == "worker_ended":
            self._metrics.count("workers_ended", why=details["why"])

    def passed(self, method: str, seconds: float, outcome: str) -> None:
        known = method if method in _METHODS else "other"
        self._metrics.counters["relayed", (("method", known), ("outcome", outcome))] += 1
        if method != "subscriptions/listen":  # it lasts for as long as the client likes
            self._took.took(known, seconds * 1000)

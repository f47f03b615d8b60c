"""Every route of a real hub judges Host and Origin, whoever asks and however."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, cast

import pytest
from starlette.routing import Match

from pilothouse.server.transports.pages import page_routes
from pilothouse.wiring.dashboard import pages
from tests.integration.hub.test_listener_guard import HOSTS, ORIGINS, verdict
from tests.support.listener_rig import Raw
from tests.support.production import trusting
from tests.support.servers import PRODUCT, Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.issuer import Issuer

pytestmark = pytest.mark.anyio

UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
PATHS = (
    *("/mcp", "/message", "/mcp/key", "/%6dcp", "/mcp/", "//mcp"),
    *("/", "/health", "/metrics", "/status", "/style.css", "/no/such", "/?x=/mcp"),
    *("/assets/index.js", "/api/overview", "/api/stream", "/api/moment", "/api/body"),
    *("/api/viewport", "/api/file", "/api/packets", "/api/packets/1", "/api/filter", "/api/no"),
    *(f"/.well-known/oauth-protected-resource{path}" for path in ("", "/mcp", "/message")),
)
ROUTES = [
    *(("GET", path) for path in PATHS),
    *(("POST", path) for path in ("/mcp", "/message", "/mcp/key", "/health")),
    *(("DELETE", "/mcp"), ("OPTIONS", "/mcp"), ("OPTIONS", "/health"), ("HEAD", "/")),
]


@pytest.fixture(scope="module")
def hub(issuer: Issuer) -> Iterator[Server]:
    env = {
        **trusting(issuer),
        "PILOTHOUSE_PUBLIC_URL": "https://pilot.example",
        "PILOTHOUSE_ALLOWED_ORIGINS": "https://friend.example",
    }
    with http_server(module=PRODUCT, env=env) as server:
        yield server


def test_all_pages_of_the_hub_are_among_these_routes() -> None:
    nothing = cast("Any", None)
    found = page_routes(nothing, pages(nothing, nothing, str, ""), lambda app: app, nothing)
    for route in found:
        scopes = [{"type": "http", "method": "GET", "path": path} for path in PATHS]
        assert any(route.matches(scope)[0] is Match.FULL for scope in scopes), route.path


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_route_is_open_to_its_own_hosts_and_origins_alone(
    hub: Server, method: str, path: str
) -> None:
    await judged(hub, method, path)


async def test_a_change_to_websocket_is_judged_as_everything_else(hub: Server) -> None:
    for path in ("/", "/mcp", "/events"):
        await judged(hub, "GET", path, *UPGRADE)


async def judged(hub: Server, method: str, path: str, *fields: str) -> None:
    cases = list(itertools.product(HOSTS, ORIGINS))
    assert len(cases) >= 200
    client: Raw | None = None
    for host, origin in cases:
        if client is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
            client = Raw(reader, writer, hub.port)
        expected = verdict(host, origin)
        named = None if host is None else host.replace("PORT", str(hub.port))
        lines = [f"{method} {path} HTTP/1.1", *fields]
        if named is not None:
            lines.append(f"Host: {named}")
        if origin is not None:
            lines.append(f"Origin: {origin.replace('HOST', named or '')}")
        client.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
        got = await client.answer(method)
        told = (method, path, host, origin, got)
        if expected is not None:
            assert got.status == expected, told
        elif not fields:  # a change to WebSocket is refused by the pages, which has none
            assert got.status not in (403, 421), told
        if got.head.first("connection") == "close":
            client.close()
            client = None
    if client is not None:
        client.close()

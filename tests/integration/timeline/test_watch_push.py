"""A watch that fires is pushed, to clients of both eras, on stdio and over HTTP."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.client import Client

from tests.support.hearing import Heard
from tests.support.servers import PRODUCT, http_server, stdio

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(240)]

TRACED = Path(__file__).parents[2] / "support" / "traced_shop.py"
COMMAND = [sys.executable, str(TRACED)]
URI = "pilothouse://watches"
GUARD_S = 60


async def _start(client: Client) -> tuple[dict[str, Any], str]:
    """A session in the shop with a watch, and the resource that tells of it."""
    started = await client.call_tool("startSession", {"command": COMMAND})
    assert not started.is_error, started
    session = {"sessionId": started.structured_content["sessionId"]}
    await client.call_tool("navigate", {"url": "/", **session})
    added = await client.call_tool("watch", {"when": "console.error", **session})
    assert not added.is_error, added
    return session, str(added.structured_content["uri"])


async def _news(client: Client, session: dict[str, Any], result: Any) -> list[dict[str, Any]]:
    """What an answer tells of watches; each is told once, so the one at hand is looked at first."""
    with anyio.fail_after(GUARD_S):
        while True:
            news: list[dict[str, Any]] = (result.meta or {}).get("pilothouse/watches", [])
            if news:
                return news
            result = await client.call_tool("getSessionStatus", session)


@pytest.fixture
def home() -> Iterator[dict[str, str]]:
    # Not tmp_path: Chromium cannot live in a path that long.
    folder = tempfile.mkdtemp(prefix="ph-")
    yield {"PILOTHOUSE_HOME": folder}
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_2025_subscriber_hears_of_a_watch_that_fires(
    over: str, home: dict[str, str]
) -> None:
    heard = Heard()
    options: dict[str, Any] = {"mode": "legacy", "message_handler": heard}
    if over == "stdio":
        async with stdio("--profile", "full", module=PRODUCT, env=home, **options) as client:
            await _subscribed(client, heard)
    else:
        with http_server("--profile", "full", module=PRODUCT, env=home) as server:
            async with Client(f"{server.url}/mcp", **options) as client:
                await _subscribed(client, heard)


async def _subscribed(client: Client, heard: Heard) -> None:
    session, uri = await _start(client)
    await client.subscribe_resource(uri)
    await client.subscribe_resource(URI)
    await client.call_tool("click", {"selector": "#shout", **session})
    await heard.hears(uri)
    await heard.hears(URI)
    content = (await client.read_resource(uri)).contents[0]
    (told,) = json.loads(content.text)["watches"]  # type: ignore[union-attr]
    assert "out of lamps" in str(told)
    await client.call_tool("endSession", session)


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_2026_listener_hears_of_a_watch_that_fires(over: str, home: dict[str, str]) -> None:
    if over == "stdio":
        async with stdio("--profile", "full", module=PRODUCT, env=home) as client:
            await _listening(client)
    else:
        with http_server("--profile", "full", module=PRODUCT, env=home) as server:
            async with Client(f"{server.url}/mcp") as client:
                await _listening(client)


async def _listening(client: Client) -> None:
    session, uri = await _start(client)
    async with client.listen(resource_subscriptions=[uri]) as subscription:
        script = {"script": "setTimeout(() => console.error('out of lamps'), 50)"}
        answer = await client.call_tool("evaluate", {**script, **session})
        with anyio.fail_after(GUARD_S):
            event = await anext(aiter(subscription))
        assert str(getattr(event, "uri", "")) == uri
    (news,) = await _news(client, session, answer)
    assert "out of lamps" in news["first"]["text"]
    await client.call_tool("endSession", session)

"""The extension link as an agent meets it over MCP: its errors, status, events and pushes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pilothouse.core.settings import Settings
from pilothouse.wiring.extension_pairing import pairing_secret
from tests.support.extension_peer import GUARD_S, extension
from tests.support.servers import ERAS, PRODUCT, stdio
from tests.support.until import until

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from mcp.client import Client

pytestmark = pytest.mark.anyio

TREE = "bookmarks://tree"
NODES = [{"id": "0", "title": "", "children": [{"id": "1", "title": "Bar", "children": []}]}]


async def chrome(method: str, params: dict[str, Any]) -> Any:
    return NODES if method == "getTree" else []


class Rig:
    """The product on stdio, with a port of its own for extensions."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.heard: list[str] = []

    def client(self, mode: str = "auto", port: int = 0) -> AbstractAsyncContextManager[Client]:
        env = {"PILOTHOUSE_HOME": str(self.home), "PILOTHOUSE_BOOKMARKS_PORT": str(port)}
        return stdio(
            "--profile", "full", mode=mode, module=PRODUCT, env=env, message_handler=self._hear
        )

    async def _hear(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            self.heard.append(str(message.params.uri))

    @property
    def token(self) -> str:
        return pairing_secret(Settings(home=str(self.home))).value()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def error_of(client: Client) -> dict[str, Any]:
    result = await client.call_tool("bookmark_get_tree", {})
    assert result.is_error
    error: dict[str, Any] = (result.structured_content or {})["error"]
    return error


async def link_state(client: Client) -> str:
    status = await client.call_tool("status", {})
    return str((status.structured_content or {})["services"]["bookmarks link"])


async def port_of(client: Client) -> int:
    """Of the link, which the first call opens."""
    await error_of(client)
    found = re.match(r"ws://127\.0\.0\.1:(\d+), ", await link_state(client))
    assert found
    return int(found.group(1))


async def test_without_a_chrome_every_call_says_how_to_connect_one(rig: Rig) -> None:
    async with rig.client() as client:
        error = await error_of(client)
        assert error["code"] == "EXTENSION_NOT_CONNECTED"
        assert error["message"].startswith("Chrome extension not connected")
        for part in ("extension", "chrome://extensions", "pilothouse pair", "every 30 s"):
            assert part in error["details"]["hint"]
        assert (await link_state(client)).endswith(", connected: no Chrome")


async def test_a_taken_port_turns_the_link_off_and_status_says_so(rig: Rig) -> None:
    async with rig.client() as first:
        port = await port_of(first)
        other = Rig(rig.home / "other")
        async with other.client(port=port) as second:
            error = await error_of(second)
            assert error["code"] == "EXTENSION_NOT_CONNECTED"
            assert f"port {port} is taken by " in error["message"]
            assert (await link_state(second)).startswith(f"off: port {port} is taken by ")


async def timeline_of(client: Client) -> list[dict[str, Any]]:
    content = (await client.read_resource("pilothouse://timeline")).contents[0]
    events: list[dict[str, Any]] = json.loads(content.text)["events"]  # type: ignore[union-attr]
    return [event for event in events if event["event"] == "BookmarksChanged"]


async def test_a_connected_chrome_answers_and_its_events_stand_on_the_timeline(
    rig: Rig,
) -> None:
    async with rig.client() as client:
        port = await port_of(client)
        async with extension(port, rig.token, name="Work", carry_out=chrome) as peer:
            result = await client.call_tool("bookmark_get_tree", {})
            assert not result.is_error, result
            assert (result.structured_content or {})["nodes"][0]["id"] == "0"
            assert (await link_state(client)).endswith(", connected: Work")
            await peer.tell("created", "7", own=True, title="Shop", url="https://a:b@shop.test/")
            (event,) = await until(lambda: timeline_of(client))
            assert (event["change"], event["profile"], event["own"]) == ("created", "Work", True)
            assert "a:b@" not in event["url"]
            (call,) = [call for call in peer.calls if call["method"] == "getTree"]
            assert call["params"] == {}


@pytest.mark.parametrize("era", ERAS)
async def test_subscribers_of_the_tree_hear_of_changes_in_both_eras(rig: Rig, era: str) -> None:
    async with rig.client(era) as client:
        port = await port_of(client)
        async with extension(port, rig.token, carry_out=chrome) as peer:
            if era == "legacy":
                await client.subscribe_resource(TREE)
                await peer.tell("removed", "7")
                await until(lambda: TREE in rig.heard)
            else:
                async with client.listen(resource_subscriptions=[TREE]) as subscription:
                    await peer.tell("removed", "7")
                    with anyio.fail_after(GUARD_S):
                        event = await anext(aiter(subscription))
                    assert str(getattr(event, "uri", "")) == TREE

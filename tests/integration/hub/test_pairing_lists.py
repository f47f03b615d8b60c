"""The list of tools grows when a Chrome is paired, and every client hears of it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from pilothouse.core.settings import Settings
from pilothouse.wiring.extension_pairing import pairing_secret
from tests.support.agent import Agent
from tests.support.extension_peer import extension
from tests.support.http_agent import HttpAgent, told
from tests.support.relaying import Home, relay_home
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHANGED = "notifications/tools/list_changed"
LINK = "bookmarks link"
pytestmark = pytest.mark.anyio


def names(agent: Agent) -> set[str]:
    return {tool["name"] for tool in agent.request("tools/list", id=77)["result"]["tools"]}


def refusal(agent: Agent, tool: str) -> str:
    error: str = agent.answer(agent.begin(tool))["error"]["message"]
    return error


def hear(agent: Agent) -> None:
    """Wait until the agent hears of another list."""
    while agent.receive().get("method") != CHANGED:
        pass


def opened(services: Callable[[], dict[str, str]]) -> int:
    """Wait until the extension's port is open; return it."""
    wait_until(lambda: services().get(LINK, "").startswith("ws://"), "an open link")
    return int(services()[LINK].partition(",")[0].rpartition(":")[2])


def code(folder: Path) -> str:
    """Make the pairing code, as `pilothouse pair` does."""
    return pairing_secret(Settings(home=str(folder))).value()


async def test_without_a_hub_the_list_grows_with_a_paired_chrome(place: Any) -> None:
    folder = place.root / "h"
    with Agent("--standalone", env={"PILOTHOUSE_HOME": str(folder)}) as agent:
        assert agent.initialize()["result"]["capabilities"]["tools"] == {"listChanged": True}
        before = names(agent)
        assert not {name for name in before if name.startswith("bookmark_")}
        assert {"selectOption", "uploadFile", "drag", "pressKey", "hover", "fillForm"} <= before
        for tool in ("bookmark_add", "bookmark_batch"):
            assert "`pilothouse pair`" in refusal(agent, tool)
        for tool in ("bookmark_batch", "pdf"):
            assert "`pilothouse --profile full`" in refusal(agent, tool)
        assert "Unknown tool" in refusal(agent, "bookmark_sing")
        token = code(folder)
        port = await anyio.to_thread.run_sync(opened, lambda: agent.call("status")["services"])
        async with extension(port, token):
            await anyio.to_thread.run_sync(hear, agent)
            assert names(agent) - before >= {"bookmark_add", "bookmark_search"}
    # It is remembered: the next one has them from the start.
    with Agent("--standalone", env={"PILOTHOUSE_HOME": str(folder)}) as agent:
        assert "bookmark_add" in names(agent)


async def test_relays_and_http_clients_hear_of_it_with_and_without_a_worker(
    sockets: Path, mark: str
) -> None:
    with relay_home(sockets, mark) as home, ExitStack() as stack:
        idle, busy = (stack.enter_context(home.agent()) for _ in range(2))
        alone = stack.enter_context(home.agent("--tools", "e2e"))
        assert "`pilothouse pair`" in refusal(busy, "bookmark_add")
        assert "bookmark_add" not in names(idle) | names(busy) | names(alone)
        assert "`pilothouse --tools observe,e2e`" in refusal(alone, "cdp_observe")
        assert len(home.workers()) == 2
        status = home.status()
        assert status is not None
        http = HttpAgent(status["url"]).open()
        asked = {"mcp-session-id": http.session, "accept": "text/event-stream"}
        token = code(home.folder)
        port = await anyio.to_thread.run_sync(opened, lambda: _services(home))
        with http.http.stream("GET", "/mcp", headers=asked) as stream:
            async with extension(port, token):
                for agent in (idle, busy):
                    await anyio.to_thread.run_sync(hear, agent)
                    assert "bookmark_add" in names(agent)
                await anyio.to_thread.run_sync(_hear_stream, stream)
                listed = told(http.post("tools/list"))["result"]["tools"]
                assert "bookmark_add" in {tool["name"] for tool in listed}
        assert "bookmark_add" not in names(alone)
        assert len(home.workers()) == 2  # nobody needed one to hear of it
        with home.agent() as late:
            assert "bookmark_add" in names(late)


def _services(home: Home) -> dict[str, str]:
    status = home.status()
    assert status is not None
    services: dict[str, str] = status["services"]
    return services


def _hear_stream(stream: Any) -> None:
    for line in stream.iter_lines():
        if line.startswith("data: {") and json.loads(line[6:]).get("method") == CHANGED:
            return
    raise AssertionError("the stream ended")

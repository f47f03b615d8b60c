"""`pilothouse bookmarks` beside a hub: the user's Chrome is connected to the hub, so this joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from pilothouse.core.settings import Settings
from pilothouse.wiring.extension_pairing import pairing_secret
from tests.support.bookmarking import carried_out_by
from tests.support.chrome_bookmarks import BAR, ChromeBookmarks
from tests.support.extension_peer import extension
from tests.support.relaying import Home, relay_home
from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.agent import Agent

LINK = "bookmarks link"
pytestmark = pytest.mark.anyio


def names(agent: Agent) -> set[str]:
    return {tool["name"] for tool in agent.request("tools/list", id=77)["result"]["tools"]}


def services(home: Home) -> dict[str, Any]:
    status = home.status() or {"services": {}}
    return dict(status["services"])


def link_port(home: Home) -> int:
    """Wait until the hub waits for an extension; return where."""
    wait_until(lambda: services(home).get(LINK, "").startswith("ws://"), "an open link")
    return int(services(home)[LINK].partition(",")[0].rpartition(":")[2])


async def test_it_joins_a_hub_that_runs_and_serves_alone_without_one(
    sockets: Path, mark: str
) -> None:
    with relay_home(sockets, mark) as home:
        with home.agent("bookmarks") as alone:
            assert alone.fault("bookmark_get", id=BAR)["code"] == "EXTENSION_NOT_CONNECTED"
            served = names(alone)
        assert home.status() is None
        token = pairing_secret(Settings(home=str(home.folder))).value()
        chrome = ChromeBookmarks()
        with home.agent():
            port = await anyio.to_thread.run_sync(link_port, home)
            async with extension(port, token, carry_out=carried_out_by(chrome)):
                with home.agent("bookmarks") as joined:
                    assert names(joined) == served
                    added = {"parentId": BAR, "title": "one", "url": "https://one.example/"}
                    await anyio.to_thread.run_sync(lambda: joined.call("bookmark_add", **added))
                    assert len(home.workers()) == 1
        assert [child[0] for child in chrome.shape(BAR)[1]] == ["one"]


async def test_it_serves_alone_beside_a_hub_of_other_workers(sockets: Path, mark: str) -> None:
    with relay_home(sockets, mark) as home, home.raw(PILOTHOUSE_WORKER="stdio:/nowhere") as relay:
        relay.request("initialize", {}, id=1)
        assert home.status()
        with home.agent("bookmarks") as alone:
            assert alone.fault("bookmark_get", id=BAR)["code"] == "EXTENSION_NOT_CONNECTED"

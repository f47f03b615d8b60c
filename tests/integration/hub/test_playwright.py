"""The real @playwright/mcp as a worker."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.hub.http.client import post
from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.workers import StartFailed
from pilothouse.hub.workers.playwright import LISTENING
from tests.support.listener_rig import hello
from tests.support.living import living
from tests.support.peers import installed, playwright
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.hub.workers import Running
    from pilothouse.hub.workers.playwright import PlaywrightMcp

pytestmark = pytest.mark.anyio

START_S = 60.0
HELLO = hello()["params"]


@pytest.fixture
async def kind(mark: str, tmp_path: Path) -> AsyncIterator[PlaywrightMcp]:
    mine = playwright(mark, tmp_path)
    await mine.prepare()
    yield mine
    await mine.close()
    await until(lambda: living(mark) == [])
    assert os.listdir(tmp_path) == []


async def started(kind: PlaywrightMcp, name: str) -> Running:
    key = Key("session", name)
    return await kind.start(key, SessionRecord(name, key, "2025", 0.0, 0.0), START_S)


class Driver:
    """A session with a worker."""

    def __init__(self, worker: Running, session: str) -> None:
        self._worker = worker
        self._headers = {"Mcp-Session-Id": session}

    @classmethod
    async def meet(cls, worker: Running) -> Driver:
        driver = cls(worker, (await post(worker.address, "initialize", HELLO)).session)
        await post(worker.address, "notifications/initialized", headers=driver._headers)
        return driver

    async def call(self, tool: str, **arguments: Any) -> str:
        params = {"name": tool, "arguments": arguments}
        told = await post(self._worker.address, "tools/call", params, self._headers, START_S)
        text: str = told.body["result"]["content"][0]["text"]
        return text


@installed
@pytest.mark.browser
async def test_two_at_once_never_see_each_other_s_page(kind: PlaywrightMcp) -> None:
    workers = await asyncio.gather(*(started(kind, name) for name in ("left", "right")))
    assert workers[0].address.port != workers[1].address.port

    async def browse(worker: Running, name: str) -> list[str]:
        driver = await Driver.meet(worker)
        await driver.call("browser_navigate", url=f"data:text/html,<title>{name}</title>")
        return [await driver.call("browser_snapshot") for _ in range(5)]

    seen = await asyncio.gather(*map(browse, workers, ("left", "right")))
    for name, other, texts in (("left", "right", seen[0]), ("right", "left", seen[1])):
        assert all(f"Page Title: {name}" in text for text in texts)
        assert not any(other in text for text in texts)


@installed
@pytest.mark.browser
async def test_one_that_is_killed_takes_its_browser_along(kind: PlaywrightMcp, mark: str) -> None:
    worker = await started(kind, "a")
    await (await Driver.meet(worker)).call("browser_navigate", url="data:text/html,hi")
    assert len(living(mark)) > 2
    os.kill(worker.pid, signal.SIGKILL)
    await asyncio.wait_for(worker.died, START_S)
    assert living(mark) == []


@installed
@pytest.mark.usefixtures("unhurried")
async def test_its_template_is_that_of_the_handshake_era(kind: PlaywrightMcp) -> None:
    template = await kind.template()
    tools = {tool["name"] for tool in template.handshake["tools/list"]["tools"]}
    assert "browser_navigate" in tools
    assert template.modern == {}


async def test_without_the_package_it_is_said_how_to_get_it(mark: str, tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"npm install -g @playwright/mcp"):
        await playwright(mark, tmp_path, tmp_path).prepare()


@pytest.mark.parametrize(
    ("line", "port"),
    [
        ("Listening on http://localhost:31245", "31245"),
        ('      "url": "http://localhost:31245/mcp"', None),
        ("see Listening on http://localhost:1 for more", None),
    ],
)
def test_its_port_is_read_from_the_one_line_that_says_it(line: str, port: str | None) -> None:
    found = re.search(LISTENING, line)
    assert (found and found[2]) == port

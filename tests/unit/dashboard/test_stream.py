"""What an open page is sent, and that nothing is asked any more once it is closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from pilothouse.dashboard import stream as streaming
from pilothouse.dashboard.ports import RowBatch, no_such_agent
from pilothouse.dashboard.stream import PageStream, steady

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Message

pytestmark = pytest.mark.anyio
GUARD_S = 30.0


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "OVERVIEW_S", 0.02)


class Page:
    """A page that is open until it is closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.told: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.status = 0

    async def receive(self) -> Message:
        await self.closed.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        event, data = message["body"].decode().rstrip("\n").split("\n", 1)
        assert message["body"].endswith(b"\n\n")
        told = orjson.loads(data.removeprefix("data: "))
        self.told.put_nowait((event.removeprefix("event: "), told))

    async def next(self, event: str) -> Any:
        async with asyncio.timeout(GUARD_S):
            while True:
                name, told = await self.told.get()
                if name == event:
                    return told


class Agents:
    """One agent, whose rows come when they are given."""

    def __init__(self) -> None:
        self.state = "live"
        self.idle = 0
        self.asked: list[str] = []
        self.batches: asyncio.Queue[RowBatch | None] = asyncio.Queue()
        self.waiting = 0

    async def overview(self) -> dict[str, Any]:
        self.idle += 1
        return {"sessions": [{"id": "a", "state": self.state, "idleSec": self.idle}]}

    async def rows(self, agent: str, cursor: str) -> RowBatch:
        self.asked.append(cursor)
        self.waiting += 1
        try:
            batch = await self.batches.get()
        finally:
            self.waiting -= 1
        if batch is None:
            raise no_such_agent(agent)
        return batch

    def give(self, number: int) -> None:
        packed = orjson.dumps({"rows": [number], "cursor": str(number), "missed": {}})
        self.batches.put_nowait(RowBatch(packed, str(number)))


async def opened(agents: Agents, use: Callable[[Page], Any], agent: str = "a") -> Page:
    page = Page()
    stream = PageStream(agents.overview, agents.rows, agent, "")
    serving = asyncio.create_task(stream.serve(page.receive, page.send))
    await use(page)
    page.closed.set()
    async with asyncio.timeout(GUARD_S):
        await serving
    return page


async def test_rows_follow_each_other_by_their_cursors_and_a_closed_page_asks_no_more() -> None:
    agents = Agents()
    agents.give(1)
    agents.give(2)

    async def use(page: Page) -> None:
        assert (await page.next("rows"))["rows"] == [1]
        assert (await page.next("rows"))["rows"] == [2]

    page = await opened(agents, use)
    assert page.status == 200
    assert agents.asked[:2] == ["", "1"]
    assert agents.waiting == 0
    asked = len(agents.asked)
    agents.give(3)
    await asyncio.sleep(0)
    assert len(agents.asked) == asked


async def test_an_overview_is_told_again_only_when_there_is_news() -> None:
    agents = Agents()

    async def use(page: Page) -> None:
        assert (await page.next("overview"))["sessions"][0]["state"] == "live"
        looks = agents.idle
        while agents.idle < looks + 2:  # noqa: ASYNC110  # it is asked for by the stream alone
            await asyncio.sleep(0.01)
        assert page.told.empty()
        agents.state = "known"
        assert (await page.next("overview"))["sessions"][0]["state"] == "known"

    await opened(agents, use, agent="")
    assert agents.asked == []


@pytest.mark.parametrize("how", ["lost", "listed no more"])
async def test_an_agent_that_is_gone_is_told_once_and_the_page_stays_open(how: str) -> None:
    agents = Agents()

    async def use(page: Page) -> None:
        await page.next("overview")
        if how == "lost":
            agents.batches.put_nowait(None)
        else:
            agents.state = "known"
        assert await page.next("gone") == {"agent": "a"}
        agents.state = "ended"
        while (await page.next("overview"))["sessions"][0]["state"] != "ended":
            pass
        assert page.told.empty()

    await opened(agents, use)
    assert agents.waiting == 0


def test_what_changes_by_itself_is_no_news() -> None:
    before = {"uptimeSec": 1, "sessions": [{"id": "a", "idleSec": 3, "memory": 100 << 20}]}
    after = {"uptimeSec": 9, "sessions": [{"id": "a", "idleSec": 4, "memory": (100 << 20) + 5}]}
    assert steady(before) == steady(after)
    more = {"uptimeSec": 9, "sessions": [{"id": "a", "idleSec": 4, "memory": 120 << 20}]}
    assert steady(before) != steady(more)
    assert steady(before) != steady({**before, "sessions": []})

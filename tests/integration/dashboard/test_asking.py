"""Workers are asked by their hub only while somebody waits for the answer."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.settings import Settings
from pilothouse.core.timeline.events import ToolInvoked
from pilothouse.dashboard.ports import NoSuchAgent, NoSuchThing
from pilothouse.hub.agents import HubShowing
from pilothouse.hub.services.client import ServiceLink
from pilothouse.hub.services.server import open_services
from pilothouse.hub.state import Seat
from pilothouse.server.runtime import open_runtime
from pilothouse.wiring import standalone
from pilothouse.wiring.agents import Showing
from pilothouse.wiring.groups import GROUP_SPECS
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.server.runtime import Runtime

pytestmark = pytest.mark.anyio
GUARD_S = 30.0


@asynccontextmanager
async def hub_and_worker(folder: Path) -> AsyncIterator[tuple[HubShowing, Runtime, ServiceLink]]:
    """Both in this process, with a real socket between them."""
    settings = Settings(home=str(folder), log_level="error")
    redactor = standalone.make_redactor(settings)
    log = standalone.make_log(settings, redactor)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        runtime = await enter(open_runtime(GROUP_SPECS, settings, redactor, log))
        services = await enter(open_services(runtime, folder / "door"))
        link = ServiceLink("relay-1", lambda do, error: None)
        worker = await enter(open_runtime(GROUP_SPECS, settings, redactor, log, link))
        link.show = Showing(worker).answer
        await link.join(str(folder / "door"), worker)
        seats = [Seat("stdio 1", "test", 0.0, pid=1, id="relay-1")]
        hub: Any = SimpleNamespace(seats=lambda: iter(seats))
        yield HubShowing(hub, services, dict, time.monotonic), worker, link
        link.leave()


def rows_of(batch: Any) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", orjson.loads(batch.packed)["rows"])


async def test_an_agent_is_asked_for_rows_only_while_somebody_waits_for_them(
    tmp_path: Path,
) -> None:
    async with hub_and_worker(tmp_path) as (hub, worker, _):
        session = worker.sessions.get("stdio")
        first = await hub.rows("relay-1", "")
        assert [row["id"] for row in rows_of(first)] == ["session:0"]
        asking = asyncio.create_task(hub.rows("relay-1", first.cursor))
        await until(lambda: session.timeline._waiting)
        session.timeline.emit(ToolInvoked(at=worker.clock(), tool="status", duration_ms=1.0))
        second = await asyncio.wait_for(asking, GUARD_S)
        assert [row["id"] for row in rows_of(second)] == ["calls:0"]
        again = asyncio.create_task(hub.rows("relay-1", second.cursor))
        await until(lambda: session.timeline._waiting)
        again.cancel()
        await until(lambda: not session.timeline._waiting)


async def test_ten_thousand_rows_come_in_pages_without_a_dropped_one(tmp_path: Path) -> None:
    async with hub_and_worker(tmp_path) as (hub, worker, _):
        session = worker.sessions.get("stdio")
        session.timeline._capacities["calls"] = 10_000
        for number in range(10_500):
            event = ToolInvoked(at=worker.clock(), tool=f"t{number}", duration_ms=1.0)
            session.timeline.emit(event)
        cursor, ids, missed = "", list[str](), dict[str, int]()
        while len(ids) < 10_001:
            batch = await hub.rows("relay-1", cursor)
            rows = rows_of(batch)
            assert len(rows) <= 2_000
            ids += [row["id"] for row in rows]
            missed |= orjson.loads(batch.packed)["missed"]
            cursor = batch.cursor
        assert ids == ["session:0", *(f"calls:{n}" for n in range(500, 10_500))]
        assert missed == {"calls": 500}


async def test_faults_come_over_the_line_as_what_they_are(tmp_path: Path) -> None:
    async with hub_and_worker(tmp_path) as (hub, worker, link):
        worker.sessions.get("stdio")
        with pytest.raises(NoSuchThing):
            await hub.moment("relay-1", "step:0")
        with pytest.raises(InvalidInput):
            await hub.rows("relay-1", "zzz")
        for agent in ("relay-2", "relay-1~nobody", ""):
            with pytest.raises(NoSuchAgent):
                await hub.moment(agent, "step:0")
        asking = asyncio.create_task(hub.rows("relay-1", (await hub.rows("relay-1", "")).cursor))
        await asyncio.sleep(0)
        link.leave()
        with pytest.raises(NoSuchAgent):
            await asyncio.wait_for(asking, GUARD_S)


async def test_a_further_session_in_a_worker_is_an_agent_of_its_own(tmp_path: Path) -> None:
    async with hub_and_worker(tmp_path) as (hub, worker, _):
        worker.sessions.get("stdio")
        worker.sessions.get("local")
        listed = (await hub.overview())["sessions"]
        assert [one["id"] for one in listed] == ["relay-1", "relay-1~local"]
        assert {one["state"] for one in listed} == {"live"}
        assert rows_of(await hub.rows("relay-1~local", ""))[0]["id"] == "session:0"

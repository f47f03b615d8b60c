"""Many sessions at once on a real hub, and hubs that are killed in the midst of it.

The first is the third scenario of the gateway's test plan.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from pilothouse.machine import processes
from tests.support.http_agent import HttpAgent
from tests.support.living import living
from tests.support.rounds import ROUNDS
from tests.support.servers import PRODUCT, http_server
from tests.support.until import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

SESSIONS = min(100, 3 * ROUNDS)
MOST_BYTES = 800 << 20
"""Of a hub with a hundred live workers."""
GONE_S = 30.0
"""A guard: it is less than two seconds in fact."""
READY_S = 60.0


async def test_many_sessions_at_once_have_a_worker_each_without_an_error(mark: str) -> None:
    with http_server(module=PRODUCT, env={"LC_MARK": mark}) as hub:

        def meet(_: int) -> tuple[HttpAgent, str]:
            agent = HttpAgent(hub.url).open()
            result = agent.call("status")
            assert not result["isError"]
            return agent, result["structuredContent"]["sessionId"]

        with ThreadPoolExecutor(SESSIONS) as pool:
            met = list(pool.map(meet, range(SESSIONS)))
            assert len({session for _, session in met}) == SESSIONS
            assert running(hub) == SESSIONS
            used = await processes.memory([hub.process.pid])
            assert used[hub.process.pid] < MOST_BYTES
            # Each is still there, and its own.
            again = pool.map(lambda agent: agent.call("status")["structuredContent"], dict(met))
            assert [one["sessionId"] for one in again] == [session for _, session in met]
            assert set(pool.map(HttpAgent.end, dict(met))) == {200}
        await until(lambda: running(hub) == 0)


def running(hub: Server) -> int:
    """How many workers there are."""
    workers: int = httpx.get(f"{hub.url}/health").json()["workers"]["running"]
    return workers


@pytest.mark.leaves_files  # what was killed cannot tidy up; the next hub of its home does
@pytest.mark.usefixtures("real_processes")
async def test_nothing_outlives_a_hub_that_is_killed_and_the_next_one_serves(
    mark: str, tmp_path: Path
) -> None:
    env = {"LC_MARK": mark, "PILOTHOUSE_HOME": str(tmp_path)}
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        with http_server(module=PRODUCT, env=env) as hub:
            busy = [asyncio.create_task(asyncio.to_thread(keep_busy, hub)) for _ in range(3)]
            await asyncio.sleep(chance.uniform(0, 3))
            os.kill(hub.process.pid, signal.SIGKILL)
            hub.process.wait(GONE_S)
            await until(lambda: living(mark) == [], GONE_S)
            await asyncio.wait(busy)
    with http_server(module=PRODUCT, env=env) as hub:
        assert not HttpAgent(hub.url).open().call("status")["isError"]
        assert len(journals_in(tmp_path)) == 1, "those of hubs before it are cleared away"


def journals_in(home: Path) -> list[Path]:
    return list(home.rglob("*.journal"))


def keep_busy(hub: Server) -> None:
    """Come and go until the hub is gone."""
    with suppress(httpx.TransportError):
        while True:
            agent = HttpAgent(hub.url).open()
            for _ in range(3):
                agent.call("status")
            agent.end()

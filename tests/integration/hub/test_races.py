"""Many at once, and bad moments: initialize, the end of an idle worker, of a session, of a process.

Whatever happens to a worker, its client gets an answer: of the worker, or one that says what became
of it. Nobody waits for ever, and nothing stays behind.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.hub.mcp.template import builtin_template
from pilothouse.hub.notices import LOST, RESET
from pilothouse.hub.workers.capacity import WorkerLimits
from pilothouse.server.groups import MANIFEST
from tests.support.forking import PRODUCT, forking
from tests.support.hub_rig import hub
from tests.support.listener_rig import call, hello, modern
from tests.support.living import living, workers
from tests.support.rounds import ROUNDS
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.hub.workers.pool import Pool
    from tests.support.listener_rig import Got, Raw, Rig

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

RACES = 20 * ROUNDS
SIDE_BY_SIDE = 4
AT_ONCE = 100
"""Clients that initialize in the same moment."""
GUARD_S = 60.0
NOW = WorkerLimits(idle_s=0.0, start_s=GUARD_S)
"""Whoever is idle has been so for too long."""


@asynccontextmanager
async def product(
    sockets: Path, mark: str, home: Path, limits: WorkerLimits
) -> AsyncIterator[Rig[Pool]]:
    """A hub with our own server as its workers. What it culls, the test decides."""
    async with forking(sockets, mark, PRODUCT, home=str(home)) as kind:
        await kind.prepare()
        template = builtin_template(json.loads(MANIFEST.read_text()), lambda listing: True)
        async with hub(kind, limits, template) as rig:
            yield rig
    await until(lambda: living(mark) == [])


class Agent:
    """A 2025-era session."""

    def __init__(self, rig: Rig[Pool], client: Raw, session: str) -> None:
        self.rig = rig
        self._client = client
        self.session = f"Mcp-Session-Id: {session}"

    @classmethod
    async def meet(cls, rig: Rig[Pool]) -> Agent:
        client = await rig.connect()
        return cls(rig, client, await client.initialize())

    async def call(self) -> Got:
        """A call that takes a worker a moment."""
        if self._client.writer.is_closing():
            self._client = await self.rig.connect()
        async with asyncio.timeout(GUARD_S):
            self._client.post(call("status"), self.session)
            return await self._client.answer()

    async def delete(self) -> Got:
        client = await self.rig.connect()
        client.request("DELETE", "/mcp", self.session)
        got = await client.answer()
        client.close()
        return got


def is_served(got: Got) -> bool:
    return got.status == 200 and got.json.get("result", {"isError": True})["isError"] is False


async def test_a_hundred_who_initialize_at_once_get_a_session_each_and_start_nothing(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    async with product(sockets, mark, tmp_path, WorkerLimits()) as rig:
        alive = len(living(mark))
        clients = await asyncio.gather(*(rig.connect() for _ in range(AT_ONCE)))
        for client in clients:
            client.post(hello())
        answers = await asyncio.gather(*(client.answer() for client in clients))
        assert {got.status for got in answers} == {200}
        assert len({got.head.first("mcp-session-id") for got in answers}) == AT_ONCE
        assert len(rig.registry) == AT_ONCE
        assert len(living(mark)) == alive


async def test_a_call_that_meets_the_end_of_its_idle_worker_is_served(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    async with product(sockets, mark, tmp_path, NOW) as rig:
        told = 0

        async def race(agent: Agent, seed: int) -> None:
            nonlocal told
            chance = random.Random(seed)
            for _ in range(RACES // SIDE_BY_SIDE):
                ending = asyncio.create_task(_after(chance.uniform(0, 0.01), rig.crew.cull))
                await asyncio.sleep(chance.uniform(0, 0.01))
                got = await agent.call()
                assert is_served(got), f"seed {seed}: {got}"
                told += RESET in str(got.json["result"]["content"])
                await ending

        agents = [await Agent.meet(rig) for _ in range(SIDE_BY_SIDE)]
        await asyncio.gather(*map(race, agents, range(SIDE_BY_SIDE)))
        assert told > RACES // 10, "hardly a worker was ended: this was no race"


async def test_a_call_that_meets_the_end_of_its_session_is_served_or_not_found(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    async with product(sockets, mark, tmp_path, NOW) as rig:

        async def race(seed: int) -> None:
            chance = random.Random(seed)
            agent = await Agent.meet(rig)
            if chance.random() < 0.5:
                await agent.call()
            ending = asyncio.create_task(_after(chance.uniform(0, 0.1), agent.delete))
            while not ending.done():
                got = await agent.call()
                # An answer that had begun may end without the message that nobody wants now.
                was_cut = got.status == 200 and (b"data: {" not in got.body or tells_of_loss(got))
                assert got.status == 404 or was_cut or is_served(got), f"seed {seed}: {got}"
            assert (await ending).status == 200
            assert (await agent.call()).status == 404

        for first in range(0, RACES, SIDE_BY_SIDE):
            await asyncio.gather(*map(race, range(first, first + SIDE_BY_SIDE)))
        await until(lambda: list(rig.crew.entries()) == [])


async def test_whoever_s_worker_is_killed_is_told_so_and_served_again(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    async with product(sockets, mark, tmp_path, WorkerLimits(start_s=GUARD_S)) as rig:

        async def suffer(seed: int) -> None:
            chance = random.Random(seed)
            agent = await Agent.meet(rig)
            if chance.random() < 0.7:  # else it may be killed while it starts
                got = await agent.call()
                assert is_served(got) or tells_of_loss(got), f"seed {seed}: {got}"
            killing = asyncio.create_task(_kill_one(mark, chance))
            while not killing.done():
                got = await agent.call()
                assert is_served(got) or tells_of_loss(got), f"seed {seed}: {got}"
            await killing
            async with asyncio.timeout(GUARD_S):
                while not is_served(got := await agent.call()):
                    assert tells_of_loss(got), f"seed {seed}: {got}"
                    # Workers that keep dying are given a rest; it is said for how long.
                    await asyncio.sleep(float(got.head.first("retry-after") or 0))
            assert (await agent.delete()).status == 200

        for first in range(0, ROUNDS * SIDE_BY_SIDE, SIDE_BY_SIDE):
            await asyncio.gather(*map(suffer, range(first, first + SIDE_BY_SIDE)))


async def _kill_one(mark: str, chance: random.Random) -> None:
    """Any worker, at any moment of its life, as a machine without memory does."""
    await asyncio.sleep(chance.uniform(0, 0.2))
    with suppress(psutil.NoSuchProcess, IndexError):
        chance.choice(workers(mark)).kill()


def tells_of_loss(got: Got) -> bool:
    if got.status == 200:
        return not got.whole or LOST in str(got.json.get("error"))
    return got.status in (502, 503) and "error" in got.json


async def _after(delay: float, act: Any) -> Any:
    await asyncio.sleep(delay)
    return await act()


async def test_2026_callers_of_one_worker_at_once_start_it_once(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    async with product(sockets, mark, tmp_path, WorkerLimits(start_s=GUARD_S)) as rig:
        clients = await asyncio.gather(*(rig.connect() for _ in range(20)))
        message, fields = modern(call("status"))
        for number, client in enumerate(clients):
            client.post(message, *fields, path=f"/mcp/{number % 2}")
        answers = await asyncio.gather(*(client.answer() for client in clients))
        assert all(map(is_served, answers))
        assert len(list(rig.crew.entries())) == 2

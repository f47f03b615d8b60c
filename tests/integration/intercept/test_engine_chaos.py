"""The engine killed at any moment: what it had told of is in the file, and it comes back."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from pilothouse.intercept.model import EngineUnreachable
from tests.support.engine_rig import GUARD_S, Rig, configuration, running_engine
from tests.support.ports import free_port
from tests.support.rounds import ROUNDS
from tests.support.upstreams import http_upstream

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.intercept.engine_process import Ask

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

CLIENTS = 4


@pytest.mark.timeout(60 + 10 * ROUNDS)
async def test_no_packet_is_lost_that_was_told_of(tmp_path: Path) -> None:
    port = free_port()

    async def apply(ask: Ask) -> None:
        await ask("configure", within=GUARD_S, config=configuration(listen=[{"port": port}]))

    async with running_engine(tmp_path, on_start=apply) as rig, http_upstream() as server:
        url = f"http://{server.address}/bytes/500"
        for _ in range(ROUNDS):
            start = len(rig.events)
            asking = [asyncio.create_task(keep_asking(rig, port, url)) for _ in range(CLIENTS)]
            await told_since(rig, start)
            await asyncio.sleep(random.uniform(0, 0.1))  # the moment is what is varied here
            assert rig.engine.pid
            os.kill(rig.engine.pid, signal.SIGKILL)
            await asyncio.gather(*asking)
            with suppress(EngineUnreachable):  # its death may be noticed only by this question
                await rig.ask("ping")
            recorded = {row["id"] for row in await rig.packets()}
            told = {row["id"] for event in rig.events for row in event.get("rows", ())}
            assert told <= recorded
            assert sound(tmp_path / "history.db")
            assert (await rig.ask("state"))["listeners"][0]["running"] is True


async def keep_asking(rig: Rig, port: int, url: str) -> None:
    """Until the proxy is gone."""
    with suppress(httpx.HTTPError):
        async with rig.client(port) as client:
            while True:
                await client.get(url)


async def told_since(rig: Rig, start: int) -> None:
    await rig.event(lambda event: event in rig.events[start:] and event["event"] == "recorded")


def sound(path: Path) -> bool:
    with sqlite3.connect(path) as file:
        answer = file.execute("PRAGMA integrity_check").fetchone()[0]
    file.close()
    return bool(answer == "ok")

"""Two hubs of one Redis, with real workers: to a client they are one."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack, asynccontextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from pilothouse.hub.notices import RESET
from tests.support.http_agent import HttpAgent
from tests.support.living import living
from tests.support.redis import PASSWORD, redis_server
from tests.support.relaying import relay_home
from tests.support.servers import ERAS, PRODUCT, http_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from tests.support.redis import RedisServer
    from tests.support.servers import Server

pytestmark = pytest.mark.anyio


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with redis_server(tmp_path) as server:
        yield server


@asynccontextmanager
async def two_hubs(redis: RedisServer) -> AsyncIterator[list[Server]]:
    env = {"PILOTHOUSE_REGISTRY": redis.url}
    with ExitStack() as stack:
        starting = [
            asyncio.to_thread(stack.enter_context, http_server(module=PRODUCT, env=env))
            for _ in range(2)
        ]
        opened = await asyncio.gather(*starting)
        yield opened
    for hub in opened:
        said = "\n".join(hub.lines)
        assert PASSWORD not in said
        assert PASSWORD.replace(" ", "%20") not in said


class Alternating(httpx2.AsyncHTTPTransport):
    """Sends each request to the next hub."""

    def __init__(self, ports: Iterable[int]) -> None:
        super().__init__()
        self._ports = cycle(ports)
        self.asked: list[int] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        port = next(self._ports)
        self.asked.append(port)
        request.url = request.url.copy_with(port=port)
        request.headers["host"] = f"127.0.0.1:{port}"
        return await super().handle_async_request(request)


async def test_a_client_of_either_era_that_alternates_between_hubs_has_one_session(
    redis: RedisServer,
) -> None:
    async with two_hubs(redis) as hubs:
        for era in ERAS:
            await use_both(hubs, era)


async def use_both(hubs: list[Server], era: Any) -> None:
    transport = Alternating(hub.port for hub in hubs)
    async with (
        httpx2.AsyncClient(transport=transport, timeout=60) as http,
        Client(streamable_http_client(f"{hubs[0].url}/mcp", http_client=http), mode=era) as one,
    ):
        assert (await one.list_tools()).tools
        results = [await one.call_tool("status", {}) for _ in range(6)]
    seen = {(result.structured_content or {})["sessionId"] for result in results}
    assert len(seen) == 1
    assert RESET not in str(results)
    assert {transport.asked.count(hub.port) >= 3 for hub in hubs} == {True}


@pytest.mark.leaves_files  # what was killed cannot tidy up; the next hub of its home does
async def test_a_session_goes_on_when_its_hub_leaves_or_is_killed(redis: RedisServer) -> None:
    async with two_hubs(redis) as hubs:
        agents = [HttpAgent(hub.url) for hub in hubs]
        agents[0].open()
        agents[1].session = agents[0].session
        first = agents[1].call("status")
        assert RESET not in str(first)
        hubs[0].process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(hubs[0].process.wait, 60)
        second = agents[1].call("status")
        assert RESET in str(second)
        assert RESET not in str(agents[1].call("status"))
        with http_server(module=PRODUCT, env={"PILOTHOUSE_REGISTRY": redis.url}) as third:
            agent = HttpAgent(third.url)
            agent.session = agents[0].session
            assert RESET not in str(agent.call("status"))  # the second hub serves it
            os.kill(hubs[1].process.pid, signal.SIGKILL)
            await asyncio.to_thread(hubs[1].process.wait, 60)
            assert RESET in str(await asyncio.to_thread(agent.call, "status"))


async def test_the_password_stands_on_no_command_line_of_a_hub_that_a_relay_starts(
    redis: RedisServer, sockets: Path, mark: str
) -> None:
    def commands() -> str:
        env = {"PILOTHOUSE_REGISTRY": redis.url}
        with relay_home(sockets, mark) as home, home.agent(**env) as one:
            one.call("status")
            return str([process.cmdline() for process in living(mark)])

    seen = await asyncio.to_thread(commands)
    assert "pilothouse.hub.start" in seen
    assert PASSWORD.split()[0] not in seen
    assert await redis.ask("GET", "pilothouse:mark"), "the hub has been there"

"""A relay of a hub whose workers are other people's servers."""

from __future__ import annotations

import shlex
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest
from mcp_types import TextContent

from pilothouse.hub.notices import RESET
from tests.support import forkserver
from tests.support.cancelling import cancel_under_way
from tests.support.listener_rig import hello
from tests.support.relaying import relay_home
from tests.support.servers import ERAS, FIXTURE_APP, PRODUCT, stdio
from tests.support.until import until, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.relaying import Home

OF_2025 = "stdio:" + shlex.join([sys.executable, "tests/support/odd_server.py", "stdio", "2025"])
COUNTER = "test://counter"
ECHO = {"said": ["hi"], "mood": "calm"}
HELLO = hello()["params"]


def fixture_over_stdio() -> str:
    return "stdio:" + shlex.join(forkserver.command(FIXTURE_APP, "--profile", "full"))


def fixture_over_http() -> str:
    return f"http:{shlex.join(forkserver.command(FIXTURE_APP, 'serve'))} --port {{port}}"


def warm_up(home: Home, **env: str) -> None:
    """Have the hub know what its workers answer alike, coming again when it says so."""
    with home.raw(**env) as relay:
        while wait := told_to_wait(relay.request("initialize", HELLO)):
            time.sleep(wait)
    wait_until(lambda: home.workers() == [])


def told_to_wait(answer: dict[str, Any]) -> int:
    """After how many seconds the client shall come again; 0: it has its answer."""
    wait: int = ((answer.get("error") or {}).get("data") or {}).get("retryAfterSec", 0)
    assert wait or "error" not in answer, answer
    return wait


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_speaks_with_it_as_if_it_had_started_it_itself(
    sockets: Path, mark: str, mode: str
) -> None:
    heard: list[Any] = []
    done: list[float] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        done.append(progress)

    with relay_home(sockets, mark) as home:
        worker = {"PILOTHOUSE_WORKER": fixture_over_stdio()}
        await anyio.to_thread.run_sync(partial(warm_up, home, **worker))
        env = {**home.env, **worker}
        async with stdio(
            mode=mode, module=PRODUCT, env=env, joins_hub=True, message_handler=hear
        ) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert {"echo_code", "forever"} <= tools
            said = await client.call_tool("echo_code", {"text": "hi"})
            assert said.structured_content == ECHO
            await client.call_tool("longWork", {"count": 3}, progress_callback=on_progress)
            assert done == [1, 2, 3]
            await cancel_under_way(client)
            if mode == "legacy":
                await client.session.subscribe_resource(COUNTER)
                await client.call_tool("add", {"count": 5})
                await until(lambda: any("updated" in str(one) for one in heard))
            assert (await client.read_resource(COUNTER)).contents


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_arguments_that_headers_have_to_repeat_reach_a_server_over_http(
    sockets: Path, mark: str, mode: str
) -> None:
    with relay_home(sockets, mark) as home:
        worker = {"PILOTHOUSE_WORKER": fixture_over_http()}
        await anyio.to_thread.run_sync(partial(warm_up, home, **worker))
        env = {**home.env, **worker}
        async with stdio(mode=mode, module=PRODUCT, env=env, joins_hub=True) as client:
            said = await client.call_tool("echo_code", {"text": "hi", "sessionId": "ü"})
            assert said.structured_content == ECHO


def test_one_that_ends_is_replaced_and_the_client_told(sockets: Path, mark: str) -> None:
    worker = {"PILOTHOUSE_WORKER": fixture_over_stdio()}
    with relay_home(sockets, mark) as home:
        warm_up(home, **worker)
        with home.agent(**worker) as agent:
            assert agent.call("echo_code", text="hi") == ECHO
            (pid,) = home.workers()
            psutil.Process(pid).kill()
            wait_until(lambda: pid not in home.workers())
            answer = agent.ask("echo_code", text="hi")
            assert answer["structuredContent"] == ECHO
            assert answer["content"][-1]["text"] == RESET


@pytest.mark.anyio
async def test_a_client_that_tries_2026_first_keeps_its_session_with_a_server_of_2025(
    sockets: Path, mark: str
) -> None:
    with relay_home(sockets, mark) as home:
        await anyio.to_thread.run_sync(partial(warm_up, home, PILOTHOUSE_WORKER=OF_2025))
        env = {**home.env, "PILOTHOUSE_WORKER": OF_2025}
        async with stdio(mode="auto", module=PRODUCT, env=env, joins_hub=True) as client:
            seen: list[int] = []
            for _ in range(2):
                said = (await client.call_tool("who", {})).content
                assert isinstance(said[0], TextContent)
                seen.append(int(said[0].text))
                psutil.Process(seen[-1]).kill()
                await until(lambda: seen[-1] not in home.workers())
            assert seen[0] != seen[1]
            assert RESET in str(said)


def test_a_request_that_the_server_refuses_unread_is_answered_by_its_own_id(
    sockets: Path, mark: str
) -> None:
    with (
        relay_home(sockets, mark) as home,
        home.raw(PILOTHOUSE_WORKER=fixture_over_stdio()) as relay,
    ):
        answer = relay.request("tools/call", {"name": "echo_code"}, id=5)  # without a handshake
        assert answer["error"]["message"] == "Session not found"


def test_one_that_cannot_start_is_the_answer_to_the_call(sockets: Path, mark: str) -> None:
    with relay_home(sockets, mark) as home, home.raw(PILOTHOUSE_WORKER="stdio:/nowhere") as relay:
        answer = relay.request("initialize", {}, id=1)
        assert "did not start" in answer["error"]["message"]

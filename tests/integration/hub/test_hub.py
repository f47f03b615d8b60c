"""`pilothouse serve` is a hub: real builtin workers behind its HTTP listener."""

from __future__ import annotations

import os
import re
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pilothouse.hub.notices import RESET
from tests.support.http_agent import HttpAgent, told
from tests.support.listener_rig import hello
from tests.support.living import living
from tests.support.living import workers as workers_of
from tests.support.servers import PRODUCT, Server, http_server
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import psutil

pytestmark = pytest.mark.anyio

HELLO = hello()["params"]
GONE_S = 30.0
"""A guard: it is less than two seconds in fact."""


@pytest.fixture(scope="module")
def hub() -> Iterator[Server]:
    with marked() as server:
        yield server


def marked(*args: str) -> AbstractContextManager[Server]:
    """A hub whose processes are known by their mark."""
    return http_server(*args, module=PRODUCT, env={"LC_MARK": uuid.uuid4().hex})


def session_of(result: dict[str, Any]) -> str:
    session: str = result["structuredContent"]["sessionId"]
    return session


def workers(hub: Server) -> list[psutil.Process]:
    return workers_of(hub.process.environ["LC_MARK"])


def metric(hub: Server, sample: str) -> float:
    text = httpx.get(f"{hub.url}/metrics").text
    found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
    assert found, f"{sample} is not in:\n{text}"
    return float(found[1])


async def test_a_session_has_a_worker_of_its_own_from_its_first_call_on(hub: Server) -> None:
    before = {one.pid for one in workers(hub)}
    one, other = HttpAgent(hub.url).open(), HttpAgent(hub.url).open()
    assert told(one.post("tools/list"))["result"]["tools"]
    assert {worker.pid for worker in workers(hub)} == before, "a list needs no worker"
    assert session_of(one.call("status")) != session_of(other.call("status"))
    assert len({worker.pid for worker in workers(hub)} - before) == 2
    for agent in (one, other):
        assert agent.end() == 200
        assert agent.post("tools/call", {"name": "status"}).status_code == 404
    await until(lambda: {worker.pid for worker in workers(hub)} == before)


async def test_a_modern_client_needs_no_handshake_and_a_path_is_a_key(hub: Server) -> None:
    agent = HttpAgent(hub.url)
    local = [told(agent.modern("status"))["result"] for _ in range(2)]
    assert session_of(local[0]) == session_of(local[1])
    before = len(workers(hub))
    for path in ("/mcp/one", "/mcp/two", "/mcp/one", "/mcp/two/"):
        assert agent.modern("status", path).status_code == 200
    assert len(workers(hub)) == before + 2
    assert session_of(told(agent.modern("status", "/mcp/"))["result"]) == session_of(local[0])


async def test_twenty_clients_at_once_get_twenty_workers(hub: Server) -> None:
    before = {worker.pid for worker in workers(hub)}

    def talk(_: int) -> str:
        agent = HttpAgent(hub.url).open()
        session = session_of(agent.call("status"))
        assert agent.end() == 200
        return session

    with ThreadPoolExecutor(20) as pool:
        assert len(set(pool.map(talk, range(20)))) == 20
    await until(lambda: {worker.pid for worker in workers(hub)} <= before)


async def test_a_worker_that_died_is_replaced_and_the_client_is_told_once(hub: Server) -> None:
    agent = HttpAgent(hub.url).open()
    before = {one.pid for one in workers(hub)}
    agent.call("status")
    (worker,) = [one for one in workers(hub) if one.pid not in before]
    died = metric(hub, "pilothouse_workers_died_total")
    worker.kill()
    await until(lambda: metric(hub, "pilothouse_workers_died_total") == died + 1)
    answers = [agent.call("status")["content"] for _ in range(2)]
    assert [RESET in [block["text"] for block in content] for content in answers] == [True, False]
    agent.end()


def test_health_metrics_and_page_show_sessions_and_workers(hub: Server) -> None:
    agent = HttpAgent(hub.url).open()
    passed = 'pilothouse_relayed_total{method="tools/call",outcome="answered"}'
    agent.call("status")
    before = metric(hub, passed)
    agent.call("status")
    assert metric(hub, passed) == before + 1
    assert metric(hub, "pilothouse_workers") >= 1
    assert metric(hub, "pilothouse_sessions") >= 1
    assert metric(hub, "pilothouse_workers_started_total") >= 1
    assert metric(hub, 'pilothouse_workers_ended_total{why="evicted"}') == 0
    duration = 'pilothouse_relayed_duration_seconds_count{method="tools/call"}'
    assert metric(hub, duration) >= before + 1
    health = httpx.get(f"{hub.url}/health").json()
    assert health["status"] == "ok"
    assert health["agents"] >= 1
    assert health["workers"]["running"] >= 1
    assert health["workers"]["memory"] > 1 << 20
    agent.post("resources/read", {"uri": "bookmarks://tree"})  # opens the extension's port
    for path in ("/status", "/api/overview"):
        page = httpx.get(f"{hub.url}{path}").text
        assert "bookmarks link" in page
        assert "tester 1" in page
        assert agent.session not in page, "whoever has the id has the session"
    agent.end()


@pytest.mark.parametrize("path", ["/mcp", "/health", "/", "/metrics", "/nowhere", "/api/overview"])
def test_foreign_hosts_and_sites_are_refused_everywhere(hub: Server, path: str) -> None:
    for headers, status in (({"host": "evil.example"}, 421), ({"origin": "http://evil"}, 403)):
        assert httpx.get(f"{hub.url}{path}", headers=headers).status_code == status


async def test_an_idle_worker_is_ended_and_its_session_goes_on() -> None:
    with marked("--worker-idle", "1") as hub:
        agent = HttpAgent(hub.url).open()
        first = agent.call("status")["content"]
        assert len(workers(hub)) == 1
        await until(lambda: metric(hub, 'pilothouse_workers_ended_total{why="idle"}') >= 1)
        await until(lambda: workers(hub) == [])
        again = agent.call("status")["content"]
    assert RESET not in [block["text"] for block in first]
    assert RESET in [block["text"] for block in again]


async def test_idle_workers_make_room_and_a_full_hub_says_when_to_come_back() -> None:
    limits = ("--max-workers", "1", "--max-sessions", "2")
    with marked(*limits) as hub:
        agents = [HttpAgent(hub.url).open() for _ in range(2)]
        for agent in (*agents, agents[0]):
            assert not agent.call("status")["isError"]
        assert len(workers(hub)) == 1
        assert metric(hub, 'pilothouse_workers_ended_total{why="evicted"}') == 2
        refused = HttpAgent(hub.url).post("initialize", HELLO)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert "--max-sessions" in refused.json()["error"]["message"]


def test_a_worker_that_cannot_start_is_told_with_its_last_words_and_when_to_come_back() -> None:
    words = "stdio:/bin/sh -c 'echo no licence >&2; exit 3'"
    with http_server("--worker", words, module=PRODUCT) as hub:
        for _ in range(5):
            refused = HttpAgent(hub.url).post("initialize", HELLO)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert "no licence" in refused.json()["error"]["message"]


@pytest.mark.usefixtures("real_processes")
async def test_sigterm_ends_the_hub_and_all_its_workers_with_exit_code_0(mark: str) -> None:
    with http_server(module=PRODUCT, env={"LC_MARK": mark}) as hub:
        for _ in range(3):
            HttpAgent(hub.url).open().call("status")
        assert len(living(mark)) == 5
        hub.process.send_signal(signal.SIGTERM)
        assert hub.process.wait(GONE_S) == 0
        assert living(mark) == []


@pytest.mark.leaves_files  # what was killed cannot tidy up; the next hub does
@pytest.mark.usefixtures("real_processes")
async def test_nothing_outlives_a_hub_that_is_killed(mark: str) -> None:
    with http_server(module=PRODUCT, env={"LC_MARK": mark}) as hub:
        for _ in range(3):
            HttpAgent(hub.url).open().call("status")
        os.kill(hub.process.pid, signal.SIGKILL)
        hub.process.wait(GONE_S)
        await until(lambda: living(mark) == [], GONE_S)


def profiles(folder: Path) -> list[Path]:
    return list(folder.rglob("*profile*"))


@pytest.mark.browser
@pytest.mark.usefixtures("real_processes")
async def test_the_next_hub_removes_the_profiles_of_browsers_that_were_killed(
    mark: str, sockets: Path, tmp_path: Path
) -> None:
    (tmp_path / "index.html").write_text("<h1>here</h1>")
    env = {"LC_MARK": mark, "TMPDIR": str(sockets), "PILOTHOUSE_HOME": str(tmp_path / "home")}
    with http_server(module=PRODUCT, env={**env, "PILOTHOUSE_ROOTS": str(tmp_path)}) as hub:
        HttpAgent(hub.url).open().call("startSession", cwd=str(tmp_path))
        assert profiles(sockets)
        os.kill(hub.process.pid, signal.SIGKILL)
        hub.process.wait(GONE_S)
        await until(lambda: living(mark) == [], GONE_S)
    left = os.listdir(sockets)
    assert len(left) == 1, "all in the one folder that the journal names"
    with http_server(module=PRODUCT, env=env):
        assert not set(left) & set(os.listdir(sockets))
    assert os.listdir(sockets) == []

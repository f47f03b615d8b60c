"""What /health and /metrics tell: measured memory, whether it can serve, and calls of the dead."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from pilothouse.hub.workers.capacity import NEW_WORKER_BYTES
from tests.support import forkserver
from tests.support.http_agent import GUARD_S, HttpAgent
from tests.support.servers import FIXTURE_APP, PRODUCT, ROOT, Server, http_server
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALLS = 'pilothouse_tool_calls_total{error="",tool="timeline"}'
LOST_S = 1.0
"""Of a killed worker's calls, no more than those of its last second may be lost."""


@pytest.fixture(scope="module")
def hub() -> Iterator[Server]:
    with http_server(module=PRODUCT) as server:
        yield server


def health(server: Server) -> httpx.Response:
    return httpx.get(f"{server.url}/health", timeout=GUARD_S)


def scrape(hub: Server) -> str:
    return httpx.get(f"{hub.url}/metrics", timeout=GUARD_S).text


def counted(hub: Server) -> float:
    found = re.search(rf"^{re.escape(CALLS)} (\S+)$", scrape(hub), re.MULTILINE)
    return float(found[1]) if found else 0.0


def status(agent: HttpAgent) -> dict[str, Any]:
    found: dict[str, Any] = agent.call("status")["structuredContent"]
    return found


def test_memory_is_told_by_kind_and_that_of_a_new_worker_is_measured(hub: Server) -> None:
    agents = [HttpAgent(hub.url).open() for _ in range(2)]
    for number, agent in enumerate(agents, 1):
        pid = status(agent)["pid"]
        found = health(hub).json()
        running, memory = (found["workers"][name] for name in ("running", "memory"))
        assert running >= number
        assert memory != running * NEW_WORKER_BYTES
        assert 0 < memory < running * psutil.Process(pid).memory_info().vms
    kinds = found["memory"]
    assert kinds["rss"] == kinds["anonymous"] + kinds["file"] + kinds["shared"]
    assert kinds["anonymous"] > 1 << 20
    for agent in agents:
        agent.end()


def test_how_long_the_calls_of_a_worker_took_is_in_the_metrics_by_tool(hub: Server) -> None:
    agent = HttpAgent(hub.url).open()
    assert not any(agent.call("status")["isError"] for _ in range(3))
    text = scrape(hub)
    assert 'pilothouse_tool_duration_seconds_count{tool="status"}' in text
    (number,) = re.findall(r'_seconds_bucket\{le="\+Inf",tool="status"\} (\S+)', text)
    assert float(number) >= 3
    agent.end()


def test_the_guide_tells_of_every_metric(hub: Server) -> None:
    guide = (ROOT / "docs" / "guides" / "gateway.md").read_text()
    names = re.findall(r"^# TYPE (pilothouse_\w+) ", scrape(hub), re.MULTILINE)
    assert names
    assert [name for name in names if name not in guide] == []


def test_of_the_calls_of_a_killed_worker_at_most_the_last_second_is_lost(hub: Server) -> None:
    agent = HttpAgent(hub.url).open()
    assert not any(agent.call("timeline")["isError"] for _ in range(5))
    early = last = status(agent)
    # By the worker's own clock, and without a scrape, which would have it tell.
    while last["uptimeSec"] < early["uptimeSec"] + LOST_S:
        last = status(agent)
    psutil.Process(last["pid"]).kill()
    wait_until(lambda: counted(hub) == 5, "what the killed worker had told")
    agent.end()


def test_a_hub_whose_workers_cannot_start_is_unavailable_until_they_can(place: Any) -> None:
    script: Path = place.root / "server"
    env = {"PILOTHOUSE_WORKER": f"stdio:{script}"}
    with http_server(module=PRODUCT, env=env) as server:
        assert health(server).status_code == 200, "nothing is known against it"
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        assert HttpAgent(server.url).post("initialize", hello).status_code == 503
        found = health(server)
        assert found.status_code == 503
        assert found.json()["status"] == "unavailable"
        assert str(script) in found.json()["reason"]
        argv = shlex.join(forkserver.command(FIXTURE_APP))
        script.write_text(f"#!/bin/sh\nexec {argv}\n")
        script.chmod(0o700)
        wait_until(lambda: health(server).status_code == 200, "workers that start")
        HttpAgent(server.url).open()


def test_e2e_alone_answers_500_without_a_browser(place: Any) -> None:
    missing = str(place.root / "no-browser")
    env = {"TRANSPORT_MODE": "http", "PILOTHOUSE_BROWSER": missing}
    with http_server(command="e2e", module=PRODUCT, env=env) as server:
        found = health(server)
    assert found.status_code == 500
    assert "pilothouse doctor" in found.json()["reason"]

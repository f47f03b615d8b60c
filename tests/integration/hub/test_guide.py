"""docs/guides/gateway.md: what it says of limits, health and metrics is so."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import httpx
import pytest

from pilothouse.core.settings import SETTINGS
from tests.support.http_agent import HttpAgent, told
from tests.support.servers import PRODUCT, ROOT, Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator

GUIDE = (ROOT / "docs" / "guides" / "gateway.md").read_text()
GUARD_S = 60.0


@pytest.fixture(scope="module")
def hub() -> Iterator[Server]:
    with http_server(module=PRODUCT) as running:
        yield running


def test_every_flag_in_it_exists_and_numbers_are_the_defaults() -> None:
    known = [(flag, one) for one in SETTINGS for flag in (*one.flags(""), *one.flags("serve"))]
    flags = dict(known)
    prose = re.sub(r"```.*?```", "", GUIDE, flags=re.S)
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", prose))
    assert len(named) >= 10
    assert named - flags.keys() <= {"--standalone", "--json", "--isolated", "--headless", "--new"}
    limits = re.findall(r"^\| `(--[a-z-]+)` \| (\d+) \|", GUIDE, re.M)
    assert limits
    for flag, number in limits:
        assert flags[flag].default == int(number), flag
    idle = re.search(r"`--worker-idle` seconds\s\((\d+)\)", GUIDE)
    assert idle is not None
    assert flags["--worker-idle"].default == int(idle[1])


def test_health_has_the_form_that_it_shows(hub: Server) -> None:
    (example,) = re.findall(r"```json\n(.+?)```", GUIDE, re.S)
    shown = json.loads(example)
    real = httpx.get(f"{hub.url}/health", timeout=GUARD_S).json()
    assert real.keys() == shown.keys()
    for part in ("memory", "workers"):
        assert real[part].keys() == shown[part].keys()


def test_every_metric_that_it_names_is_there_after_a_call(hub: Server) -> None:
    assert HttpAgent(hub.url).open().call("status")["isError"] is False
    real = httpx.get(f"{hub.url}/metrics", timeout=GUARD_S).text
    named = set(re.findall(r"`(pilothouse_\w+)", GUIDE))
    assert len(named) >= 9
    for name in named:
        assert re.search(rf"^(# \w+ )?{name}\b", real, re.M), name


def test_a_path_has_a_worker_of_its_own_as_it_says(hub: Server) -> None:
    (path,) = set(re.findall(r"`(/mcp/[\w-]+)`", GUIDE))
    agent = HttpAgent(hub.url)
    pids = [
        told(agent.modern("status", path=one))["result"]["structuredContent"]["pid"]
        for one in ("/mcp", path, path)
    ]
    assert pids[0] != pids[1] == pids[2]

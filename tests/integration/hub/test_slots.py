"""Places for workers: who has nothing open any more gives its own to who needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pilothouse.hub.notices import RESET
from tests.support.chromium import Chromium
from tests.support.http_agent import GUARD_S, HttpAgent, told
from tests.support.relaying import relay_home
from tests.support.servers import PRODUCT, Server, http_server
from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.intercepting import App


def called(agent: HttpAgent, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured content of a call that goes well."""
    result = agent.call(tool, **arguments)
    assert not result["isError"], result
    content: dict[str, Any] = result["structuredContent"]
    return content


def observing(agent: HttpAgent, chromium: Chromium, **arguments: Any) -> str:
    (target,) = called(agent, "cdp_list_targets", port=chromium.port, types=["page"])["targets"]
    place = {"port": chromium.port, "targetId": target["id"]}
    called(agent, "cdp_observe", **place, **arguments)
    return str(target["id"])


def running(hub: Server) -> int:
    workers: int = httpx.get(f"{hub.url}/health", timeout=GUARD_S).json()["workers"]["running"]
    return workers


@pytest.mark.browser
def test_agents_that_ended_what_they_did_make_room_for_the_next(shop: App) -> None:
    limits = ("--max-workers", "2", "--worker-idle", "5")
    with http_server(*limits, module=PRODUCT) as hub, Chromium() as chromium:
        tester, watcher, third, fourth = (HttpAgent(hub.url).open() for _ in range(4))
        called(tester, "startSession", url=shop.url)
        target = observing(watcher, chromium)
        called(tester, "endSession")
        called(watcher, "cdp_stop_observe", targetId=target)
        # What was recorded stays readable until somebody needs the place.
        assert called(watcher, "cdp_read_events", targetId=target)["state"] == "stopped"
        pids = {called(agent, "status")["pid"] for agent in (third, fourth)}
        assert len(pids) == 2
        assert running(hub) <= 2


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_a_worker_that_its_client_listens_to_makes_room_without_an_error(era: str) -> None:
    # The block fails if any of the workers has logged an error.
    with http_server("--max-workers", "1", module=PRODUCT) as hub:
        first, second = HttpAgent(hub.url), HttpAgent(hub.url).open()
        if era == "2025":
            first.open()
        with first.listening() as stream:
            own = told(first.modern("status"))["result"] if era == "2026" else first.call("status")
            assert stream.status_code == 200
            assert called(second, "status")["pid"] != own["structuredContent"]["pid"]
            wait_until(lambda: any("worker_ended" in line for line in hub.lines), "the eviction")


@pytest.mark.browser
def test_the_worker_of_a_client_that_vanished_goes_when_what_it_had_open_is_over(
    shop: App,
) -> None:
    limits = ("--worker-idle", "1", "--session-idle-sec", "1")
    with http_server(*limits, module=PRODUCT) as hub, Chromium() as chromium:
        tester, watcher = (HttpAgent(hub.url).open() for _ in range(2))
        called(tester, "startSession", url=shop.url)
        observing(watcher, chromium, ttlSec=1)
        wait_until(lambda: running(hub) == 0, "the end of both workers")


def test_the_idle_worker_of_a_relay_makes_room_for_another_agent(sockets: Path, mark: str) -> None:
    with relay_home(sockets, mark) as home:
        one = {"PILOTHOUSE_MAX_WORKERS": "1"}
        with home.agent(**one) as first, home.agent(**one) as second:
            answers = [agent.ask("status") for agent in (first, second, first)]
            assert not any(answer["isError"] for answer in answers)
            pids = [answer["structuredContent"]["pid"] for answer in answers]
            assert len(set(pids)) == 3
            notices = [RESET in str(answer["content"]) for answer in answers]
            assert notices == [False, False, True]

"""Workers, hubs and relays that are killed at any moment: nobody hangs, nothing is left behind."""

from __future__ import annotations

import random
import signal
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.hub.notices import LOST
from tests.support.living import living
from tests.support.relaying import Home, aside, relay_home
from tests.support.rounds import ROUNDS
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from threading import Thread

    from tests.support.agent import Agent

CALLS = 20
LONGEST_S = 0.3
"""Until somebody is killed."""

pytestmark = pytest.mark.chaos


@pytest.fixture
def home(sockets: Path, mark: str) -> Iterator[Home]:
    with relay_home(sockets, mark) as home:
        with home.agent() as agent:
            agent.call("status")
        wait_until(lambda: home.workers() == [])
        yield home


def flood(agent: Agent) -> dict[int, Any]:
    """The answers to many calls at once, each of them either served or lost in words."""
    asked = [agent.begin("status") for _ in range(CALLS)]
    answers: dict[int, Any] = {}
    while len(answers) < len(asked):
        answer = agent.receive()
        assert answer["id"] not in answers
        answers[answer["id"]] = answer
        assert "result" in answer or answer["error"]["message"] == LOST, answer
    assert sorted(answers) == asked
    return answers


def kill_soon(seed: int, pid: int, number: int = signal.SIGKILL) -> Thread:
    """End a process at any moment of the next while."""

    def kill() -> None:
        time.sleep(random.Random(seed).random() * LONGEST_S)
        with suppress(psutil.Error):
            psutil.Process(pid).send_signal(number)

    return aside(kill)


def is_gone(processes: list[psutil.Process]) -> bool:
    return not any(one.is_running() for one in processes)


def test_a_worker_that_is_killed_costs_only_the_calls_that_it_served(home: Home) -> None:
    for seed in range(ROUNDS):
        with home.agent() as agent:  # another one each time: who loses many has to wait
            agent.call("status")
            (pid,) = home.workers()
            worker = psutil.Process(pid)
            killing = kill_soon(seed, pid)
            while killing.is_alive():
                flood(agent)
            wait_until(partial(is_gone, [worker]))
            agent.call("status")
        wait_until(lambda: home.workers() == [])


def test_a_worker_that_is_asked_to_end_costs_no_call_at_all(home: Home) -> None:
    for seed in range(ROUNDS):
        with home.agent() as agent:
            agent.call("status")
            (pid,) = home.workers()
            worker = psutil.Process(pid)
            ending = kill_soon(seed, pid, signal.SIGTERM)
            while ending.is_alive() or worker.is_running():
                assert all("result" in answer for answer in flood(agent).values())
        wait_until(lambda: home.workers() == [])


@pytest.mark.usefixtures("real_processes")
def test_a_hub_that_is_killed_is_followed_by_another(home: Home, mark: str) -> None:
    with home.agent() as agent:
        for seed in range(ROUNDS):
            agent.call("status")
            before = living(mark)
            hub = (home.status() or {})["pid"]
            killing = kill_soon(seed, hub)
            while killing.is_alive():
                flood(agent)
            wait_until(partial(is_gone, [one for one in before if one.pid != agent.process.pid]))
            agent.call("status")


def test_a_relay_that_is_killed_takes_its_worker_along(home: Home) -> None:
    for seed in range(ROUNDS):
        with home.agent() as agent:
            killing = kill_soon(seed, agent.process.pid)
            with suppress(ValueError, OSError):  # no whole line any more
                while killing.is_alive():
                    flood(agent)
            killing.join()
        wait_until(lambda: home.workers() == [])
        wait_until(lambda: (home.status() or {"relays": 1})["relays"] == 0)
    with home.agent() as agent:
        agent.call("status")


@pytest.mark.usefixtures("real_processes")
def test_relays_that_are_killed_while_they_start_a_hub_leave_one_at_most(
    sockets: Path, mark: str
) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        folder = sockets / str(seed)
        folder.mkdir()
        with relay_home(folder, mark) as home:
            relays = [home.raw() for _ in range(3)]
            time.sleep(chance.random())
            for relay in relays[:2]:
                relay.process.kill()
            relays[2].initialize()
            answer = relays[2].request("tools/call", {"name": "status", "arguments": {}}, id=5)
            assert answer["result"]["isError"] is False
            hubs = [one for one in living(mark) if "pilothouse.hub.start" in one.cmdline()]
            assert len(hubs) == 1
            for relay in relays:
                relay.__exit__()
        wait_until(lambda: living(mark) == [])

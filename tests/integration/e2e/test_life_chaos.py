"""Pilothouse is killed at random points and sessions come and go: nothing is ever left over."""

from __future__ import annotations

import random
import signal
import stat
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.rounds import ROUNDS
from tests.support.servers import incidents
from tests.support.session_life import (
    GUARD_S,
    Driver,
    descendants,
    last_seen,
    lives,
    open_canary,
    open_place,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.session_life import Place

pytestmark = [pytest.mark.browser, pytest.mark.chaos]

CYCLES = ROUNDS if ROUNDS <= 5 else 2 * ROUNDS
WARM_UP = 2
GONE_S = 30.0
"""Two seconds are what is promised; this is the guard."""
SCRIPTS = ("stubborn.py", "app.py")


class Blow:
    """Ends a driver at a random moment and sees what is left."""

    def __init__(self, driver: Driver, chance: random.Random, how: signal.Signals | None) -> None:
        self.driver = driver
        self.chance = chance
        self.how = how
        """None closes its standard input."""

    def strike(self, within: float, which: str) -> None:
        delay = self.chance.uniform(0, within)
        time.sleep(delay)
        seen = descendants(self.driver.process.pid)
        if self.how is None:
            assert self.driver.process.stdin is not None
            self.driver.process.stdin.close()
        else:
            self.driver.process.send_signal(self.how)
        self.driver.process.wait(GUARD_S)
        place = self.driver.place

        def left() -> list[psutil.Process]:
            # What was forked between the look and the blow is known by its temp folder.
            return [one for one in {*seen, *place.living()} if lives(one)]

        remains = last_seen(left, lambda found: not found, GONE_S)
        assert remains == [], (
            f"{which}: {remains} live {GONE_S} s after a blow {delay:.3f} s into it"
        )


def during_start(driver: Driver, script: str) -> float:
    """What is going on when the blow comes; how long that takes."""
    driver.begin("startSession", cwd=str(driver.place.app), command=[sys.executable, script])
    return 1.5


def during_steps(driver: Driver, script: str) -> float:
    session = driver.start(script)["sessionId"]
    for _ in range(3):
        driver.begin("navigate", sessionId=session, url="/")
        driver.begin("screenshot", sessionId=session)
    return 0.5


def during_end(driver: Driver, script: str) -> float:
    session = driver.start(script)["sessionId"]
    driver.begin("endSession", sessionId=session)
    return 0.5


PHASES: tuple[Callable[[Driver, str], float], ...] = (during_start, during_steps, during_end)


@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_a_pilothouse_that_is_killed_leaves_no_process() -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for round_ in range(ROUNDS):
        phase = PHASES[round_ % len(PHASES)]
        script = SCRIPTS[round_ % len(SCRIPTS)]
        with open_place() as place, Driver(place) as driver:
            blow = Blow(driver, chance, signal.SIGKILL)
            blow.strike(phase(driver, script), f"seed {seed} round {round_} {script}")


@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_a_pilothouse_that_is_asked_to_end_does_so_at_any_moment() -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for round_ in range((ROUNDS + 1) // 2):
        how = (signal.SIGTERM, None)[round_ % 2]
        with open_place() as place, Driver(place) as driver:
            which = f"seed {seed} round {round_} {how}"
            Blow(driver, chance, how).strike(during_start(driver, "app.py"), which)
            assert driver.process.returncode == 0, driver.log()
            # All that it says are lines of its own log, none of them of a fault.
            said = driver.log().splitlines()
            assert [line for line in said if not line.startswith("{")] == [], which
            assert not incidents(said), which
            assert list(place.temp.iterdir()) == [], which


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_a_start_that_is_cancelled_at_any_moment_leaves_no_browser() -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    with open_place() as place, Driver(place) as driver, open_canary() as app:
        driver.call("startSession", url=app.url)  # so that the engine runs
        driver.call("endSession")
        for round_ in range(ROUNDS):
            # Nothing to wait for but the browser: the blow hits its launch.
            number = driver.begin("startSession", url=app.url)
            delay = chance.uniform(0, 0.6)
            time.sleep(delay)
            driver.cancel(number)
            which = f"seed {seed} round {round_} after {delay:.3f} s"
            # It may have been through before the word came; then it is a session like any other.
            if not driver.ask("getSessionStatus")["isError"]:
                driver.ask("endSession")

            def leftovers() -> list[object]:
                return [*driver.browsers(), *place.temp.iterdir()]

            left = last_seen(leftovers, lambda found: not found, GONE_S)
            assert left == [], which
            assert driver.fault("getSessionStatus")["type"] == "session_not_found", which


class Belongings:
    """What a process holds, to be compared before and after."""

    def __init__(self, driver: Driver) -> None:
        process = psutil.Process(driver.process.pid)
        below = process.children(recursive=True)
        self.descriptors = process.num_fds()
        self.zombies = [one for one in below if one.status() == psutil.STATUS_ZOMBIE]
        self.programs = sorted(one.name() for one in below)
        self.threads = process.num_threads()


def sockets(place: Place) -> list[Path]:
    return [
        path
        for path in place.root.rglob("*")
        if not path.is_symlink() and stat.S_ISSOCK(path.lstat().st_mode)
    ]


@pytest.mark.timeout(60 + 20 * CYCLES)
def test_sessions_that_come_and_go_leave_no_zombie_descriptor_or_profile() -> None:
    with open_place() as place, Driver(place) as driver:

        def cycle() -> None:
            session = driver.start()
            driver.call("navigate", sessionId=session["sessionId"], url="/")
            assert list(place.temp.iterdir()), "a browser has its profile there while it runs"
            driver.end(session, removeLogs=True)

        for _ in range(WARM_UP):
            cycle()
        before = Belongings(driver)
        for _ in range(CYCLES):
            cycle()
        after = last_seen(
            lambda: Belongings(driver),
            lambda seen: (
                seen.descriptors <= before.descriptors and seen.programs == before.programs
            ),
        )
        assert after.descriptors <= before.descriptors
        assert after.zombies == []
        assert after.programs == before.programs
        # The pools of the event loop and of the resolver have a size, not a rate of growth.
        assert after.threads <= before.threads + 8
        assert list(place.temp.iterdir()) == []
        assert place.sessions() == []
        assert sockets(place) == []

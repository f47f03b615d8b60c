"""The first cause of a failed step is the planted fault, whatever else goes wrong on the page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.driving import Driver
from tests.support.planted.cases import CASES, PLANTED, Case
from tests.support.rounds import IS_SOAK
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

SERVER = Path(__file__).parents[2] / "support" / "planted" / "server.py"
SEEDS = (1, 2, 3) if IS_SOAK else (1,)
LEAST_RIGHT = 28 / 30
GUESS = "a guess"
WAIT_MS = 150


class Verdict(NamedTuple):
    """What was said of one case."""

    name: str
    right: bool
    labelled: bool
    said: list[str]


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver("--tools", "e2e,observe,timeline") as opened:
        opened.start(command=[sys.executable, str(SERVER)])
        yield opened


def moments(driver: Driver) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = driver.call("timeline", limit=500)["moments"]
    return shown


def texts(driver: Driver) -> str:
    return "\n".join(moment["text"] for moment in moments(driver))


def provoke(driver: Driver, case: Case, seed: int) -> None:
    """Visit the page, wait for its noise, and make the fault happen."""
    driver.visit(f"/page/{case.name}?seed={seed}&noise={','.join(case.noise)}")
    if case.noise:
        driver.call("waitForSelector", selector="body[data-noisy]", state="attached")
    for selector in case.clicks:
        driver.call("click", selector=selector)
        if case.name != "a-form-that-gets-a-500":
            driver.call("waitForSelector", selector="#done", state="attached")


def wait_seen(driver: Driver, case: Case) -> None:
    """Wait until the timeline has shown what it must; noise soon drives it out of the newest."""
    missing = set(case.seen)

    def all_seen() -> bool:
        told = texts(driver)
        missing.difference_update([needle for needle in missing if needle in told])
        return not missing

    wait_until(all_seen, lambda: f"{case.name} {missing}: {texts(driver)}")


def judge(driver: Driver, case: Case, seed: int) -> list[Verdict]:
    """Whether the dossier, and `causes` where a line is to be led back, blame the fault."""
    before = next((other for other in CASES if other.name == case.before), None)
    if before is not None:
        provoke(driver, before, seed)
    provoke(driver, case, seed)
    wait_seen(driver, case)
    error = driver.fault(case.tool, selector=case.selector, timeout=WAIT_MS)
    first = error["causes"][0] if error["causes"] else ""
    right = all(part in first for part in case.cause)
    right = right and not any(part in first for part in case.never)
    found = [Verdict(case.name, right, GUESS in first, error["causes"])]
    if case.chain is not None:
        line, request = case.chain
        thrown = [m for m in moments(driver) if m["lane"] == "console" and line in m["text"]][-1]
        chain = {m["key"]: m for m in driver.call("causes", of=thrown["key"])["chain"]}
        joints = [joint for joint in chain[thrown["key"]]["links"] if joint["role"] == "cause"]
        blamed = [chain[joint["key"]]["text"] for joint in joints]
        right = len(blamed) == 1 and request in blamed[0]
        labelled = all(joint["guess"] for joint in joints)
        found.append(Verdict(f"{case.name}: chain", right, labelled, blamed))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_cause_is_the_planted_fault(driver: Driver, seed: int) -> None:
    verdicts = [verdict for case in PLANTED for verdict in judge(driver, case, seed)]
    wrong = [verdict for verdict in verdicts if not verdict.right]
    told = "\n".join(f"{verdict.name}: {verdict.said}" for verdict in wrong)
    score = f"seed {seed}: {len(verdicts) - len(wrong)} of {len(verdicts)} right\n{told}"
    sys.stdout.write(score)
    assert len(PLANTED) >= 30
    assert len(verdicts) - len(wrong) >= LEAST_RIGHT * len(verdicts), score
    assert not [verdict for verdict in wrong if not verdict.labelled], score

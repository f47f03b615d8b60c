"""Steps of work grow and shrink until they take as long as they should."""

from __future__ import annotations

import pytest

from pilothouse.intercept.history import pacing
from pilothouse.intercept.history.pacing import Pace


class Clock:
    """Time passes by work alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pacing, "time", clock)
    return clock


def worked(pace: Pace, clock: Clock, each_s: float, steps: int) -> int:
    for _ in range(steps):
        with pace.step() as amount:
            clock.now += amount * each_s
    return pace.amount


def test_a_step_comes_to_take_as_long_as_asked(clock: Clock) -> None:
    pace = Pace(0.010, least=1, most=1000)
    assert worked(pace, clock, 0.0001, 20) == 100
    assert worked(pace, clock, 0.0005, 1) == 20
    assert worked(pace, clock, 0.0005, 10) == 20


def test_a_step_stays_within_its_limits(clock: Clock) -> None:
    pace = Pace(0.010, least=4, most=24)
    assert pace.amount == 4
    assert worked(pace, clock, 1e-9, 20) == 24
    assert worked(pace, clock, 10.0, 1) == 4
    assert worked(pace, clock, 0.0, 1) == 6


def test_a_step_that_failed_teaches_nothing(clock: Clock) -> None:
    def fail(pace: Pace) -> None:
        with pace.step():
            clock.now += 5.0
            raise OSError("full")

    pace = Pace(0.010, least=1, most=100)
    assert worked(pace, clock, 1e-9, 20) == 100
    with pytest.raises(OSError, match="full"):
        fail(pace)
    assert pace.amount == 100

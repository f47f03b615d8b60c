"""The clock that everything is compared on, and how its times are written."""

from __future__ import annotations

import pytest

from pilothouse.core.timeline.clock import anchored, iso


def test_the_clock_starts_at_wall_time_and_goes_on_with_the_monotonic_one() -> None:
    wall, monotonic = [1_700_000_000.0], [50.0]
    clock = anchored(lambda: wall[0], lambda: monotonic[0])
    assert clock() == 1_700_000_000_000.0
    monotonic[0] += 1.5
    assert clock() == 1_700_000_001_500.0


def test_setting_the_wall_clock_back_does_not_turn_the_clock_back() -> None:
    wall, monotonic = [1_700_000_000.0], [50.0]
    clock = anchored(lambda: wall[0], lambda: monotonic[0])
    before = clock()
    wall[0] -= 3_600
    monotonic[0] += 0.001
    assert before < clock() < before + 2


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_000.9, "1970-01-01T00:00:01.000Z"),
        (1_794_700_800_123, "2026-11-15T00:00:00.123Z"),
    ],
)
def test_times_are_written_in_utc_with_milliseconds(at: float, text: str) -> None:
    assert iso(at) == text

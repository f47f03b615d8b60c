"""Rate limits: exact at the edge, and bounded however many keys come by."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.rate_limit import RateLimit
from tests.support.rounds import examples


class FakeClock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("limit", "per_seconds"), [(10, 60.0), (100, 60.0), (1, 1.0), (3, 0.25)])
def test_the_last_of_the_window_passes_and_the_next_does_not(
    limit: int, per_seconds: float
) -> None:
    clock = FakeClock()
    rate = RateLimit(limit, per_seconds, clock)
    assert [rate.admit("a") for _ in range(limit)] == [0.0] * limit
    assert rate.admit("a") == per_seconds
    assert rate.admit("b") == 0.0


def test_a_call_passes_again_exactly_when_the_oldest_leaves() -> None:
    clock = FakeClock(0.0)
    rate = RateLimit(10, 60.0, clock)
    for second in range(10):
        clock.now = float(second)
        assert rate.admit("a") == 0.0
    assert rate.admit("a") == 51.0
    clock.now = 59.999
    assert 0 < rate.admit("a") <= 0.0011
    clock.now = 60.0
    assert rate.admit("a") == 0.0
    assert rate.admit("a") == 1.0
    clock.now = 61.0
    assert rate.admit("a") == 0.0


def test_refused_calls_do_not_push_the_window_on() -> None:
    clock = FakeClock(0.0)
    rate = RateLimit(2, 10.0, clock)
    rate.admit("a"), rate.admit("a")
    for tenth in range(1, 100):
        clock.now = tenth / 10
        assert rate.admit("a") > 0
    clock.now = 10.0
    assert rate.admit("a") == 0.0


def test_a_clock_that_steps_back_gives_nothing_away() -> None:
    clock = FakeClock(100.0)
    rate = RateLimit(1, 10.0, clock)
    assert rate.admit("a") == 0.0
    clock.now = 50.0
    assert rate.admit("a") == 10.0
    clock.now = 110.0
    assert rate.admit("a") == 0.0


@pytest.mark.parametrize(
    ("limit", "per_seconds", "max_keys"),
    [(0, 1.0, 1), (1, 0.0, 1), (1, -1.0, 1), (1, float("inf"), 1), (1, float("nan"), 1), (1, 1, 0)],
)
def test_a_limit_that_is_not_positive_is_refused(
    limit: int, per_seconds: float, max_keys: int
) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        RateLimit(limit, per_seconds, FakeClock(), max_keys)


@given(
    limit=st.integers(1, 5),
    per_seconds=st.floats(0.001, 100),
    steps=st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 30)), max_size=60),
)
@settings(max_examples=examples(150))
def test_no_window_holds_more_than_the_limit_and_none_less_than_it_could(
    limit: int, per_seconds: float, steps: list[tuple[str, float]]
) -> None:
    clock = FakeClock(0.0)
    rate = RateLimit(limit, per_seconds, clock)
    admitted: dict[str, list[float]] = {"a": [], "b": []}
    for key, pause in steps:
        clock.now += pause
        inside = [at for at in admitted[key] if at + per_seconds > clock.now]
        wait = rate.admit(key)
        assert (wait == 0.0) == (len(inside) < limit)
        if wait == 0.0:
            admitted[key].append(clock.now)


@given(st.floats(0, 1e9), st.floats(1e-6, 1e4), st.floats(0, 1))
@settings(max_examples=examples(200))
def test_waiting_as_long_as_told_is_long_enough(
    start: float, per_seconds: float, part: float
) -> None:
    clock = FakeClock(start)
    rate = RateLimit(1, per_seconds, clock)
    rate.admit("a")
    clock.now = start + per_seconds * part
    wait = rate.admit("a")
    clock.now += wait
    assert wait == 0.0 or rate.admit("a") == 0.0


# Memory


def test_idle_keys_are_forgotten() -> None:
    clock = FakeClock()
    rate = RateLimit(2, 60.0, clock, max_keys=10_000)
    for number in range(3000):
        rate.admit(f"once-{number}")
        rate.admit(f"twice-{number}"), rate.admit(f"twice-{number}")
    assert len(rate) == 6000
    clock.now += 60
    for _ in range(1600):
        rate.admit("late")
    assert len(rate) == 1


def test_a_flood_of_new_keys_does_not_reset_a_key_that_is_being_counted() -> None:
    clock = FakeClock()
    rate = RateLimit(3, 60.0, clock, max_keys=100)
    assert [rate.admit("busy") for _ in range(3)] == [0.0] * 3
    assert [rate.admit("half") for _ in range(2)] == [0.0] * 2
    for number in range(10_000):
        assert rate.admit(f"flood-{number}") == 0.0
    assert len(rate) == 100
    assert rate.admit("busy") > 0
    assert rate.admit("half") == 0.0
    assert rate.admit("half") > 0


def test_a_full_table_of_counted_keys_forgets_the_one_idle_for_longest() -> None:
    clock = FakeClock()
    rate = RateLimit(2, 60.0, clock, max_keys=3)
    for key in "abc":
        rate.admit(key), rate.admit(key)
        clock.now += 1
    assert rate.admit("a") > 0
    assert rate.admit("new") == 0.0
    assert rate.admit("a") > 0
    assert rate.admit("c") > 0
    assert rate.admit("b") == 0.0


def test_a_million_keys_stay_below_fifty_megabytes() -> None:
    """Twice what the table holds is enough to see it: the second half must add nothing."""
    rate = RateLimit(10, 60.0, FakeClock())
    tracemalloc.start()
    try:
        for number in range(40_000):
            rate.admit(f"client-{number:032d}")
        half = tracemalloc.get_traced_memory()[0]
        for number in range(40_000, 80_000):
            rate.admit(f"client-{number:032d}")
        full, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert full <= half * 1.5  # the dict may resize once more; without a bound it would double
    assert peak < 50e6


def test_the_worst_table_stays_below_fifty_megabytes() -> None:
    """Every key at its limit of 100: measured on a fiftieth of the default table."""
    rate = RateLimit(100, 60.0, FakeClock(), max_keys=800)
    tracemalloc.start()
    try:
        for _ in range(100):
            for number in range(800):
                rate.admit(f"client-{number:032d}")
        assert tracemalloc.get_traced_memory()[0] * 50 < 50e6
    finally:
        tracemalloc.stop()


def test_long_keys_cost_no_more_than_short_ones_and_stay_distinct() -> None:
    rate = RateLimit(1, 60.0, FakeClock())
    tracemalloc.start()
    try:
        for number in range(200):
            assert rate.admit("x" * 100_000 + str(number)) == 0.0
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
    assert rate.admit("x" * 100_000 + "7") > 0

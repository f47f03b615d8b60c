"""The statistics every benchmark ratio rests on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats import paired_ratio, percentile, summarise

positive = st.floats(min_value=1e-3, max_value=1e6)
samples = st.lists(positive, min_size=1, max_size=50)


def test_p95_of_a_hundred_samples_is_the_ninety_fifth() -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], 95) == 95.0


def test_p95_of_seven_samples_is_the_worst_one() -> None:
    assert percentile([3.0, 1.0, 7.0, 2.0, 5.0, 6.0, 4.0], 95) == 7.0


def test_p0_is_the_smallest_sample() -> None:
    assert percentile([3.0, 1.0, 2.0], 0) == 1.0


@given(samples, st.floats(min_value=0, max_value=100))
def test_a_percentile_is_always_one_of_the_samples(taken: list[float], percent: float) -> None:
    assert percentile(taken, percent) in taken


@given(samples, st.floats(min_value=0, max_value=100))
def test_enough_samples_lie_at_or_below_a_percentile(taken: list[float], percent: float) -> None:
    at_or_below = sum(sample <= percentile(taken, percent) for sample in taken)
    assert at_or_below >= len(taken) * percent / 100


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        percentile([], 95)


@pytest.mark.parametrize("percent", [-1, 100.5])
def test_a_percentile_outside_0_to_100_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile([1.0], percent)


def test_a_summary_holds_median_p95_and_extremes() -> None:
    summary = summarise([4.0, 1.0, 2.0, 3.0])
    assert (summary.median, summary.p95, summary.low, summary.high) == (2.5, 4.0, 1.0, 4.0)


def test_the_ratio_is_the_median_of_ratios_not_the_ratio_of_medians() -> None:
    ratio = paired_ratio([1.0, 10.0, 30.0], [1.0, 5.0, 100.0])
    assert ratio.median == 1.0  # of 1, 2 and 0.3; the medians alone would say 2
    assert (ratio.low, ratio.high) == (0.3, 2.0)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=20), positive)
def test_a_machine_twice_as_slow_for_whole_rounds_leaves_the_ratio_alone(
    rounds: list[tuple[float, float]], slowdown: float
) -> None:
    calm = paired_ratio([mine for mine, _ in rounds], [theirs for _, theirs in rounds])
    busy = paired_ratio(
        [mine * slowdown for mine, _ in rounds], [theirs * slowdown for _, theirs in rounds]
    )
    assert busy.median == pytest.approx(calm.median)


def test_unpaired_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="unpaired samples: 2 of the subject, 1 of a peer"):
        paired_ratio([1.0, 2.0], [1.0])

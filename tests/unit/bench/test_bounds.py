"""What a row promises: how the bound is judged, and how it is written and drawn."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from bench.peers import Workshop
from bench.plot import BAR_SPACE, LABEL_WIDTH, draw
from bench.report import as_json, format_bound, format_spread, markdown_section
from bench.row import Bound, Outcome, Row, Samplers
from bench.stats import paired_ratio

OURS, PEER = "pilothouse", "Playwright, raw"
MACHINE: dict[str, str | int] = dict.fromkeys(
    ("cpus", "cpu", "system", "python", "node", "browser", "load_1min"), "any"
)


@contextmanager
def nothing_to_run(_: Workshop) -> Iterator[Samplers]:
    yield {}


ROW = Row(
    name="e2e-click",
    title="Click",
    subject=OURS,
    peers=(PEER,),
    unit="ms",
    better="lower",
    bound=Bound(1.25, of=PEER, plus=3),
    run=nothing_to_run,
)


def measured(ours: list[float], peers: list[float], row: Row = ROW) -> Outcome:
    return Outcome(row=row, samples={OURS: tuple(ours), PEER: tuple(peers)})


def test_a_bound_with_a_constant_says_so_in_the_unit_of_its_row() -> None:
    assert format_bound(ROW) == "≤ 1.25× Playwright, raw + 3 ms"


def test_a_bound_without_a_constant_says_nothing_of_it() -> None:
    assert format_bound(replace(ROW, bound=Bound(1.25, of=PEER))) == "≤ 1.25× Playwright, raw"
    assert format_bound(replace(ROW, bound=Bound(300))) == "≤ 300 ms (p95)"
    assert format_bound(replace(ROW, bound=None)) == "no bound"


@pytest.mark.parametrize(("ours", "held"), [(28.0, True), (28.1, False)])
def test_the_constant_comes_on_top_of_the_ratio(ours: float, held: bool) -> None:
    assert measured([ours] * 7, [20.0] * 7).within_bound is held


def test_the_constant_is_taken_off_within_each_round() -> None:
    # 1.25, 1.25 and 2 times the peer once 3 ms are off: the median holds.
    assert measured([15.5, 128.0, 23.0], [10.0, 100.0, 10.0]).within_bound is True


def test_what_must_be_high_has_to_reach_the_bound() -> None:
    row = replace(ROW, better="higher", bound=Bound(2, of=PEER))
    assert measured([20.0], [10.0], row).within_bound is True
    assert measured([19.0], [10.0], row).within_bound is False


@pytest.mark.parametrize(("statistic", "held"), [("median", True), ("p95", False)])
def test_an_absolute_bound_is_judged_by_the_statistic_of_its_row(
    statistic: str, held: bool
) -> None:
    row = replace(ROW, bound=Bound(10), absolute=statistic)  # type: ignore[arg-type]
    assert measured([5.0, 5.0, 50.0], [1.0] * 3, row).within_bound is held


def test_a_row_without_a_bound_has_no_verdict() -> None:
    outcome = measured([5.0], [1.0], replace(ROW, bound=None))
    assert outcome.within_bound is None
    assert outcome.bound_value is None


def test_the_bound_is_drawn_with_its_constant_and_written_beside_the_title() -> None:
    picture = draw([measured([10.0] * 7, [20.0] * 7)])
    assert "≤ 1.25× Playwright, raw + 3 ms" in picture
    # 28 ms is the largest value here, so that the dashed line stands where a full bar would end.
    assert f'<line class="bound" x1="{LABEL_WIDTH + BAR_SPACE:.1f}"' in picture
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', picture)]
    assert widths == pytest.approx([BAR_SPACE * 10 / 28, BAR_SPACE * 20 / 28], abs=0.1)


def test_the_constant_stands_in_the_report_and_in_the_json() -> None:
    outcomes = [measured([10.0] * 7, [20.0] * 7)]
    assert "≤ 1.25× Playwright, raw + 3 ms ✓" in markdown_section(outcomes, MACHINE, {}, "today")
    (row,) = as_json(outcomes, MACHINE, {}, "today")["rows"]
    assert row["bound"] == {"limit": 1.25, "of": PEER, "plus": 3}


def test_the_ratio_to_a_peer_that_counts_nothing_is_endless() -> None:
    ratio = paired_ratio([3.0, 3.0, 3.0], [0.0, 0.0, 1.0])
    assert (ratio.median, ratio.low) == (math.inf, 3.0)
    assert format_spread(ratio) == "3.00–∞"
    assert paired_ratio([0.0], [0.0]).median == 1.0


def test_an_endless_ratio_breaks_the_bound_and_leaves_the_json_sound() -> None:
    outcome = measured([4.0] * 7, [0.0] * 7)
    assert outcome.within_bound is False
    (row,) = as_json([outcome], MACHINE, {}, "today")["rows"]
    assert row["ratios"][PEER] == {"median": None, "low": None, "high": None}


def test_less_than_the_constant_holds_even_beside_a_peer_that_counts_nothing() -> None:
    assert measured([2.0] * 7, [0.0] * 7).within_bound is True

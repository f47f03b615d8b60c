"""What has to go: the too old, then the oldest until all fits, and nothing that is in use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.retention import YOUNG_S, Kept, Removal, plan

DAY_S = 86_400.0
ENTRIES = st.lists(
    st.builds(
        Kept,
        kind=st.sampled_from(["sessions", "hub logs"]),
        name=st.text("ab", min_size=1, max_size=3),
        age_s=st.floats(0, 20 * DAY_S),
        size=st.integers(0, 1000),
        in_use=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda one: (one.kind, one.name),
)
AGES = st.sampled_from([0.0, DAY_S, 7 * DAY_S])
SIZES = st.integers(0, 4000)


def kept(name: str, days: float, size: int = 10, *, in_use: bool = False) -> Kept:
    return Kept("sessions", name, days * DAY_S, size, in_use)


def removed(*entries: Kept, days: float = 0, most: int = 0) -> list[tuple[str, str]]:
    found = plan(entries, max_age_s=days * DAY_S, max_bytes=most)
    return [(one.kept.name, one.reason) for one in found]


def test_what_is_older_than_the_limit_goes_the_oldest_first() -> None:
    entries = kept("new", 1), kept("old", 8), kept("older", 9), kept("just", 7)
    assert removed(*entries, days=7) == [("older", "age"), ("old", "age")]


def test_of_what_is_too_much_the_oldest_goes_until_the_rest_fits() -> None:
    entries = kept("c", 1), kept("a", 3), kept("b", 2)
    assert removed(*entries, most=25) == [("a", "size")]
    assert removed(*entries, most=15) == [("a", "size"), ("b", "size")]
    assert removed(*entries, most=30) == []


def test_what_went_by_age_makes_room_for_the_rest() -> None:
    entries = kept("old", 8, 100), kept("b", 2), kept("c", 1)
    assert removed(*entries, days=7, most=20) == [("old", "age")]


def test_what_is_in_use_stays_and_takes_room() -> None:
    entries = kept("living", 30, 100, in_use=True), kept("b", 2), kept("c", 1)
    assert removed(*entries, days=7, most=105) == [("b", "size"), ("c", "size")]


def test_what_was_written_lately_stays_however_much_it_is() -> None:
    entry = Kept("sessions", "new", YOUNG_S - 1, 10_000)
    assert plan([entry], max_age_s=60, max_bytes=1) == []


def test_without_limits_nothing_goes() -> None:
    assert removed(kept("a", 1000, 1 << 50)) == []


def test_what_is_empty_makes_no_room() -> None:
    assert removed(kept("empty", 3, 0), kept("b", 2, 50), most=40) == [("b", "size")]


@given(entries=ENTRIES, max_age_s=AGES, max_bytes=SIZES)
def test_the_plan_is_as_large_as_it_must_be_and_no_larger(
    entries: list[Kept], max_age_s: float, max_bytes: int
) -> None:
    plan_made = plan(entries, max_age_s=max_age_s, max_bytes=max_bytes)
    gone = [one.kept for one in plan_made]
    free = [one for one in entries if not one.in_use and one.age_s >= YOUNG_S]
    assert len(set(gone)) == len(gone)
    assert set(gone) <= set(free)
    assert [one.age_s for one in gone] == sorted((one.age_s for one in gone), reverse=True)
    if max_age_s:
        assert {one for one in free if one.age_s > max_age_s} <= set(gone)
    left = sum(one.size for one in entries) - sum(one.size for one in gone)
    if max_bytes and left > max_bytes:
        assert all(one.size == 0 for one in set(free) - set(gone)), "there was more to remove"
    by_size = [one for one in plan_made if one.reason == "size"]
    if by_size:
        last: Removal = by_size[-1]
        after = [one.kept.size for one in plan_made[plan_made.index(last) + 1 :]]
        assert left + sum(after) + last.kept.size > max_bytes, "the last one need not have gone"


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_in_which_entries_are_found_does_not_matter(order: int) -> None:
    entries = [kept(name, 2) for name in "abc"][::order]
    assert removed(*entries, most=20) == [("a", "size")]

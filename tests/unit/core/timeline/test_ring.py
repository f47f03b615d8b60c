"""The ring against a plain list that forgets nothing: what it keeps, what it says it lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.timeline.ring import Ring, Slice
from tests.support.rounds import examples


@dataclass
class Model:
    """The same ring with everything ever appended still at hand: `all[seq]` is the item."""

    capacity: int
    all: list[int] = field(default_factory=list)
    cleared: int = 0

    @property
    def first(self) -> int:
        return max(self.cleared, len(self.all) - self.capacity)

    def kept(self, cursor: int = 0) -> list[tuple[int, int]]:
        return [(seq, self.all[seq]) for seq in range(max(self.first, cursor), len(self.all))]

    def missed(self, cursor: int) -> int:
        return sum(1 for seq in range(self.cleared, self.first) if seq >= cursor)


def is_even(item: int) -> bool:
    return item % 2 == 0


def check_read(ring: Ring[int], model: Model, cursor: int, limit: int, filtered: bool) -> None:
    page = ring.read(cursor, limit, is_even if filtered else None)
    fitting = [pair for pair in model.kept(cursor) if not filtered or is_even(pair[1])]
    assert page.items == fitting[:limit]
    assert page.matched == len(fitting)
    assert page.missed == model.missed(cursor)
    assert page.next_seq >= cursor
    # Going on from next_seq gives exactly the rest: nothing twice, nothing left out.
    rest = ring.read(page.next_seq, len(model.all) + 1, is_even if filtered else None)
    assert rest.items == fitting[limit:]


APPEND = st.tuples(st.just("append"), st.integers(0, 9))
CLEAR = st.just(("clear",))
TAIL = st.tuples(st.just("tail"), st.integers(0, 12))
READ = st.tuples(st.just("read"), st.integers(0, 40), st.integers(0, 12), st.booleans())
STEPS = st.lists(st.one_of(APPEND, APPEND, APPEND, CLEAR, TAIL, READ), max_size=60)


@settings(max_examples=examples(200))
@given(capacity=st.integers(1, 8), steps=STEPS)
def test_a_ring_behaves_like_a_list_that_forgets_its_oldest(
    capacity: int, steps: list[tuple[object, ...]]
) -> None:
    ring: Ring[int] = Ring(capacity)
    model = Model(capacity)
    for step in steps:
        match step:
            case ("append", int(item)):
                assert ring.append(item) == len(model.all)
                model.all.append(item)
            case ("clear",):
                assert ring.clear() == len(model.kept())
                model.cleared = len(model.all)
            case ("tail", int(limit)):
                newest = model.kept()[-limit:] if limit else []
                assert ring.tail(limit) == Slice(newest, len(model.all), 0, len(newest))
            case ("read", int(cursor), int(limit), bool(filtered)):
                check_read(ring, model, cursor, limit, filtered)
        assert list(ring) == model.kept()
        assert len(ring) == len(model.kept())
        assert ring.next_seq == len(model.all)
        assert ring.first_seq == model.first
        assert ring.dropped == model.first - model.cleared


@settings(max_examples=examples(100))
@given(
    items=st.lists(st.integers(0, 5), max_size=80),
    capacity=st.integers(1, 80),
    limit=st.integers(1, 9),
)
def test_paging_by_next_seq_visits_each_kept_match_exactly_once(
    items: list[int], capacity: int, limit: int
) -> None:
    ring: Ring[int] = Ring(capacity)
    for item in items:
        ring.append(item)
    visited: list[tuple[int, int]] = []
    cursor = 0
    for _ in range(len(items) + 1):
        page = ring.read(cursor, limit, is_even)
        assert len(page.items) <= limit
        visited += page.items
        if cursor == page.next_seq:
            break
        cursor = page.next_seq
    assert visited == [(seq, item) for seq, item in ring if is_even(item)]
    assert ring.read(cursor, limit, is_even).items == []


def test_the_filter_applies_before_the_page_is_cut() -> None:
    ring: Ring[int] = Ring(100)
    for item in range(100):
        ring.append(item)
    page = ring.read(0, 3, lambda item: item % 30 == 29)
    assert [item for _, item in page.items] == [29, 59, 89]
    assert page.matched == 3
    assert page.next_seq == 100


def test_a_reader_slower_than_the_producer_is_told_of_every_gap() -> None:
    """25,000 items through a ring of 10,000, a page of 200 read after every 1,000."""
    ring: Ring[int] = Ring(10_000)
    seen: list[int] = []
    missed = cursor = 0

    def read_page() -> None:
        nonlocal missed, cursor
        page = ring.read(cursor, 200)
        assert all(seq == item for seq, item in page.items)
        seen.extend(seq for seq, _ in page.items)
        missed += page.missed
        cursor = page.next_seq

    for item in range(25_000):
        ring.append(item)
        if item % 1_000 == 999:
            read_page()
    while cursor < ring.next_seq:
        read_page()

    assert len(seen) == len(set(seen))
    assert seen == sorted(seen)
    assert missed > 0
    assert len(seen) + missed == 25_000


def test_a_ring_of_one_keeps_the_newest_alone() -> None:
    ring: Ring[str] = Ring(1)
    for item in "abc":
        ring.append(item)
    assert list(ring) == [(2, "c")]
    assert ring.read(0, 10) == Slice([(2, "c")], 3, 2, 1)
    assert ring.clear() == 1
    assert ring.append("d") == 3
    assert list(ring) == [(3, "d")]


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_ring_that_could_hold_nothing_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="at least one item"):
        Ring(capacity)


def test_what_the_reader_cleared_itself_does_not_count_as_missed() -> None:
    ring: Ring[int] = Ring(2)
    for item in range(5):
        ring.append(item)
    assert ring.read(0, 10).missed == 3
    ring.clear()
    assert ring.read(0, 10) == Slice([], 5, 0, 0)
    assert ring.dropped == 0
    for item in range(3):
        ring.append(item)
    assert ring.read(0, 10).missed == 1
    assert ring.read(6, 10).missed == 0


def test_a_cursor_ahead_of_the_ring_waits_there() -> None:
    ring: Ring[int] = Ring(10)
    ring.append(1)
    assert ring.read(7, 10) == Slice([], 7, 0, 0)
    assert ring.read(7, 10, is_even) == Slice([], 7, 0, 0)


def test_a_ring_expires_when_nothing_came_for_longer_than_its_time_to_live() -> None:
    ring: Ring[int] = Ring(2, ttl=1_000)
    assert not ring.expired(1e12), "a ring that was never used has no last item to be old"
    ring.append(1, at=5_000)
    assert not ring.expired(6_000)
    assert ring.expired(6_001)
    ring.append(2, at=6_500)
    assert not ring.expired(7_500)


def test_a_ring_without_a_time_to_live_never_expires() -> None:
    ring: Ring[int] = Ring(2)
    ring.append(1, at=0)
    assert not ring.expired(1e15)
    assert ring.capacity == 2


@pytest.mark.parametrize("capacity", [1, 3, 5, 9])
def test_a_resized_ring_keeps_the_newest_and_goes_on(capacity: int) -> None:
    ring: Ring[int] = Ring(5)
    for number in range(8):
        ring.append(number)
    ring.resize(capacity, ttl=None)
    kept = min(capacity, 5)
    assert [seq for seq, _ in ring] == list(range(8 - kept, 8))
    assert ring.dropped == 8 - kept
    for number in range(8, 20):
        ring.append(number)
    assert [item for _, item in ring] == list(range(20 - min(capacity, kept + 12), 20))
    assert ring.next_seq == 20


def test_who_waits_is_woken_by_the_next_item_and_not_again() -> None:
    ring: Ring[int] = Ring(2)
    woken: list[str] = []

    def first() -> None:
        woken.append("first")

    ring.wait(first)
    ring.wait(first)
    ring.wait(lambda: woken.append("second"))
    assert woken == []
    ring.append(1)
    assert sorted(woken) == ["first", "second"]
    ring.append(2)
    assert len(woken) == 2
    ring.wait(first)
    ring.wait_no_more(first)
    ring.append(3)
    assert len(woken) == 2

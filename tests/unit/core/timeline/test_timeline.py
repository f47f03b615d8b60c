"""The merge of a session's rings: order, cursors, gaps by source, and what belongs together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.timeline.events import Event
from pilothouse.core.timeline.ring import Ring
from pilothouse.core.timeline.timeline import Moment, Timeline
from tests.support.rounds import examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed(Event):
    source: ClassVar[str] = "console"

    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Event):
    source: ClassVar[str] = "network"

    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(Event):
    source: ClassVar[str] = "steps"


def keyed(*keys: str) -> frozenset[str]:
    return frozenset(keys)


def names(moments: list[Moment]) -> list[str]:
    return [moment.key for moment in moments]


def test_sources_are_merged_in_the_order_in_which_things_happened() -> None:
    timeline = Timeline()
    for at in (1, 4, 6):
        timeline.emit(Printed(at=at))
    for at in (2, 3, 7):
        timeline.emit(Sent(at=at))
    assert [moment.event.at for moment in timeline] == [1, 2, 3, 4, 6, 7]
    assert names(list(timeline)) == [
        "console:0", "network:0", "network:1", "console:1", "console:2", "network:2",
    ]  # fmt: skip


def test_each_source_counts_from_zero_on_its_own() -> None:
    timeline = Timeline()
    assert [timeline.emit(Printed(at=at)) for at in range(3)] == [0, 1, 2]
    assert [timeline.emit(Sent(at=at)) for at in range(2)] == [0, 1]
    assert timeline.kept() == {"console": 3, "network": 2}


EVENTS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([Printed, Sent, Stepped])))


@settings(max_examples=examples(100))
@given(events=EVENTS, limit=st.integers(1, 7), capacity=st.integers(1, 30))
def test_paging_by_cursor_gives_every_kept_moment_once_and_in_order(
    events: list[tuple[int, type[Event]]], limit: int, capacity: int
) -> None:
    timeline = Timeline(dict.fromkeys(("console", "network", "steps"), capacity))
    now = 0.0
    for wait, kind in events:
        now += wait
        timeline.emit(kind(at=now))
    pages: list[Moment] = []
    cursor: dict[str, int] = {}
    missed: dict[str, int] = {}
    while True:
        reading = timeline.read(cursor, limit)
        missed = missed or reading.missed
        pages += reading.moments
        if not reading.moments:
            break
        assert len(reading.moments) <= limit
        cursor = reading.cursor
    assert pages == list(timeline)
    assert [m.event.at for m in pages] == sorted(m.event.at for m in pages)
    assert missed == timeline.dropped()
    assert timeline.read(cursor, limit).missed == {}


def test_a_flood_in_one_source_pushes_no_other_out() -> None:
    timeline = Timeline({"console": 10})
    timeline.emit(Stepped(at=0))
    for at in range(1_000):
        timeline.emit(Printed(at=at))
    assert timeline.kept() == {"steps": 1, "console": 10}
    assert timeline.dropped() == {"console": 990}
    reading = timeline.read({}, 100)
    assert names(reading.moments)[0] == "steps:0"
    assert reading.missed == {"console": 990}


def test_a_reader_that_fell_behind_is_told_by_source_and_only_once() -> None:
    timeline = Timeline({"console": 3, "network": 3})
    for at in range(2):
        timeline.emit(Printed(at=at))
        timeline.emit(Sent(at=at))
    cursor = timeline.read({}, 10).cursor
    for at in range(2, 8):
        timeline.emit(Printed(at=at))
    reading = timeline.read(cursor, 10)
    assert reading.missed == {"console": 3}
    assert names(reading.moments) == ["console:5", "console:6", "console:7"]
    assert timeline.read(reading.cursor, 10).missed == {}


def test_a_gap_is_told_once_even_when_the_page_had_no_room_for_that_source() -> None:
    timeline = Timeline({"console": 2})
    timeline.emit(Sent(at=0))
    for at in range(1, 6):
        timeline.emit(Printed(at=at))
    first = timeline.read({}, 1)
    assert names(first.moments) == ["network:0"]
    assert first.missed == {"console": 3}
    second = timeline.read(first.cursor, 10)
    assert names(second.moments) == ["console:3", "console:4"]
    assert second.missed == {}


def test_the_tail_is_the_newest_and_its_cursor_follows_it() -> None:
    timeline = Timeline()
    for at in range(5):
        timeline.emit(Printed(at=at * 2))
        timeline.emit(Sent(at=at * 2 + 1))
    tail = timeline.tail(3)
    assert [moment.event.at for moment in tail.moments] == [7, 8, 9]
    assert timeline.read(tail.cursor, 10).moments == []
    timeline.emit(Sent(at=20))
    assert names(timeline.read(tail.cursor, 10).moments) == ["network:5"]


def test_a_source_that_first_spoke_after_the_cursor_was_given_is_read_from_its_start() -> None:
    timeline = Timeline()
    timeline.emit(Printed(at=1))
    cursor = timeline.tail(10).cursor
    timeline.emit(Sent(at=2))
    assert names(timeline.read(cursor, 10).moments) == ["network:0"]


def test_related_follows_shared_keys_through_other_moments() -> None:
    timeline = Timeline()
    timeline.emit(Stepped(at=1, keys=keyed("step:1")))
    timeline.emit(Sent(at=2, keys=keyed("step:1", "request:9")))
    timeline.emit(Printed(at=3, keys=keyed("request:9", "trace:t")))
    timeline.emit(Printed(at=4, keys=keyed("trace:t")))
    timeline.emit(Printed(at=5, keys=keyed("request:8")))
    timeline.emit(Printed(at=6))
    chain = ["steps:0", "network:0", "console:0", "console:1"]
    assert names(timeline.related(["step:1"])) == chain
    assert names(timeline.related(["trace:t"])) == chain
    assert names(timeline.related(["request:8"])) == ["console:2"]
    assert timeline.related(["nobody"]) == []
    assert timeline.related([]) == []


def test_a_moment_is_found_by_its_own_name() -> None:
    timeline = Timeline()
    timeline.emit(Printed(at=1))
    timeline.emit(Printed(at=2, keys=keyed("request:1")))
    timeline.emit(Sent(at=3, keys=keyed("request:1")))
    assert names(timeline.related(["console:0"])) == ["console:0"]
    assert names(timeline.related(["console:1"])) == ["console:1", "network:0"]


def test_moments_may_point_at_each_other_in_a_circle() -> None:
    timeline = Timeline()
    timeline.emit(Printed(at=1, keys=keyed("a", "b")))
    timeline.emit(Sent(at=2, keys=keyed("b", "c")))
    timeline.emit(Stepped(at=3, keys=keyed("c", "a")))
    assert len(timeline.related(["a"])) == 3


def test_around_takes_both_edges_of_the_window() -> None:
    timeline = Timeline()
    for at in (10, 20, 30, 40):
        timeline.emit(Printed(at=at))
    timeline.emit(Sent(at=25))
    found = timeline.around(25, before=5, after=15)
    assert [moment.event.at for moment in found] == [20, 25, 30, 40]


def test_a_listener_hears_each_event_until_it_is_removed() -> None:
    timeline = Timeline()
    heard: list[Event] = []
    remove = timeline.listen(heard.append)
    first, second = Printed(at=1), Sent(at=2)
    timeline.emit(first)
    timeline.emit(second)
    remove()
    timeline.emit(Printed(at=3))
    assert heard == [first, second]


def test_a_listener_that_leaves_while_called_keeps_no_other_from_hearing() -> None:
    timeline = Timeline()
    heard: list[str] = []

    def once(event: Event) -> None:
        heard.append("once")
        leave()

    leave = timeline.listen(once)
    timeline.listen(lambda event: heard.append("always"))
    timeline.emit(Printed(at=1))
    timeline.emit(Printed(at=2))
    assert heard == ["once", "always", "always"]


def test_removing_a_listener_twice_is_harmless() -> None:
    timeline = Timeline()
    heard: list[Event] = []
    remove = timeline.listen(heard.append)
    timeline.listen(heard.append)
    remove()
    remove()
    timeline.emit(Printed(at=1))
    assert len(heard) == 1, "the second call must not take another's listener"


def test_who_waits_is_woken_by_whichever_ring_grows_also_by_those_of_groups() -> None:
    timeline, woken = Timeline(), list[int]()
    observed: Ring[Printed] = Ring(5)
    timeline.emit(Printed(at=1))

    def wake() -> None:
        woken.append(1)

    stop = timeline.wait(wake)
    timeline.emit(Printed(at=2))
    assert len(woken) == 1
    timeline.emit(Sent(at=3))
    assert len(woken) == 2, "a source that came meanwhile"
    timeline.adopt("tab", observed)
    assert len(woken) == 3, "an adopted ring may hold something already"
    observed.append(Printed(at=4))
    assert len(woken) == 4
    stop()
    again = timeline.wait(wake)
    again()
    timeline.emit(Stepped(at=5))
    observed.append(Printed(at=6))
    assert len(woken) == 4


def test_a_moment_is_found_by_its_place_for_as_long_as_it_is_kept() -> None:
    timeline = Timeline({"console": 2})
    for at in range(3):
        timeline.emit(Printed(at=at, text=str(at)))
    found = timeline.find("console", 1)
    assert found is not None
    assert found.key == "console:1"
    assert found.event.facts() == {"text": "1"}
    for source, seq in (("console", 0), ("console", 3), ("nowhere", 0)):
        assert timeline.find(source, seq) is None

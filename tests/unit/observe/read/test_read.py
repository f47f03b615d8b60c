"""Reading against a naive oracle: filters, pages, masking, and answers that fit their budget."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.fence import visible_json
from pilothouse.core.declare.paging import estimated_tokens
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.secrets.shapes import MASK
from pilothouse.observe.model import Seen
from pilothouse.observe.read.budget import EventPage, fitting
from pilothouse.observe.read.query import Query
from pilothouse.observe.read.read import MAX_LIMIT, compact, read, settle_places, summary, tail
from pilothouse.observe.record.observation import Observation
from pilothouse.observe.tools import ReadEvents, _status
from tests.support.rounds import examples

TEXTS = ("text", "payloadPreview", "data", "errorText", "postDataPreview")
HEAD = {"ts": 0, "sessionId": "S"}


def observation(events: list[dict[str, Any]], capacity: int = 10_000) -> Observation:
    """An observation that recorded these, the n-th one at n ms."""
    made = Observation("T", "127.0.0.1", 9222, lambda: 0.0, lambda uri: None, capacity, 60)
    for at, event in enumerate(events):
        made.ring.append(Seen(at, {**HEAD, **event}), at)
    return made


def lines(count: int, text: str = "line") -> list[dict[str, Any]]:
    return [{"kind": "console", "type": "log", "text": f"{text} {n}"} for n in range(count)]


def seqs(events: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in events]


# Filters


def has_status(asked: str, status: int) -> bool:
    if asked.endswith("xx"):
        return str(status)[0] == asked[0]
    sign, number = asked.rstrip("0123456789"), int(asked.lstrip("<>="))
    signs = {"": operator.eq, ">": operator.gt, "<": operator.lt, ">=": operator.ge}
    return bool(signs.get(sign, operator.le)(status, number))


def fits(at: int, event: dict[str, Any], query: Query) -> bool:
    texts = [event.get(name, "") for name in TEXTS] + event.get("args", [])
    level = event["type"] if event["kind"] in ("console", "log") else ""
    return all(
        (
            not query.kinds or event["kind"] in query.kinds,
            not query.method or event.get("method") == query.method.upper(),
            not query.level or level == query.level,
            not query.request_id or event.get("requestId") == query.request_id,
            at >= query.since,
            not query.status or ("status" in event and has_status(query.status, event["status"])),
            query.url_includes in event.get("url", ""),
            not query.text_includes or any(query.text_includes in text for text in texts),
        )
    )


WORDS = st.sampled_from(["", "a", "ab", 'say "hi"', "back\\slash", "\n", "é", "\u2028"])
URLS = st.sampled_from(["", "http://a.test/", "http://a.test/api/x", "ws://b.test/"])
STATUSES = (100, 200, 204, 301, 400, 404, 500, 599)
EVENTS = st.one_of(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["console", "log"]),
            "type": st.sampled_from(["log", "warn", "error"]),
            "text": WORDS,
            "args": st.lists(WORDS, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["request", "response", "loadingFailed"]),
            "url": URLS,
            "method": st.sampled_from(["GET", "POST"]),
            "requestId": st.sampled_from(["1.1", "1.2"]),
        },
        optional={
            "status": st.sampled_from(STATUSES),
            "errorText": WORDS,
            "postDataPreview": WORDS,
        },
    ),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["websocket", "other"]), "type": st.just("x"), "url": URLS},
        optional={"payloadPreview": WORDS, "data": WORDS},
    ),
)
QUERIES = st.builds(
    Query,
    kinds=st.sets(st.sampled_from(["console", "request", "response", "other"])).map(tuple),
    url_includes=st.sampled_from(["", "", "a.test", "/api/", "nowhere"]),
    method=st.sampled_from(["", "", "GET", "post"]),
    text_includes=st.one_of(st.just(""), WORDS),
    level=st.sampled_from(["", "", "log", "error"]),
    since=st.sampled_from([0.0, 0.0, 3.0, 10.0]),
    status=st.sampled_from(["", "", "404", "5xx", ">=400", "<300", ">204", "<=204"]),
    request_id=st.sampled_from(["", "", "1.1"]),
)
FIELDS = {
    "kinds": ("console", "websocket"),
    "url_includes": "a.test",
    "method": "post",
    "text_includes": "a",
    "level": "error",
    "since": 7.0,
    "status": ">=400",
    "request_id": "1.2",
}


@settings(max_examples=examples(150))
@given(
    events=st.lists(EVENTS, max_size=30),
    queries=st.lists(QUERIES, min_size=1, max_size=4),
    capacity=st.sampled_from([5, 100]),
    limit=st.integers(1, 7),
    offset=st.integers(0, 12),
)
def test_pages_visit_each_event_that_fits_once_and_count_the_rest(
    events: list[dict[str, Any]], queries: list[Query], capacity: int, limit: int, offset: int
) -> None:
    recorded = observation(events, capacity)
    first = max(0, len(events) - capacity)
    alone = [Query(**{name: value}) for name, value in FIELDS.items()]  # type: ignore[arg-type]
    for query in [*queries, *alone]:
        start = max(first, offset)
        expected = [n for n, event in enumerate(events) if n >= start and fits(n, event, query)]
        found: list[int] = []
        at, left = offset, len(expected)
        while True:
            page = read(recorded, query, at, limit, Redactor())
            assert page.matched == left
            assert len(page.events) == min(limit, left)
            assert page.dropped == max(0, first - at)
            found += seqs(page.events)
            left -= len(page.events)
            assert page.next_offset >= at
            at = page.next_offset
            if not left:
                break
        assert found == expected


@pytest.mark.parametrize("asked", ["patch", "PATCH"])
def test_a_method_is_found_in_any_case_as_pages_may_send_it_in_any(asked: str) -> None:
    recorded = observation([{"kind": "request", "method": "patch", "requestId": "1"}])
    assert read(recorded, Query(method=asked), 0, 10, Redactor()).matched == 1


RANGES = {"404": (404, 404), " >= 400 ": (400, 999), ">400": (401, 999), "<300": (1, 299)}


@pytest.mark.parametrize(
    ("text", "expected"), [*RANGES.items(), ("<=9", (1, 9)), ("5XX", (500, 599))]
)
def test_a_status_is_a_number_a_comparison_or_a_class(text: str, expected: tuple[int, int]) -> None:
    assert Query(status=text).status_range() == expected
    assert _status(text) == text


@pytest.mark.parametrize("text", ["abc", "xxx", "4x", ">", "=>400", "40O", "--", "9" * 5000])
def test_any_other_status_is_refused_with_the_forms_that_fit(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        _status(text)
    assert ">=400" in caught.value.hint


def test_an_event_without_a_status_never_fits_one() -> None:
    for status in (">=100", "<300", "<=0", "0", ">=0", "0xx"):
        assert read(observation(lines(1)), Query(status=status), 0, 9, Redactor()).matched == 0


def test_half_a_character_is_found_nowhere() -> None:
    recorded = observation(lines(3))
    assert read(recorded, Query(text_includes="\ud800"), 0, 10, Redactor()).events == []


def test_a_limit_over_the_most_is_clamped_and_the_answer_says_so() -> None:
    recorded = observation(lines(MAX_LIMIT + 5))
    page = read(recorded, Query(), 0, 5000, Redactor())
    assert len(page.events) == MAX_LIMIT
    assert page.next_offset == MAX_LIMIT
    assert "5000 was clamped to 1000" in fitting(page, "observing", None).notes[0]
    assert fitting(read(recorded, Query(), 0, 10, Redactor()), "observing", None).notes == []


def test_dropped_events_are_counted_and_explained() -> None:
    recorded = observation(lines(25), capacity=10)
    answer = fitting(read(recorded, Query(), 5, 5, Redactor()), "observing", None)
    assert (answer.dropped, answer.matched, answer.next_offset) == (10, 10, 20)
    assert "10 events" in answer.notes[0]
    assert seqs(tail(recorded, 3, Redactor()).events) == [22, 23, 24]
    assert tail(recorded, 3, Redactor()).next_offset == 25


# Masking

SECRET = "abcdef1234567890"
LOUD: dict[str, Any] = {
    "kind": "response",
    "requestId": "1",
    "url": f"http://a.test/?access_token={SECRET}",
    "headers": {"Authorization": f"Bearer {SECRET}", "Accept": "*/*"},
    "requestHeaders": {"Cookie": f"sid={SECRET}"},
    **dict.fromkeys(TEXTS, f'{{"password": "{SECRET}"}}'),
    "args": [f"token={SECRET}"],
    "argsPreview": [{"type": "object", "properties": {"password": SECRET}}],
    "stack": {"url": f"http://a.test/a.js?access_token={SECRET}", "line": 1, "column": 1},
    "frames": [{"url": f"http://a.test/b.js?access_token={SECRET}", "line": 1, "column": 1}],
}


@pytest.mark.anyio
async def test_secrets_are_masked_when_shown_and_whole_in_the_ring() -> None:
    recorded = observation([LOUD])
    page = read(recorded, Query(), 0, 10, Redactor())
    await settle_places(page, None, Redactor())
    assert SECRET not in visible_json(page.events)
    shown = page.events[0]
    assert shown["headers"] == {"Authorization": f"Bearer {MASK}", "Accept": "*/*"}
    assert shown["url"] == f"http://a.test/?access_token={MASK}"
    assert shown["frames"][0]["url"].endswith(MASK)
    assert next(iter(recorded.ring))[1].unpack() == {**HEAD, **LOUD}
    # What is masked can still be searched for by what surrounds it.
    assert read(recorded, Query(text_includes="password"), 0, 10, Redactor()).matched == 1


# Answers that fit


def test_compact_leaves_out_the_bulk_and_cuts_long_texts() -> None:
    event = {"seq": 1, "kind": "console", "text": "x" * 300, "args": ["x"], "stack": None, "n": 0}
    bulky = {**event, "headers": {"a": "b"}, "canceled": False}
    assert compact(bulky) == {"seq": 1, "kind": "console", "text": "x" * 200 + "…", "n": 0}


def test_a_summary_counts_kinds_levels_and_statuses() -> None:
    events = [*lines(2), {"kind": "response", "status": 404}, {"kind": "response", "status": 200}]
    assert summary(read(observation(events), Query(), 0, 10, Redactor()).events) == {
        "kinds": {"console": 2, "response": 2},
        "levels": {"log": 2},
        "statuses": {"4xx": 1, "2xx": 1},
        "firstSeq": 0,
        "lastSeq": 3,
    }
    assert summary([])["firstSeq"] is None


BULK = {"kind": "response", "status": 200, "headers": {"X-Long": "h" * 400}}
MIXED = [
    {**BULK, "url": f"http://a.test/{'p' * (n % 90)}", "text": "t" * (n % 700)} for n in range(150)
]
LIMITS = ReadEvents.model_json_schema()["properties"]["maxTokens"]["anyOf"][0]


def cost(answer: EventPage) -> int:
    return estimated_tokens(visible_json(answer.dump()))


def test_an_answer_degrades_from_full_to_compact_to_summary_as_its_budget_shrinks() -> None:
    page = read(observation(MIXED), Query(), 0, 200, Redactor())
    details = [fitting(page, "observing", most).detail for most in (40_000, 10_000, 2_000)]
    assert details == ["full", "compact", "summary"]
    assert "left out" in fitting(page, "observing", 10_000).notes[-1]


@pytest.mark.parametrize("budget", [LIMITS["minimum"], 400, 1_000, 3_000, 9_000, 30_000])
def test_paging_within_a_budget_loses_no_event_and_always_moves_on(budget: int) -> None:
    recorded, found, at = observation(MIXED), [], 0
    while at < len(MIXED):
        page = read(recorded, Query(), at, 200, Redactor())
        answer = fitting(page, "observing", budget)
        assert cost(answer) <= budget * 1.1
        assert answer.next_offset > at, "a reader that goes on at nextOffset would never end"
        found += seqs(answer.events)
        left = len(page.events) - len(answer.events)
        assert not left or f"{left} of {len(page.events)} events" in answer.notes[-1]
        at = answer.next_offset
    assert found == list(range(len(MIXED)))


def test_an_event_larger_than_the_budget_does_not_stop_the_reader() -> None:
    events = [{"kind": "request", "requestId": "1", "url": "data:," + "x" * 9_000}, *lines(1)]
    page = read(observation(events), Query(), 0, 10, Redactor())
    answer = fitting(page, "observing", 500)
    assert cost(answer) <= 550
    assert answer.next_offset > 0

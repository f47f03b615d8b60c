"""One observed target: what it keeps, in which order, and that nothing a browser sends stops it."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any

import orjson
import psutil
import pytest

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.observe.model import Body, Filters
from pilothouse.observe.normalize.network import MAX_REQUESTS
from pilothouse.observe.read.budget import fitting
from pilothouse.observe.read.query import Query
from pilothouse.observe.read.read import read
from pilothouse.observe.record.observation import REPEATED_MOST, Observation

FUZZED = 20_000
CAPACITY = 500


class Desk:
    """An observation with a clock that is set by hand, and a list of what it announced."""

    def __init__(self, capacity: int = CAPACITY, ttl_sec: float = 60) -> None:
        self.now = 1_790_000_000_000.0
        self.announced: list[str] = []
        self.observation = Observation(
            "T", "127.0.0.1", 9222, lambda: self.now, self.announced.append, capacity, ttl_sec
        )

    def take(self, method: str, **params: Any) -> list[dict[str, Any]]:
        return self.observation.take(method, params, "S")

    def say(self, text: str, kind: str = "log") -> list[dict[str, Any]]:
        said = [{"type": "string", "value": text}]
        return self.take("Runtime.consoleAPICalled", type=kind, args=said)

    def ask(self, url: str, **more: Any) -> list[dict[str, Any]]:
        asked = {"url": url, "method": "GET", "headers": {}}
        return self.take("Network.requestWillBeSent", requestId=url, request=asked, **more)

    def kinds(self) -> list[str]:
        return [seen.kind for _, seen in self.observation.ring]


def test_an_event_gets_the_servers_time_the_session_and_the_next_seq() -> None:
    desk = Desk()
    desk.say("one")
    desk.now += 12.75
    desk.say("two")
    (first, one), (second, two) = desk.observation.ring
    assert (first, second) == (0, 1)
    assert one.unpack()["ts"] == 1_790_000_000_000
    assert two.unpack()["ts"] == 1_790_000_000_012
    assert two.unpack()["sessionId"] == "S"
    assert two.level == "log"


def test_one_protocol_event_is_announced_once_however_many_events_it_makes() -> None:
    desk = Desk()
    desk.ask("http://a.test/")
    moved = {"url": "http://a.test/", "status": 302}
    assert len(desk.ask("http://a.test/", redirectResponse=moved)) == 2
    assert desk.announced == ["cdp://events/T"] * 2


def test_what_is_not_kept_is_not_announced() -> None:
    desk = Desk()
    desk.observation.filters = Filters(kinds=("console",))
    assert desk.ask("http://a.test/") == []
    assert desk.take("Network.requestWillBeSent", requestId="1") == []
    assert desk.take("Network.requestServedFromCache", requestId="1") == []
    assert desk.announced == []
    tally = desk.observation.tally
    assert (tally.seen, tally.filtered, tally.malformed) == (1, 1, 1)


def test_kinds_choose_between_console_log_and_network_and_never_hide_what_befell_the_page() -> None:
    desk = Desk()
    desk.observation.filters = Filters(kinds=("console", "network"))
    desk.say("line")
    desk.ask("http://a.test/")
    desk.take("Log.entryAdded", entry={"level": "error", "text": "x"})
    desk.take("Network.webSocketCreated", requestId="2", url="ws://a.test/")
    desk.take("Inspector.targetCrashed")
    assert desk.kinds() == ["console", "request", "websocket", "other"]


def test_blocking_is_judged_before_allowing_and_console_lines_by_neither() -> None:
    desk = Desk()
    desk.observation.filters = Filters(url_allowlist=("/api/",), url_blocklist=("secret",))
    desk.ask("http://a.test/api/items")
    desk.ask("http://a.test/api/secret")
    desk.ask("http://a.test/logo.png")
    desk.take("Network.loadingFinished", requestId="http://a.test/api/items")
    desk.take("Network.loadingFinished", requestId="http://a.test/logo.png")
    desk.say("a line has no url")
    # An exception has one, which an allowlist of traffic does not judge.
    desk.take("Runtime.exceptionThrown", exceptionDetails={"text": "x", "url": "app.js"})
    assert desk.kinds() == ["request", "loadingFinished", "console", "log"]
    assert desk.observation.tally.filtered == 3


def test_a_new_limit_holds_from_the_next_event_on() -> None:
    desk = Desk()
    desk.say("x" * 50)
    desk.observation.filters = Filters(max_body_bytes=10)
    desk.say("x" * 50)
    first, second = (seen.unpack() for _, seen in desk.observation.ring)
    assert len(first["text"]) == 50
    assert len(second["text"]) == 10
    assert second["truncated"]["text"] == 50


def test_clearing_keeps_the_count_and_is_announced() -> None:
    desk = Desk(capacity=2)
    for text in "abc":
        desk.say(text)
    assert desk.observation.dropped == 1
    desk.observation.clear()
    assert desk.announced == ["cdp://events/T"] * 4
    assert desk.observation.dropped == 0
    desk.say("d")
    assert [seq for seq, _ in desk.observation.ring] == [3]


def test_clearing_forgets_the_bodies_too() -> None:
    desk = Desk()
    desk.observation.bodies.keep("1.1", Body("text/plain", "secret", False))
    desk.observation.clear()
    assert desk.observation.bodies.get("1.1") is None


def test_an_observation_lives_as_long_as_something_is_added_in_time() -> None:
    desk = Desk(ttl_sec=60)
    desk.now += 60_000
    assert not desk.observation.expired(desk.now)
    assert desk.observation.expired(desk.now + 1)
    desk.say("still here")
    desk.now += 60_000
    assert not desk.observation.expired(desk.now)
    assert desk.observation.expired(desk.now + 1)


def test_a_note_of_our_own_is_an_other_event() -> None:
    desk = Desk()
    desk.observation.note("gap", reason="lost")
    told = next(iter(desk.observation.ring))[1].unpack()
    assert (told["kind"], told["type"], told["reason"]) == ("other", "gap", "lost")
    assert desk.announced == ["cdp://events/T"]


def test_the_session_of_each_request_is_remembered_within_a_bound() -> None:
    desk = Desk(capacity=10)
    for number in range(100):
        desk.ask(f"http://a.test/{number}")
    assert len(desk.observation.session_of) == 20
    assert desk.observation.session_of["http://a.test/99"] == "S"


# Fuzzing


def _deep(make: Any, depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = make(value)
    return value


JUNK: tuple[Any, ...] = (
    *(None, True, -1, 10**30, -(10**30), 1.5, float("nan"), float("inf"), "", "404", "\ud800"),
    *("x\udfffy", "é" * 50, "[object Object]", [], {}, [1, [None]], {"a": {"\udc00": 1}}, [{}] * 9),
)
DEEP: tuple[Any, ...] = (
    _deep(lambda inner: {"a": inner}, 300, {}),
    _deep(lambda inner: [inner], 2_000, []),
    _deep(lambda inner: {"properties": [{"name": "a", "valuePreview": inner}]}, 600, {}),
    _deep(lambda inner: {"callFrames": [], "parent": inner}, 900, {}),
)
FRAME = {"url": "app.js", "lineNumber": 1, "columnNumber": 2, "functionName": "f"}
SHOWN = {"type": "object", "properties": [{"name": "a", "type": "number", "value": "1"}]}
ARGUMENT = {"type": "object", "description": "Object", "preview": SHOWN}
TRACE = {"callFrames": [FRAME], "parent": {"callFrames": [FRAME]}}
ANSWER = {"url": "http://a.test/", "status": 200, "headers": {"A": "b"}, "timing": {"sendEnd": 1}}
ASKED = {"url": "http://a.test/", "method": "GET", "headers": {"A": "b"}, "postData": "a=1"}
ENTRY = {"level": "error", "text": "x", "url": "app.js", "args": [ARGUMENT], "stackTrace": TRACE}
THROWN = {"text": "Uncaught", "exception": ARGUMENT, "stackTrace": TRACE, "url": "app.js"}
SAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("Runtime.consoleAPICalled", {"type": "log", "args": [ARGUMENT], "stackTrace": TRACE}),
    ("Runtime.exceptionThrown", {"exceptionDetails": THROWN}),
    ("Log.entryAdded", {"entry": ENTRY}),
    ("Network.requestWillBeSent", {"requestId": "1", "request": ASKED, "redirectResponse": ANSWER}),
    ("Network.requestWillBeSent", {"requestId": "2", "request": ASKED, "type": "Fetch"}),
    ("Network.responseReceived", {"requestId": "3", "response": ANSWER, "type": "Fetch"}),
    ("Network.loadingFinished", {"requestId": "1", "encodedDataLength": 5}),
    ("Network.loadingFailed", {"requestId": "1", "errorText": "net::ERR", "corsErrorStatus": {}}),
    ("Network.webSocketCreated", {"requestId": "4", "url": "ws://a.test/"}),
    ("Network.webSocketHandshakeResponseReceived", {"requestId": "4", "response": ANSWER}),
    ("Network.webSocketFrameSent", {"requestId": "4", "response": {"payloadData": "x"}}),
    ("Network.webSocketFrameError", {"requestId": "4", "errorMessage": "x"}),
    ("Network.eventSourceMessageReceived", {"requestId": "1", "data": "x", "eventName": "y"}),
    ("Inspector.detached", {"reason": "x"}),
    ("Page.frameNavigated", {"frame": {"url": "http://a.test/"}}),
]


def _spoil(chance: random.Random, value: Any) -> Any:
    """The same value with one thing in it, at any depth, taken away or replaced."""
    if isinstance(value, dict | list) and value and chance.random() < 0.85:
        made = copy.copy(value)
        key = chance.choice(list(made)) if isinstance(made, dict) else chance.randrange(len(made))
        if chance.random() < 0.2:
            del made[key]
        else:
            made[key] = _spoil(chance, made[key])
        return made
    return chance.choice(DEEP if chance.random() < 0.03 else JUNK)


def _fuzzed(seed: int) -> tuple[str, dict[str, Any]]:
    chance = random.Random(seed)
    method, params = chance.choice(SAMPLES)
    spoilt: Any = params
    for _ in range(chance.randrange(1, 4)):
        spoilt = _spoil(chance, spoilt)
    return method, spoilt if isinstance(spoilt, dict) else params


@pytest.mark.parametrize("filters", [Filters(), Filters((), ("a.test",), ("blocked",))])
def test_no_protocol_event_raises_and_each_kept_one_has_the_next_seq(filters: Filters) -> None:
    desk, raised, announcing = Desk(), Counter[str](), 0
    desk.observation.filters = filters
    ring = desk.observation.ring
    before = psutil.Process().memory_info().rss
    for seed in range(FUZZED // 2):
        method, params = _fuzzed(seed)
        seq = ring.next_seq
        try:
            kept = desk.observation.take(method, params, "S")
        except Exception as error:
            raised[f"{method}: {error!r:.80}"] += 1
            continue
        announcing += bool(kept)
        assert ring.next_seq == seq + len(kept)
        for _, seen in ring.tail(len(kept)).items:
            assert orjson.loads(seen.packed)["kind"] == seen.kind
    assert raised == {}
    assert len(desk.announced) == announcing > FUZZED // 10
    assert desk.observation.tally.malformed > FUZZED // 20
    assert len(ring) == CAPACITY
    assert len(desk.observation.normalizer.requests) <= MAX_REQUESTS
    assert len(desk.observation.session_of) <= 2 * CAPACITY
    assert psutil.Process().memory_info().rss - before < 32 * 1024 * 1024


def test_whatever_was_kept_can_be_read_with_every_filter() -> None:
    desk, raised = Desk(capacity=1), Counter[str]()
    everything = [Query(), Query(status=">=400"), Query(url_includes="a"), Query(text_includes="x")]
    for seed in range(1_000):
        method, params = _fuzzed(seed)
        try:
            desk.observation.take(method, params, "S")
        except Exception:
            continue  # told by the test above
        for query in everything:
            try:
                page = read(desk.observation, query, 0, 10, Redactor())
                fitting(page, "observing", 100)
            except Exception as error:
                raised[f"{method}: {error!r:.80}"] += 1
    assert raised == {}


def test_lines_that_a_browser_repeats_are_kept_once() -> None:
    desk = Desk()

    def says(text: str, at: float) -> None:
        said = [{"type": "string", "value": text}]
        desk.take("Runtime.consoleAPICalled", type="log", args=said, timestamp=at)

    def logs(at: float) -> None:
        desk.take("Log.entryAdded", entry={"level": "info", "text": "entry", "timestamp": at})

    says("one", 1.0)
    logs(2.0)
    desk.observation.go_on()
    says("one", 1.0)
    logs(2.0)
    says("meanwhile", 3.0)
    says("two", 4.0)
    told = [seen.unpack()["text"] for _, seen in desk.observation.ring]
    assert told == ["one", "entry", "meanwhile", "two"]


def said_at(desk: Desk, text: str, at: float) -> bool:
    said = [{"type": "string", "value": text}]
    return bool(desk.take("Runtime.consoleAPICalled", type="log", args=said, timestamp=at))


def test_a_line_that_a_clock_set_back_makes_older_is_no_repetition() -> None:
    desk = Desk()
    assert said_at(desk, "before", 1_000.5)
    desk.observation.go_on()
    assert not said_at(desk, "before", 1_000.5)
    assert said_at(desk, "while nobody was attached", 990.25)
    assert said_at(desk, "after", 991.0)
    desk.observation.go_on()
    for text, at in (("before", 1_000.5), ("while", 990.25), ("after", 991.0)):
        assert not said_at(desk, text, at)
    assert len(desk.kinds()) == 3


def test_lines_that_were_too_many_to_remember_are_not_repeated_either() -> None:
    desk = Desk()
    for number in range(1, REPEATED_MOST + 11):
        assert said_at(desk, f"line {number}", float(number))
    desk.observation.go_on()
    assert not any(said_at(desk, "again", float(n)) for n in range(1, REPEATED_MOST + 11))
    assert said_at(desk, "new", REPEATED_MOST + 11.0)


def test_limits_change_while_it_runs() -> None:
    desk = Desk(capacity=10, ttl_sec=60)
    for number in range(8):
        desk.say(str(number))
    desk.observation.limit(3, 5)
    assert [seq for seq, _ in desk.observation.ring] == [5, 6, 7]
    desk.now += 6_000
    assert desk.observation.expired(desk.now)

"""What a step caused, in a few lines."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.e2e.failure.digest import (
    MOST_CHARACTERS,
    MOST_LINES,
    DomChanges,
    console_lines,
    cut,
    digest,
    exchanges,
    noteworthy,
    origin,
    short_url,
)

BASE = "http://localhost:3000"


class Log:
    """Events as the observer shows them, numbered as they come."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, kind: str, ts: float = 0.0, **facts: Any) -> Log:
        self.events.append({"kind": kind, "seq": len(self.events), "ts": ts, **facts})
        return self

    def request(
        self,
        request_id: str,
        path: str = "/",
        status: int = 200,
        kind: str = "Fetch",
        took: float = 5,
    ) -> Log:
        self.add("request", requestId=request_id, url=BASE + path, resourceType=kind)
        if status:
            self.add("response", took, requestId=request_id, status=status)
            self.add("loadingFinished", took, requestId=request_id)
        return self

    def say(self, level: str, text: str, **facts: Any) -> Log:
        return self.add("console", type=level, text=text, **facts)


@pytest.mark.parametrize(
    ("status", "took", "line"),
    [
        (200, 5, "GET /cart → 200"),
        (404, 5, "GET /cart → 404"),
        (200, 1_250, "GET /cart → 200 in 1250 ms"),
        (0, 5, "GET /cart → pending"),
    ],
)
def test_a_request_is_one_line(status: int, took: float, line: str) -> None:
    log = Log().request("1", "/cart", status, took=took)
    assert digest(log.events, BASE).requests == [line]


def test_a_body_that_nobody_reads_does_not_hide_how_long_its_answer_took() -> None:
    log = Log().add("request", 100, requestId="1", method="POST", url=f"{BASE}/slow")
    log.add("response", 1_700, requestId="1", status=200)
    (exchange,) = exchanges(log.events)
    assert exchange.took == 1_600
    assert exchange.line(BASE) == "POST /slow → 200 in 1600 ms"


def test_a_request_that_fails_says_why_and_a_cancelled_one_that_it_was() -> None:
    log = Log().request("1", "/a", 0).request("2", "/b", 0)
    log.add("loadingFailed", 3, requestId="1", errorText="net::ERR_FAILED")
    log.add("loadingFailed", 3, requestId="2", errorText="net::ERR_ABORTED", canceled=True)
    assert digest(log.events, BASE).requests == [
        "GET /a → net::ERR_FAILED",
        "GET /b → cancelled",
    ]
    assert noteworthy(log.events, BASE) == ["GET /a → net::ERR_FAILED"]


def test_the_end_of_a_request_from_before_is_none_of_this_step() -> None:
    log = Log().add("response", requestId="old", status=500)
    assert exchanges(log.events) == []


def test_static_files_are_counted_unless_they_fail() -> None:
    log = Log().request("1", "/app.js", kind="Script").request("2", "/app.css", kind="Stylesheet")
    assert digest(log.events, BASE).requests == ["2 static files loaded"]
    log.request("3", "/missing.png", 404, "Image")
    assert digest(log.events, BASE).requests == [
        "GET /missing.png → 404",
        "2 static files loaded",
    ]


def test_of_many_requests_failures_are_told_first_and_the_rest_is_counted() -> None:
    log = Log()
    for number in range(10):
        log.request(str(number), f"/{number}", 500 if number == 9 else 200)
    told = digest(log.events, BASE).requests
    assert told[:2] == ["GET /9 → 500", "GET /0 → 200"]
    assert len(told) == MOST_LINES + 1
    assert told[-1] == "and 4 more"


def test_console_lines_are_ranked_cut_and_counted() -> None:
    log = Log().say("log", "x" * 500).say("warn", "careful").say("error", "bad").say("debug", "no")
    told = digest(log.events, BASE).console
    assert [line.split(":")[0] for line in told] == ["error", "warn", "log"]
    assert len(told[2]) <= MOST_CHARACTERS + len("log: ")
    for number in range(10):
        log.say("log", str(number))
    assert digest(log.events, BASE).console[-1] == "and 7 more"


def test_a_failed_request_is_no_console_line() -> None:
    log = Log().say("error", "Failed to load resource", source="network").say("error", "mine")
    assert [event["text"] for event in console_lines(log.events)] == ["mine"]


def test_only_what_went_wrong_is_worth_telling_later() -> None:
    log = Log().request("1", "/fine").request("2", "/bad", 500).say("log", "hm").say("warn", "oh")
    assert noteworthy(log.events, BASE) == ["GET /bad → 500", "warn: oh"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"{BASE}/cart?x=1", "/cart?x=1"),
        (BASE, "/"),
        ("https://elsewhere/x", "https://elsewhere/x"),
        ("data:image/png;base64," + "A" * 100, "data:image/png;base64,AAAAAAAAAAAAAAAAAA…"),
    ],
)
def test_a_url_is_told_without_the_apps_own_origin(url: str, shown: str) -> None:
    assert short_url(url, BASE) == shown


def test_a_long_url_is_cut() -> None:
    assert len(short_url(f"{BASE}/{'x' * 1_000}", BASE)) == MOST_CHARACTERS


@pytest.mark.parametrize(
    ("url", "found"),
    [
        (f"{BASE}/a?b#c", BASE),
        ("about:blank", ""),
        ("", ""),
        ("https://[::1]:8/x", "https://[::1]:8"),
    ],
)
def test_an_origin_is_scheme_and_host(url: str, found: str) -> None:
    assert origin(url) == found


def test_changes_are_told_with_their_first_texts() -> None:
    assert DomChanges().line() == ""
    assert DomChanges(changed=3).line() == "3 changed"
    made = DomChanges(2, 1, 0, ["one", " ", "two  words\n", "three", "four"])
    assert made.line() == "2 added, 1 removed: one | two words"
    assert DomChanges(1, 0, 0, ["x" * 200]).line() == f"1 added: {'x' * 79}…"


def test_a_cut_text_is_one_line_and_never_longer_than_asked() -> None:
    assert cut("a\n  b") == "a b"
    assert cut("x" * 10, 10) == "x" * 10
    assert cut("x" * 11, 10) == "x" * 9 + "…"


def test_an_error_is_told_with_its_place_in_the_sources() -> None:
    text = (
        "Error: no customer\n    at r (http://localhost:3000/a.min.js:1:90)\nCaused by: Error: why"
    )
    place = {"source": "http://localhost:3000/a.js", "line": 11, "column": 5, "name": "check"}
    stack = {"url": "http://localhost:3000/a.min.js", "line": 1, "column": 90, "original": place}
    log = Log().add("console", type="error", text=text, stack=stack)
    (line,) = digest(log.events, BASE).console
    assert "a.min.js" not in line
    assert line.startswith("error: Error: no customer")
    assert "Caused by: Error: why" in line
    assert line.endswith("(check, http://localhost:3000/a.js:11)")

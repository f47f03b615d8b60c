"""The likeliest cause stands first."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.e2e.browser.errors import Trouble
from pilothouse.e2e.failure.causes import Evidence, difference, rank, similar
from pilothouse.e2e.failure.symptoms import Complaint, Scene, complaints, symptoms
from pilothouse.e2e.model import ServerLogged
from pilothouse.e2e.step import Step

BASE = "http://localhost:3000"
NOT_FOUND = Trouble("not_found", "Timeout 300ms exceeded.")
SNAPSHOT = """- generic [ref=e1]:
  - heading "Your order" [level=1] [ref=e2]
  - button "Checkout" [ref=e3]
  - link "Save the cart" [ref=e4] [cursor=pointer]:
    - /url: /save
  - text: Checkout is near"""


def thrown(text: str = "TypeError: x is null", **more: Any) -> dict[str, Any]:
    frame = {"url": f"{BASE}/app.js", "line": 7, "column": 2}
    made = {"kind": "log", "type": "error", "source": "exception", "text": text, "seq": 90, "ts": 9}
    return {**made, "frames": [frame], **more}


def request(number: int, at: int, path: str, status: int, **more: Any) -> list[dict[str, Any]]:
    """A request and its answer 10 ms later, as they are recorded."""
    id = f"7.{number}"
    asked = {"kind": "request", "requestId": id, "seq": number * 2, "ts": at, "method": "POST"}
    answer = {"kind": "response", "requestId": id, "seq": number * 2 + 1, "ts": at + 10}
    asked |= {"url": BASE + path, "resourceType": "Fetch", **more}
    return [asked, {**answer, "status": status}]


def written(*lines: str, at: float = 5.0) -> list[Complaint]:
    return complaints(
        ServerLogged(at=at, service="app", stream="stderr", line=line) for line in lines
    )


def click(at: float, tool: str = "click") -> Step:
    return Step(1, tool, "#go", {}, "t1", at, 0, ended_at=at + 1)


def found(scene: Scene, trouble: Trouble = NOT_FOUND) -> list[str]:
    return rank(Evidence(trouble, symptoms=symptoms(scene, BASE)), BASE)


def first(evidence: Evidence) -> str:
    return rank(evidence, BASE)[0]


TRACEBACK = [
    '"GET / HTTP/1.1" 200 -',
    "Traceback (most recent call last):",
    '  File "app.py", line 3, in order',
    "    raise OutOfStock(17)",
    "shop.OutOfStock: 17",
    '"POST /api/order HTTP/1.1" 500 -',
]


def test_a_500_is_told_with_the_exception_that_the_server_logged() -> None:
    events = [*request(1, 1, "/api/order", 500), thrown()]
    assert found(Scene(events, complaints=written(*TRACEBACK)))[0] == (
        "POST /api/order answered 500; the server logged: shop.OutOfStock: 17"
    )


def test_a_500_without_a_log_is_told_alone() -> None:
    assert found(Scene(request(1, 1, "/api/order", 503)))[0] == "POST /api/order answered 503"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (TRACEBACK, "shop.OutOfStock: 17"),
        (["ready", "Error: no such table"], "Error: no such table"),
        (["thread 'main' panic at x.rs"], "thread 'main' panic at x.rs"),
    ],
)
def test_an_error_of_no_known_request_is_a_guess(lines: list[str], said: str) -> None:
    (cause,) = found(Scene(complaints=written(*lines)))
    assert cause.startswith(f"the server logged an error: {said} (a guess: no request")


def test_a_line_never_belongs_to_a_request_that_began_after_it() -> None:
    lines = written("Error: DB down", at=5)
    causes = found(Scene(request(1, 8, "/api/order", 500), complaints=lines))
    assert causes[0] == "POST /api/order answered 500"


def test_lines_belong_to_the_requests_whose_path_or_id_they_name() -> None:
    events = [
        *request(1, 1, "/api/a", 500),
        *request(2, 1, "/api/b", 500, headers={"x-request-id": "b-1f2e3d4c5b"}),
    ]
    lines = written("[b-1f2e3d4c5b] Error: of b", "Error: of a (POST /api/a)")
    causes = found(Scene(events, complaints=lines))
    assert causes[0].startswith("POST /api/a answered 500; the server logged: Error: of a")
    assert causes[1].startswith("POST /api/b answered 500; the server logged: [b-1f2e3d4c5b]")
    assert all("(a guess: 2 things went wrong alike)" in cause for cause in causes)


def test_of_two_errors_in_one_request_each_is_a_guess() -> None:
    lines = written(
        "Traceback (most recent call last):",
        '  File "server.py", line 9, in serve',
        *TRACEBACK[1:5],
        '  File "server.py", line 5, in read',
        "ConnectionResetError: a client has left",
        TRACEBACK[5],
    )
    events = request(1, 1, "/api/order", 500)
    (guessed, *_) = found(Scene(events, complaints=lines))
    assert guessed.startswith("POST /api/order answered 500; the server logged (a guess by time):")
    # What other requests got, too, before the action, is none of it.
    again = written("ConnectionResetError: a client has left", at=1)
    (blamed, *_) = found(
        Scene(
            request(1, 4, "/api/order", 500),
            complaints=[*again, *lines],
            action=click(3),
            solicited=[(3, 1_004)],
        )
    )
    assert blamed == "POST /api/order answered 500; the server logged: shop.OutOfStock: 17"


def test_what_repeats_by_itself_is_background_and_says_so() -> None:
    events = [
        *request(1, 1_000, "/api/poll", 500),
        *request(2, 5_010, "/api/coupon", 404),
        *request(3, 5_020, "/api/poll", 500),
    ]
    causes = found(Scene(events, action=click(5_000), solicited=[(5_000, 6_001)]))
    assert causes == [
        "POST /api/coupon → 404",
        "POST /api/poll answered 500 (a guess: it repeats by itself)",
    ]


def test_what_each_click_sends_is_no_background() -> None:
    events = [*request(1, 1_010, "/api/save", 500), *request(2, 5_010, "/api/save", 500)]
    windows = [(1_000, 2_001), (5_000, 6_001)]
    causes = found(Scene(events, action=click(5_000), solicited=windows))
    assert causes[0] == "POST /api/save answered 500"


def test_what_was_before_the_last_action_is_a_guess() -> None:
    events = [*request(1, 1_010, "/api/save", 500), thrown(ts=5_001)]
    causes = found(Scene(events, action=click(5_000), solicited=[(1_000, 2_001)]))
    assert causes[0].startswith("the page threw")
    assert causes[1] == "POST /api/save answered 500 (a guess: it was before click #go)"


def test_a_page_that_was_left_is_no_cause_and_never_the_first_one() -> None:
    left = {"kind": "other", "type": "navigated", "seq": 50, "ts": 5_500, "url": BASE}
    events = [*request(1, 5_100, "/api/save", 500), left]
    assert found(Scene(events, action=click(5_000, "navigate"))) == []
    evidence = Evidence(
        NOT_FOUND,
        led_to="click #go led to another page, /",
        symptoms=symptoms(Scene(events, action=click(5_000)), BASE),
    )
    assert rank(evidence, BASE) == [
        "click #go led to another page, /",
        "POST /api/save answered 500 (a guess: it was on the page before)",
    ]


def test_an_exception_of_the_page_is_told_with_its_place() -> None:
    assert found(Scene([thrown()])) == [f"the page threw TypeError: x is null at {BASE}/app.js:7"]
    mapped = {"url": f"{BASE}/app.js", "line": 1, "original": {"source": "src/pay.ts", "line": 40}}
    event = thrown(frames=[mapped])
    assert found(Scene([thrown()], console={90: event}))[0].endswith("src/pay.ts:40")


def test_the_overlay_of_a_dev_server_comes_before_all_else() -> None:
    evidence = Evidence(
        NOT_FOUND,
        overlay="Unexpected token in App.tsx",
        server_exit={"exitCode": 1},
        symptoms=symptoms(Scene([thrown()]), BASE),
    )
    causes = rank(evidence, BASE)
    assert causes[0].endswith("Unexpected token in App.tsx")
    assert causes[1].startswith("the dev server has exited (code 1)")


def test_what_the_policy_refused_is_a_cause() -> None:
    evidence = Evidence(NOT_FOUND, refusals=["10.0.0.1 (private)"])
    assert first(evidence) == "the URL policy refused 10.0.0.1 (private)"


def test_a_script_that_threw_is_its_own_cause() -> None:
    trouble = Trouble("script", "RangeError: too far")
    assert found(Scene([thrown()]), trouble)[0] == "the script threw RangeError: too far"


def test_what_covers_the_element_is_told_with_its_text() -> None:
    trouble = Trouble("timeout", "", cover='<div id="veil">…</div>', obstacle="another covers it")
    evidence = Evidence(trouble, hit={"cover": "b", "coverText": "We use cookies"})
    assert first(evidence) == '<div id="veil">…</div> covers the element (We use cookies)'


def test_an_obstacle_counts_more_than_what_lies_at_the_same_place_afterwards() -> None:
    trouble = Trouble("timeout", "", obstacle="it keeps moving")
    evidence = Evidence(trouble, hit={"cover": "html", "coverText": "all of the page"})
    assert first(evidence) == "the element is there, but it keeps moving"


def test_where_playwright_gave_no_reason_the_page_is_believed() -> None:
    evidence = Evidence(Trouble("timeout", ""), hit={"cover": "div#veil", "coverText": ""})
    assert first(evidence) == "div#veil covers the element"


@pytest.mark.parametrize(
    ("selector", "alike"),
    [
        ("#checkout-button", ['button "Checkout"']),
        ("text=Chekout", ['button "Checkout"']),
        ("text=the cart", ['link "Save the cart"']),
        ("role=button[name='x']", []),
        ("#zeppelin", []),
        (".a > b", []),
    ],
)
def test_elements_of_a_similar_name_are_found(selector: str, alike: list[str]) -> None:
    lines = similar(selector, SNAPSHOT)
    assert [line.split(" [ref=")[0] for line in lines] == alike


def test_a_selector_that_resembles_nothing_may_be_of_another_page() -> None:
    evidence = Evidence(NOT_FOUND, selector="#zeppelin", snapshot=SNAPSHOT)
    assert first(evidence).startswith("nothing in the page resembles the selector")


def test_a_cause_is_told_once_and_at_most_five_are() -> None:
    events = [thrown() for _ in range(3)] + [thrown(f"Error {n} {'x' * 400}") for n in range(9)]
    causes = found(Scene(events))
    assert len(causes) == len(set(causes)) == 5
    assert all(len(cause) <= 300 for cause in causes)
    assert all(cause.endswith("(a guess: 2 things went wrong alike)") for cause in causes)


def test_what_the_page_gave_up_itself_is_no_cause() -> None:
    asked, _ = request(1, 1, "/api/order", 0)
    given_up = {"kind": "loadingFailed", "requestId": "7.1", "seq": 4, "ts": 9, "canceled": True}
    assert found(Scene([asked, given_up])) == []
    # Of a script that is not there, the browser says that it is cancelled.
    assert found(Scene([*request(1, 1, "/app.js", 404), given_up])) == ["POST /app.js → 404"]


# Differences


def test_refs_and_the_focus_are_no_difference() -> None:
    now = SNAPSHOT.replace("ref=e", "ref=f9e").replace("[ref=f9e3]", "[active] [ref=f9e3]")
    assert difference(SNAPSHOT, now) == []


def test_a_difference_tells_what_went_and_what_came() -> None:
    now = SNAPSHOT.replace("Checkout", "Sold out", 1)
    assert difference(SNAPSHOT, now) == ['-  - button "Checkout"', '+  - button "Sold out"']


def test_without_a_state_before_there_is_no_difference() -> None:
    assert difference("", SNAPSHOT) == []


def test_a_long_difference_is_cut_and_says_so() -> None:
    now = "\n".join(f"- text: {number}" for number in range(100))
    changed = difference(SNAPSHOT, now, 10)
    assert len(changed) == 11
    assert changed[-1] == "… and 96 more lines"

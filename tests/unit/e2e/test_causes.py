"""The likeliest cause stands first."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.e2e.causes import Evidence, difference, rank, similar
from pilothouse.e2e.digest import Exchange
from pilothouse.e2e.protocol import Trouble

BASE = "http://localhost:3000"
NOT_FOUND = Trouble("not_found", "Timeout 300ms exceeded.")
SNAPSHOT = """- generic [ref=e1]:
  - heading "Your order" [level=1] [ref=e2]
  - button "Checkout" [ref=e3]
  - link "Save the cart" [ref=e4] [cursor=pointer]:
    - /url: /save
  - text: Checkout is near"""


def exchange(path: str = "/api/order", status: int = 0, error: str = "") -> Exchange:
    return Exchange("1.1", "POST", BASE + path, "Fetch", 3, 10.0, status=status, error=error)


def thrown(text: str = "TypeError: x is null", **more: Any) -> dict[str, Any]:
    frame = {"url": f"{BASE}/app.js", "line": 7, "column": 2}
    return {"type": "error", "source": "exception", "text": text, "frames": [frame], **more}


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
    evidence = Evidence(
        NOT_FOUND, requests=[(exchange(status=500), "")], server_lines=TRACEBACK, console=[thrown()]
    )
    assert first(evidence) == "POST /api/order answered 500; the server logged: shop.OutOfStock: 17"


def test_a_500_without_a_log_is_told_alone() -> None:
    assert first(Evidence(NOT_FOUND, requests=[(exchange(status=503), "")])) == (
        "POST /api/order answered 503"
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (TRACEBACK, "shop.OutOfStock: 17"),
        (["ready", "Error: no such table"], "Error: no such table"),
        (["thread 'main' panic at x.rs"], "thread 'main' panic at x.rs"),
    ],
)
def test_an_error_in_the_servers_log_is_a_cause_of_its_own(lines: list[str], said: str) -> None:
    assert first(Evidence(NOT_FOUND, server_lines=lines)) == f"the server logged an error: {said}"


def test_an_exception_of_the_page_is_told_with_its_place() -> None:
    assert first(Evidence(NOT_FOUND, console=[thrown()])) == (
        f"the page threw TypeError: x is null at {BASE}/app.js:7"
    )
    mapped = {"url": f"{BASE}/app.js", "line": 1, "original": {"source": "src/pay.ts", "line": 40}}
    assert first(Evidence(NOT_FOUND, console=[thrown(frames=[mapped])])).endswith("src/pay.ts:40")


def test_the_overlay_of_a_dev_server_comes_before_all_else() -> None:
    evidence = Evidence(
        NOT_FOUND,
        overlay="Unexpected token in App.tsx",
        server_exit={"exitCode": 1},
        console=[thrown()],
    )
    found = rank(evidence, BASE)
    assert found[0].endswith("Unexpected token in App.tsx")
    assert found[1].startswith("the dev server has exited (code 1)")


def test_what_the_policy_refused_is_a_cause() -> None:
    evidence = Evidence(NOT_FOUND, refusals=["10.0.0.1 (private)"])
    assert first(evidence) == "the URL policy refused 10.0.0.1 (private)"


def test_a_script_that_threw_is_its_own_cause() -> None:
    trouble = Trouble("script", "RangeError: too far")
    assert first(Evidence(trouble, console=[thrown()])) == "the script threw RangeError: too far"


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
    ("selector", "found"),
    [
        ("#checkout-button", ['button "Checkout"']),
        ("text=Chekout", ['button "Checkout"']),
        ("text=the cart", ['link "Save the cart"']),
        ("role=button[name='x']", []),
        ("#zeppelin", []),
        (".a > b", []),
    ],
)
def test_elements_of_a_similar_name_are_found(selector: str, found: list[str]) -> None:
    lines = similar(selector, SNAPSHOT)
    assert [line.split(" [ref=")[0] for line in lines] == found


def test_a_selector_that_resembles_nothing_may_be_of_another_page() -> None:
    evidence = Evidence(NOT_FOUND, selector="#zeppelin", snapshot=SNAPSHOT)
    assert first(evidence).startswith("nothing in the page resembles the selector")


def test_a_cause_is_told_once_and_at_most_five_are() -> None:
    evidence = Evidence(
        NOT_FOUND,
        console=[thrown() for _ in range(3)] + [thrown(f"Error {n}") for n in range(9)],
    )
    found = rank(evidence, BASE)
    assert len(found) == len(set(found)) == 5
    assert all(len(cause) <= 300 for cause in found)


def test_what_the_page_gave_up_itself_is_no_cause() -> None:
    assert rank(Evidence(NOT_FOUND, requests=[(exchange(error="cancelled"), "")]), BASE) == []


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

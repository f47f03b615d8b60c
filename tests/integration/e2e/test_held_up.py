"""Steps that are held up answer soon and say by what: a cover, a busy script, a crash."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.driving import Driver

pytestmark = pytest.mark.browser

VEIL = '<div id=veil style="position: fixed; inset: 0; background: #eeec"><b>Cookies?</b></div>'
COVERED = (
    '<button id=t onclick="did.push(1)">Pay now</button><input type=checkbox id=c>'
    '<iframe srcdoc="<button id=f>In it</button>"></iframe>' + VEIL
)
SLOW_MS = 7_000
DEFAULT_S = 30
GUARD_S = 30


@pytest.fixture
def page(shop: Driver) -> Iterator[Driver]:
    shop.visit("/second.html")
    yield shop
    shop.visit("/")


def show(shop: Driver, html: str, tab: str = "t1") -> None:
    """Put elements into the page; what they do is counted in `did`."""
    script = f"window.did = []; document.body.innerHTML = {json.dumps(html)};"
    shop.call("evaluate", script=f"() => {{ {script} }}", tabId=tab)


def at_once(
    shop: Driver, calls: list[tuple[str, str, dict[str, Any]]]
) -> list[tuple[str, float, dict[str, Any]]]:
    """Make calls at the same time, each in a page of its own; with how long each took, in s."""
    opened = []
    for html, _, _ in calls:
        opened.append(shop.call("tabs", action="new", url="/second.html")["tabs"][-1]["id"])
        show(shop, html, opened[-1])
    began = time.monotonic()
    begun = [
        shop.begin(tool, tabId=tab, **args)
        for tab, (_, tool, args) in zip(opened, calls, strict=True)
    ]
    came: dict[int, tuple[float, dict[str, Any]]] = {}
    while not came.keys() >= set(begun):
        answer = shop.receive()
        if "id" in answer:
            came[answer["id"]] = time.monotonic() - began, answer["result"]["structuredContent"]
    return [(tab, *came[number]) for tab, number in zip(opened, begun, strict=True)]


# Covered targets


def test_a_target_that_stays_covered_is_told_after_five_seconds(page: Driver) -> None:
    calls: list[tuple[str, str, dict[str, Any]]] = [
        (COVERED, "click", {"selector": "#t"}),
        (COVERED, "hover", {"selector": "#t"}),
        (COVERED, "drag", {"from": "#t", "to": "#c"}),
        (COVERED, "click", {"selector": "iframe >> internal:control=enter-frame >> #f"}),
        (COVERED, "fillForm", {"fields": [{"selector": "#c", "value": True}]}),
    ]
    answers = at_once(page, calls)
    for (_, tool, _), (_, took, answer) in zip(calls, answers, strict=True):
        error = answer["error"]
        assert (tool, error["type"], error["timeout"]) == (tool, "timeout", 5_000)
        assert took < DEFAULT_S
        assert error["covers"].startswith('<div id="veil"')
        assert "covers it, and has for 5 s" in error["message"]
        assert 'id="veil"' in error["causes"][0]
        assert "timeout" in error["suggestion"]
    # What was given up is not done later.
    tab = answers[0][0]
    page.call("evaluate", script="void veil.remove()", tabId=tab)
    page.call("waitFor", selector="#veil", state="hidden", tabId=tab)
    page.call("click", selector="#t", tabId=tab)
    assert page.call("evaluate", script="did", tabId=tab)["result"] == [1]


def test_a_time_that_the_call_gives_holds_whole_for_a_covered_target(page: Driver) -> None:
    slow = f"document.body.innerHTML += this.dataset.veil; location = '/api/slow?ms={SLOW_MS}'"
    link = f"<button id=t data-veil='{VEIL}' onclick=\"{slow}\">Go</button>"
    (_, took, answer), (tab, _, done) = at_once(
        page,
        [
            (COVERED, "click", {"selector": "#t", "timeout": 6_000}),
            (link, "click", {"selector": "#t"}),
        ],
    )
    assert (answer["error"]["timeout"], took >= 6) == (6_000, True)
    assert answer["error"]["covers"].startswith('<div id="veil"')
    # A target that its own click covers was clicked, however long the next page takes.
    assert done["success"], done
    page.call("waitFor", url="/api/slow", timeout=DEFAULT_S * 1_000, tabId=tab)


# Busy pages


def busy_tab(shop: Driver) -> tuple[str, str]:
    """Open a tab whose page answers nothing any more, with the ref of an element that it has."""
    tab: str = shop.call("tabs", action="new", url="/second.html")["tabs"][-1]["id"]
    found = shop.call("find", text="second page", tabId=tab)["matches"][0]
    shop.call("evaluate", script="void setTimeout(() => { for (;;); })", tabId=tab)
    return tab, found.split("[ref=")[1].split("]")[0]


def test_looking_at_a_busy_page_answers_in_time_and_says_how_to_go_on(page: Driver) -> None:
    tab, ref = busy_tab(page)
    looks: list[tuple[str, dict[str, Any]]] = [
        ("snapshot", {}),
        ("find", {"text": "second", "timeout": 600}),
        ("screenshot", {"timeout": 600}),
        ("screenshot", {"selector": ref, "timeout": 600}),
        ("getContent", {"timeout": 600}),
        ("getContent", {"selector": "text=second", "timeout": 600}),
    ]
    for tool, args in looks:
        began = time.monotonic()
        error = page.fault(tool, tabId=tab, **args)
        assert time.monotonic() - began < GUARD_S
        told = (tool, error["type"], error.get("timeout"))
        assert told == (tool, "timeout", args.get("timeout", 5_000))
        assert "the page answers nothing, it is busy" in error["message"]
        assert "keep it busy" in error["causes"][0]
        assert f'action "close", tabId "{tab}"' in error["suggestion"]
    # A page that cannot be left because of its script does not wait for its server.
    error = page.fault("navigate", url="/", timeout=1_500, tabId=tab)
    assert "it is busy" in error["message"]
    assert not any("the server has not answered" in cause for cause in error["causes"])
    page.call("tabs", action="close", tabId=tab)


def test_acting_on_a_busy_page_ends_by_its_own_timeout(page: Driver) -> None:
    tab, ref = busy_tab(page)
    acts: list[tuple[str, dict[str, Any]]] = [
        ("type", {"selector": "h1", "text": "x"}),
        ("click", {"selector": ref}),
    ]
    for tool, args in acts:
        began = time.monotonic()
        error = page.fault(tool, tabId=tab, timeout=600, **args)
        assert time.monotonic() - began < GUARD_S
        assert error["type"] == "timeout", tool
        assert "keep it busy" in error["causes"][0]
    page.call("tabs", action="close", tabId=tab)


# Crashed tabs


def test_a_crashed_tab_makes_the_session_unhealthy_until_navigate_revives_it(shop: Driver) -> None:
    shop.visit("/second.html")
    before = shop.call("tabs")["tabs"]
    assert shop.call("getSessionStatus")["status"] == "running"
    wait_until(lambda: shop.processes("renderer"))
    for renderer in shop.processes("renderer"):
        renderer.kill()
    unhealthy = wait_until(lambda: (s := shop.call("getSessionStatus"))["crashed"] and s)
    assert unhealthy["status"] == "unhealthy"
    assert (unhealthy["healthy"], unhealthy["crashed"]) == (False, ["t1"])
    assert "navigate" in shop.fault("click", selector="h1")["suggestion"]
    done = shop.visit("/second.html")
    assert (done["status"], done["title"]) == (200, "The second page")
    assert shop.call("getSessionStatus")["status"] == "running"
    # It is the same tab, recorded as before.
    (tab,) = shop.call("tabs")["tabs"]
    assert (tab["id"], tab["current"]) == ("t1", True)
    assert tab["targetId"] != before[0]["targetId"]
    asked = shop.call("evaluate", script="fetch('/api/slow?ms=1').then(() => 1)")
    assert any("/api/slow?ms=1" in line for line in asked["requests"])
    assert shop.call("click", selector="h1")["success"] is True

"""Waiting for a condition, over the wire: it ends when that holds, or says what did not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.until import wait_until

if TYPE_CHECKING:
    from tests.support.driving import Driver

pytestmark = pytest.mark.browser


@pytest.fixture
def obstacles(shop: Driver) -> Driver:
    shop.visit("/obstacles.html")
    return shop


# waitForSelector


@pytest.mark.parametrize(
    ("trigger", "selector", "state"),
    [
        ("#reveal", "#hidden", "visible"),
        ("#vanish", "#vanish", "hidden"),
        ("#vanish", "#vanish", "detached"),
        ("", "#hidden", "attached"),
        ("", "#hidden", "hidden"),
        ("", "#nothing", "detached"),
        ("", ".twin", "visible"),
    ],
)
def test_wait_for_selector_ends_when_the_element_is_so(
    obstacles: Driver, trigger: str, selector: str, state: str
) -> None:
    if trigger:
        obstacles.call("click", selector=trigger)
    done = obstacles.call(
        "waitForSelector",
        sessionId=obstacles.session_id,
        selector=selector,
        state=state,
        timeout=10_000,
    )
    assert done["success"] is True
    assert obstacles.call("exists", selector=selector)["visible"] is (state == "visible")


@pytest.mark.parametrize("tool", ["waitForSelector", "waitFor"])
@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ({"selector": "#nothing"}, "element_not_found", "Element not found"),
        ({"selector": "#hidden"}, "timeout", "it is not visible"),
        ({"selector": "h1", "state": "hidden"}, "timeout", "it is still visible"),
        ({"selector": "h1", "state": "detached"}, "timeout", "it is still visible"),
    ],
)
def test_a_wait_in_vain_says_how_the_element_is(
    obstacles: Driver, tool: str, arguments: dict[str, Any], kind: str, said: str
) -> None:
    # So long that also a busy machine has looked by then.
    error = obstacles.fault(tool, **arguments, timeout=2_000)
    assert error["type"] == kind
    assert error["selector"] == arguments["selector"]
    assert said in error["message"]


# waitFor


def test_wait_for_ends_when_a_text_comes_and_when_it_goes(obstacles: Driver) -> None:
    obstacles.call("click", selector="#later")
    met = obstacles.call("waitFor", text="Sold out", timeout=10_000)["met"]
    assert met == {"text": True}
    obstacles.call("evaluate", script="setTimeout(() => byId('swap').remove(), 200)")
    assert obstacles.call("waitFor", textGone="Swap", timeout=10_000)["met"] == {"textGone": True}


def test_wait_for_takes_several_conditions_at_once(shop: Driver) -> None:
    shop.visit("/")
    shop.call("click", selector="#late")
    met = shop.call(
        "waitFor", request="/api/missing", console="came later", selector="h1", idle=True
    )["met"]
    assert met["request"]["status"] == 404
    assert met["console"]["text"] == "came later"
    assert met["selector"] is True
    assert met["idle"] is True


def test_wait_for_an_address_and_for_a_stream(shop: Driver) -> None:
    shop.visit("/")
    shop.call("evaluate", script="setTimeout(() => location.href = '/second.html', 200)")
    done = shop.call("waitFor", url="second", timeout=10_000)
    assert done["url"].endswith("/second.html")
    shop.call("evaluate", script="void new EventSource('/api/events')")
    assert shop.call("waitFor", request="/api/events")["met"]["request"]["status"] == 200


def test_wait_for_finds_what_came_while_the_agent_was_thinking(shop: Driver) -> None:
    shop.visit("/")
    shop.call("click", selector="#late")
    # Not a step: it tells nothing and moves nothing on.
    seen = "cdp_read_events"
    target = shop.call("tabs")["tabs"][0]["targetId"]
    wait_until(lambda: "came later" in str(shop.call(seen, targetId=target, level="error")))
    began = time.monotonic()
    shop.call("waitFor", console="came later", timeout=60_000)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    "condition",
    [
        {"text": "never"},
        {"textGone": "Obstacles"},
        {"url": "never"},
        {"request": "/never"},
        {"console": "never"},
        {"hmr": True},
    ],
)
def test_a_condition_that_never_comes_is_a_timeout_that_names_it(
    obstacles: Driver, condition: dict[str, Any]
) -> None:
    began = time.monotonic()
    error = obstacles.fault("waitFor", **condition, timeout=300)
    assert 0.3 <= time.monotonic() - began < 30
    assert error["type"] == "timeout"
    (name,) = condition
    assert f"{name} did not come in 300 ms" in error["message"]
    assert "selector" not in error


def test_of_several_conditions_the_missing_ones_are_named(obstacles: Driver) -> None:
    error = obstacles.fault("waitFor", text="Obstacles", url="never", console="no", timeout=2_000)
    assert "url, console did not come" in error["message"]


def test_wait_for_nothing_is_invalid_input(shop: Driver) -> None:
    error = shop.fault("waitFor", timeout=300)
    assert error["type"] == "invalid_input"
    assert "request" in error["suggestion"]


def test_waiting_in_a_tab_that_closes_is_tab_not_found(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    shop.call("click", selector="#popup")
    popup = wait_until(lambda: [t for t in shop.call("tabs")["tabs"] if t["opener"]])[0]["id"]
    shop.call("waitForSelector", selector="#leave", tabId=popup)
    shop.call("click", selector="#leave", tabId=popup)
    for wait in ({"text": "never"}, {"console": "never"}):
        error = shop.fault("waitFor", tabId=popup, timeout=20_000, **wait)
        assert (error["type"], error["tabId"]) == ("tab_not_found", popup)


def test_waiting_while_a_dialog_opens_is_dialog_open(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    shop.call("evaluate", script="setTimeout(() => alert('look here'), 300); null")
    error = shop.fault("waitFor", text="never", timeout=20_000)
    assert error["type"] == "dialog_open"
    assert error["dialog"]["message"] == "look here"


def test_two_calls_in_one_tab_are_served_one_after_the_other(shop: Driver) -> None:
    shop.visit("/obstacles.html")
    other = shop.call("tabs", action="new", url="/second.html")["tabs"][-1]["id"]
    shop.call("tabs", action="select", tabId="t1")
    heard = "document.body.append('and now')"
    shop.call("evaluate", script=f"onstorage = () => {{ {heard} }}; 0")
    first = shop.begin("waitFor", text="and now", timeout=60_000)
    second = shop.begin("exists", selector="h1")
    in_another_tab = shop.begin("exists", selector="h1", tabId=other)
    no_step = shop.begin("getSessionStatus")
    assert {shop.receive()["id"] for _ in range(2)} == {in_another_tab, no_step}
    told = shop.begin("evaluate", script="localStorage.now = Math.random()", tabId=other)
    answered = [shop.receive()["id"] for _ in range(3)]
    assert [one for one in answered if one != told] == [first, second]

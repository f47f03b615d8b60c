"""Tools that act, over the wire: what each does, what each answers when it cannot."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.driving import Driver

pytestmark = pytest.mark.browser

LONG_MS = 2_000  # for what fails with a reason, which a busy machine must have seen by then
MINIMAL: dict[str, dict[str, Any]] = {
    "navigate": {"url": "/"},
    "click": {"selector": "h1"},
    "type": {"selector": "#who", "text": "x"},
    "screenshot": {},
    "evaluate": {"script": "1"},
    "waitForSelector": {"selector": "h1"},
    "getContent": {},
    "exists": {"selector": "h1"},
    "snapshot": {},
    "find": {"text": "shop"},
    "fillForm": {"fields": [{"selector": "#who", "value": "x"}]},
    "selectOption": {"selector": "#size", "values": ["m"]},
    "hover": {"selector": "h1"},
    "pressKey": {"key": "Tab"},
    "drag": {"from": "#card", "to": "#shelf"},
    "uploadFile": {"selector": "#file", "paths": []},
    "handleDialog": {"accept": True},
    "goBack": {},
    "waitFor": {"text": "shop"},
    "resize": {"width": 800, "height": 600},
    "emulate": {"colorScheme": "dark"},
    "pdf": {},
    "tabs": {"action": "select"},
}
"""Every browser tool with the least that it takes."""


# What every tool answers


def test_every_browser_tool_is_served(shop: Driver) -> None:
    listed = shop.request("tools/list", {}, id=7)["result"]["tools"]
    assert MINIMAL.keys() <= {tool["name"] for tool in listed}


@pytest.mark.parametrize("tool", MINIMAL)
def test_an_unknown_session_is_session_not_found(shop: Driver, tool: str) -> None:
    error = shop.fault(tool, **{**MINIMAL[tool], "tabId": "t1", "sessionId": "of-nobody"})
    assert error["type"] == "session_not_found"
    assert "of-nobody" in error["message"]
    assert "startSession" in error["suggestion"]


@pytest.mark.parametrize("tool", MINIMAL)
def test_an_unknown_tab_is_tab_not_found(shop: Driver, tool: str) -> None:
    error = shop.fault(tool, **{**MINIMAL[tool], "tabId": "t999"})
    assert (error["type"], error["tabId"]) == ("tab_not_found", "t999")
    assert "t1" in error["suggestion"]


@pytest.mark.parametrize("tool", MINIMAL)
def test_an_unknown_argument_is_named(shop: Driver, tool: str) -> None:
    error = shop.fault(tool, **MINIMAL[tool], bogus=1)
    assert error["type"] == "invalid_input"
    assert "bogus" in error["message"]


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("click", {}, "selector"),
        ("click", {"selector": ""}, "selector"),
        ("click", {"selector": "h1", "timeout": -1}, "timeout"),
        ("click", {"selector": "h1", "button": "fourth"}, "button"),
        ("navigate", {"url": "/", "waitUntil": "whenever"}, "waitUntil"),
        ("type", {"selector": "#who"}, "text"),
        ("fillForm", {"fields": []}, "fields"),
        ("selectOption", {"selector": "#size", "values": []}, "values"),
        ("resize", {"width": 1, "height": 600}, "width"),
        ("emulate", {"network": "carrier pigeon"}, "network"),
    ],
)
def test_a_bad_argument_is_named(
    shop: Driver, tool: str, arguments: dict[str, Any], field: str
) -> None:
    error = shop.fault(tool, **arguments)
    assert (error["type"], error["field"]) == ("invalid_input", field)


@pytest.mark.parametrize(
    "tool", ["click", "type", "hover", "selectOption", "uploadFile", "exists", "waitForSelector"]
)
def test_a_selector_that_cannot_be_read_is_invalid_input(shop: Driver, tool: str) -> None:
    error = shop.fault(tool, **{**MINIMAL[tool], "selector": "###"})
    assert (error["type"], error["field"], error["received"]) == (
        "invalid_input",
        "selector",
        "###",
    )


# navigate, goBack


@pytest.mark.parametrize("until", ["load", "domcontentloaded", "networkidle"])
def test_navigate_loads_a_page_of_the_app(shop: Driver, until: str) -> None:
    done = shop.call("navigate", sessionId=shop.session_id, url="/second.html", waitUntil=until)
    assert done["success"] is True
    assert done["url"] == f"{shop.url}/second.html"
    assert (done["status"], done["title"]) == (200, "The second page")
    assert done["requests"] == ["GET /second.html → 200"]


def test_navigate_follows_redirects_and_tells_a_404(shop: Driver) -> None:
    assert shop.visit("/hop/3")["url"] == f"{shop.url}/second.html"
    assert shop.visit("/nowhere")["status"] == 404


def test_navigate_to_a_port_where_nobody_listens_is_navigation_failed(shop: Driver) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        error = shop.fault("navigate", url=url)
    assert error["type"] == "navigation_failed"
    assert error["url"] == url
    assert "refused" in error["reason"].lower()


def test_navigate_to_a_page_that_does_not_come_is_a_timeout(shop: Driver) -> None:
    error = shop.fault("navigate", url="/api/slow?ms=2000", timeout=300)
    assert error["type"] == "timeout"
    assert "selector" not in error
    assert not any("selector" in missing for missing in error.get("missing", []))


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "//169.254.169.254/",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "chrome://settings",
        "javascript:alert(1)",
        "data:text/html,hello",
        "/to?url=http://169.254.169.254/",
    ],
)
def test_navigate_beyond_the_policy_is_url_not_allowed(shop: Driver, url: str) -> None:
    error = shop.fault("navigate", url=url)
    assert error["type"] == "url_not_allowed"
    assert error["rule"]
    assert error["suggestion"]


def test_go_back_and_forward_move_in_the_history(shop: Driver) -> None:
    shop.visit("/")
    shop.visit("/second.html")
    back = shop.call("goBack")
    assert back["navigated"]
    assert back["url"] == f"{shop.url}/"
    assert shop.call("goBack", forward=True)["url"] == f"{shop.url}/second.html"


# click


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "left"),
        ({"button": "right"}, "right"),
        ({"double": True}, "twice"),
        ({"modifiers": ["Shift"]}, "left with shift"),
    ],
)
def test_click_presses_as_it_is_told(shop: Driver, arguments: dict[str, Any], said: str) -> None:
    shop.visit("/")
    assert shop.call("click", selector="#say", **arguments)["success"] is True
    assert shop.text("#heard").strip() == said


@pytest.mark.parametrize(
    "selector",
    ["#say", "text=Say something", "role=button[name='Say something']", "xpath=//*[@id='say']"],
)
def test_click_takes_css_and_playwright_selectors(shop: Driver, selector: str) -> None:
    shop.visit("/")
    shop.call("click", sessionId=shop.session_id, selector=selector, timeout=30_000)
    assert shop.text("#heard").strip() == "left"


def test_click_takes_the_ref_of_a_snapshot_in_each_of_its_spellings(shop: Driver) -> None:
    shop.visit("/")
    line = shop.call("find", text="say something")["matches"][0]
    ref = line.split("[ref=")[1].split("]")[0]
    for spelling in (ref, f"ref={ref}", f"[ref={ref}]", f"aria-ref={ref}"):
        shop.call("evaluate", script="show('')")
        shop.call("click", selector=spelling)
        assert shop.text("#heard").strip() == "left"


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ("#covered", '<div id="veil" class="notice">…</div> covers it'),
        ("#disabled", "it is disabled"),
        ("#hidden", "it is not visible"),
        ("#moving", "it keeps moving"),
    ],
)
def test_a_click_that_cannot_be_made_is_an_error_that_says_why(
    shop: Driver, selector: str, why: str
) -> None:
    shop.visit("/obstacles.html")
    error = shop.fault("click", selector=selector, timeout=LONG_MS)
    assert (error["type"], error["timeout"]) == ("timeout", LONG_MS)
    assert error["message"] == f'Timeout: "{selector}" is there, but {why}'
    assert why.replace(" covers it", "") in error["causes"][0]
    assert shop.text("#clicks") == "none"


def test_a_covering_element_is_named_with_its_text(shop: Driver) -> None:
    shop.visit("/obstacles.html")

    def seen() -> dict[str, Any] | None:
        """Its text is asked of the page, which on a busy machine may not answer in time."""
        error = shop.fault("click", selector="#covered", timeout=LONG_MS)
        return None if any("element:" in one for one in error.get("missing", [])) else error

    error = wait_until(seen)
    assert 'id="veil"' in error["covers"]
    assert "We use cookies" in error["causes"][0]
    assert 'id="veil"' in error["suggestion"]


def test_an_element_that_is_taken_out_all_the_time_is_not_said_to_be_covered(shop: Driver) -> None:
    shop.visit("/obstacles.html?flicker")
    error = shop.fault("click", selector="#detached", timeout=700)
    assert error["type"] in ("timeout", "element_not_found")
    assert "covers" not in error
    assert shop.text("#clicks") == "none"


def test_a_click_on_nothing_is_element_not_found_after_its_timeout(shop: Driver) -> None:
    shop.visit("/")
    began = time.monotonic()
    error = shop.fault("click", selector="#nothing", timeout=500)
    assert time.monotonic() - began >= 0.5
    assert error["type"] == "element_not_found"
    assert (error["selector"], error["timeout"]) == ("#nothing", 500)
    assert error["suggestion"].startswith("Check if selector is correct")
    assert error["context"]["tool"] == "click"


def test_a_click_on_several_is_selector_ambiguous_with_candidates(shop: Driver) -> None:
    shop.visit("/obstacles.html")
    error = shop.fault("click", selector=".twin")
    assert error["type"] == "selector_ambiguous"
    assert "2 elements" in error["message"]
    first, second = error["candidates"]
    assert "First twin" in first
    assert "Second twin" in second
    assert shop.text("#clicks") == "none"
    shop.call("click", selector=second.partition(" is ")[0])
    assert shop.text("#clicks") != "none"


def test_candidates_of_a_selector_with_quotes_can_be_clicked(shop: Driver) -> None:
    shop.visit("/obstacles.html")
    error = shop.fault("click", selector='button[class="twin"]')
    shop.call("click", selector=error["candidates"][0].partition(" is ")[0])


def test_a_stale_ref_fails_at_once_although_there_is_time(shop: Driver) -> None:
    shop.visit("/obstacles.html")
    line = shop.call("find", text="vanish")["matches"][0]
    ref = line.split("[ref=")[1].split("]")[0]
    shop.call("click", selector="#swap")
    began = time.monotonic()
    error = shop.fault("click", selector=ref, timeout=60_000)
    assert time.monotonic() - began < 30
    assert (error["type"], error["selector"]) == ("stale_ref", ref)
    assert "snapshot" in error["suggestion"]


# type, fillForm, selectOption


def test_type_replaces_what_is_there(shop: Driver) -> None:
    shop.visit("/")
    for text in ("first", "second"):
        shop.call("type", sessionId=shop.session_id, selector="#who", text=text)
    assert shop.value("document.querySelector('#who').value") == "second"


def test_type_slowly_sends_keys_and_submit_presses_enter(shop: Driver) -> None:
    shop.visit("/")
    done = shop.call("type", selector="#keys", text="ab", slowly=True)
    assert done["console"] == ["log: key a", "log: key b"]
    shop.call("type", selector="#who", text="Ada", submit=True)
    assert shop.text("#heard") == "signed up Ada"


def test_type_into_what_cannot_be_written_is_an_error(shop: Driver) -> None:
    shop.visit("/obstacles.html")
    fixed = shop.fault("type", selector="#fixed", text="x", timeout=LONG_MS)
    assert fixed["type"] == "timeout"
    assert "read-only" in fixed["message"]
    assert shop.fault("type", selector="h1", text="x", timeout=LONG_MS)["type"] == "action_failed"
    assert shop.value("document.querySelector('#fixed').value") == "as it is"


def test_a_login_sets_its_cookie_and_leads_on(shop: Driver) -> None:
    shop.visit("/account")
    assert shop.value("location.pathname") == "/"
    shop.call("type", selector="#user", text="ada")
    shop.call("type", selector="#password", text="a-good-password")
    done = shop.call("click", selector="#enter")
    assert done["navigated"]
    shop.call("waitFor", text="Welcome ada")


def test_fill_form_fills_every_kind_of_field_and_submits(shop: Driver) -> None:
    shop.visit("/")
    fields = [
        {"selector": "#who", "value": "Grace"},
        {"selector": "#agree", "value": True},
        {"selector": "#size", "value": "Medium"},
        {"selector": "#colours", "value": ["red", "blue"]},
    ]
    shop.call("fillForm", fields=fields, submit="#send")
    assert shop.text("#heard") == "signed up Grace"
    chosen = "[...document.querySelectorAll('option:checked')].map(o => o.value)"
    assert shop.value(f"[document.querySelector('#agree').checked, ...{chosen}]") == [
        True,
        "m",
        "red",
        "blue",
    ]
    shop.call("fillForm", fields=[{"selector": "#agree", "value": False}])
    assert shop.value("document.querySelector('#agree').checked") is False


def test_fill_form_names_the_field_that_is_not_there(shop: Driver) -> None:
    shop.visit("/")
    fields = [{"selector": "#who", "value": "Grace"}, {"selector": "#nothing", "value": "x"}]
    error = shop.fault("fillForm", fields=fields, timeout=LONG_MS)
    assert (error["type"], error["selector"]) == ("element_not_found", "#nothing")


@pytest.mark.parametrize("values", [["l"], ["Large"]])
def test_select_option_takes_values_and_labels(shop: Driver, values: list[str]) -> None:
    shop.visit("/")
    shop.call("selectOption", selector="#size", values=values)
    assert shop.value("document.querySelector('#size').value") == "l"


def test_select_option_without_such_an_option_is_a_timeout_that_says_so(shop: Driver) -> None:
    shop.visit("/")
    error = shop.fault("selectOption", selector="#size", values=["xxl"], timeout=LONG_MS)
    assert error["type"] == "timeout"
    assert "no such option" in error["message"]
    assert shop.fault("selectOption", selector="h1", values=["l"])["type"] == "action_failed"


# hover, pressKey, drag, uploadFile


def test_hover_opens_a_menu(shop: Driver) -> None:
    shop.visit("/")
    assert not shop.call("exists", selector="text=Inside the menu")["visible"]
    shop.call("hover", selector="#menu")
    assert shop.call("exists", selector="text=Inside the menu")["visible"]
    error = shop.fault("hover", selector="#nothing", timeout=300)
    assert error["type"] == "element_not_found"


def test_press_key_goes_to_the_focused_element_or_to_a_chosen_one(shop: Driver) -> None:
    shop.visit("/")
    assert shop.call("pressKey", key="a", selector="#keys")["console"] == ["log: key a"]
    assert shop.call("pressKey", key="Shift+B")["console"] == ["log: key Shift", "log: key B"]
    assert shop.value("document.querySelector('#keys').value") == "aB"


def test_press_key_without_such_a_key_is_action_failed(shop: Driver) -> None:
    shop.visit("/")
    error = shop.fault("pressKey", key="AnyKey")
    assert error["type"] == "action_failed"
    assert "AnyKey" in error["message"]
    assert "selector" not in error


def test_drag_drops_one_element_on_another(shop: Driver) -> None:
    shop.visit("/")
    shop.call("drag", **{"from": "#card", "to": "#shelf"})
    assert shop.call("exists", selector="#shelf > #card")["exists"]
    error = shop.fault("drag", **{"from": "#nothing", "to": "#shelf", "timeout": 300})
    assert error["type"] == "element_not_found"


def test_upload_file_gives_files_and_takes_them_back(shop: Driver) -> None:
    shop.visit("/")
    (shop.files / "one.txt").write_text("one")
    (shop.files / "two.txt").write_text("seconds")
    paths = [str(shop.files / name) for name in ("one.txt", "two.txt")]
    shop.call("uploadFile", selector="#file", paths=paths)
    assert shop.text("#heard") == "one.txt:3,two.txt:7"
    shop.call("uploadFile", selector="#file", paths=[])
    assert shop.value("document.querySelector('#file').files.length") == 0


def test_upload_file_takes_no_file_from_outside(shop: Driver, tmp_path: Path) -> None:
    shop.visit("/")
    (tmp_path / "secret").write_text("of another folder")
    (shop.files / "link").symlink_to(tmp_path / "secret")
    outside = ["/etc/passwd", str(shop.files / "link"), "../../../../../etc/passwd"]
    for path in [*outside, str(shop.files / "nothing"), str(shop.files)]:
        error = shop.fault("uploadFile", selector="#file", paths=[path])
        assert (error["type"], error["path"]) == ("file_not_allowed", path)
    for path in ("one\0.txt", str(shop.files / "one.txt") + "\0", "\0"):
        error = shop.fault("uploadFile", selector="#file", paths=[path])
        assert error["type"] == "file_not_allowed"
        assert "NUL" in error["message"]
    for path in ("x" * 300, "x/" * 3000, str(shop.files / ("x" * 5000))):
        assert shop.fault("uploadFile", selector="#file", paths=[path])["type"] == (
            "file_not_allowed"
        )
    assert shop.value("document.querySelector('#file').files.length") == 0
    some = shop.files / "some"
    some.write_text("x")
    error = shop.fault("uploadFile", selector="#who", paths=[str(some)], timeout=LONG_MS)
    assert (error["type"], error["selector"]) == ("timeout", "#who")


# resize, emulate


def test_resize_sets_the_viewport(shop: Driver) -> None:
    shop.visit("/")
    shop.call("resize", width=390, height=844)
    assert shop.value("[innerWidth, innerHeight]") == [390, 844]
    shop.call("resize", width=1280, height=720)


@pytest.mark.parametrize(
    ("pretence", "script", "seen", "undo"),
    [
        (
            {"colorScheme": "dark"},
            "matchMedia('(prefers-color-scheme: dark)').matches",
            True,
            {"colorScheme": "light"},
        ),
        (
            {"reducedMotion": "reduce"},
            "matchMedia('(prefers-reduced-motion)').matches",
            True,
            {"reducedMotion": "no-preference"},
        ),
        ({"media": "print"}, "matchMedia('print').matches", True, {"media": "screen"}),
        (
            {"timezone": "Asia/Tokyo"},
            "new Date().getTimezoneOffset()",
            -540,
            {"timezone": "UTC"},
        ),
        ({"userAgent": "a pilot"}, "navigator.userAgent", "a pilot", {}),
        ({"cpuSlowdown": 2}, "1", 1, {"cpuSlowdown": 1}),
        (
            {"latitude": 35.6, "longitude": 139.7},
            "new Promise(done => navigator.geolocation.getCurrentPosition("
            "p => done([p.coords.latitude, p.coords.longitude])))",
            [35.6, 139.7],
            {},
        ),
    ],
)
def test_emulate_pretends(
    shop: Driver, pretence: dict[str, Any], script: str, seen: Any, undo: dict[str, Any]
) -> None:
    shop.visit("/")
    shop.call("emulate", **pretence)
    assert shop.value(script) == seen
    shop.call("emulate", **undo)


def test_emulate_offline_lets_no_page_load_until_it_is_over(shop: Driver) -> None:
    shop.visit("/")
    shop.call("emulate", network="offline")
    error = shop.fault("navigate", url="/second.html")
    shop.call("emulate", network="none")
    assert error["type"] == "navigation_failed"
    assert shop.visit("/second.html")["status"] == 200


def test_emulate_of_a_place_without_a_clock_is_action_failed(shop: Driver) -> None:
    error = shop.fault("emulate", timezone="Nowhere/Land")
    assert error["type"] == "action_failed"
    assert "time zone" in error["message"]

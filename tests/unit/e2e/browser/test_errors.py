"""What Playwright says, understood; the messages are its own, as it words them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.e2e.browser.errors import Trouble, read_error, ref_of, script_message

COVERED = """Locator.click: Timeout 700ms exceeded.
Call log:
  - waiting for locator("#covered")
    - locator resolved to <button id="covered">Pay now</button>
  - attempting click action
    2 × waiting for element to be visible, enabled and stable
      - element is visible, enabled and stable
      - scrolling into view if needed
      - done scrolling
      - <b>We use cookies</b> from <div id="veil" class="notice">…</div> subtree intercepts \
pointer events
    - retrying click action
"""
AMBIGUOUS = """Locator.click: Error: strict mode violation: locator(".twin") resolved to 2 elements:
    1) <button class="twin">First twin</button> aka get_by_role("button", name="First twin")
    2) <button class="twin">Second twin</button> aka get_by_role("button", name="Second twin")

Call log:
  - waiting for locator(".twin")
"""


def click_log(*lines: str) -> str:
    body = "\n".join(f"    - {line}" for line in lines)
    return f"Locator.click: Timeout 300ms exceeded.\nCall log:\n{body}\n"


FOUND = 'locator resolved to <button id="b">B</button>'
WAITS = 'waiting for locator("#b")'


@pytest.mark.parametrize(
    ("selector", "ref"),
    [
        ("e12", "e12"),
        ("f1e3", "f1e3"),
        ("ref=e12", "e12"),
        ("[ref=e12]", "e12"),
        ("aria-ref=f2e7", "f2e7"),
        (" e1 ", "e1"),
        ("e", ""),
        ("em", ""),
        ("#e12", ""),
        ("e12 > b", ""),
        ("text=e12", ""),
        ("", ""),
    ],
)
def test_a_ref_is_told_from_other_selectors(selector: str, ref: str) -> None:
    assert ref_of(selector) == ref


def test_of_a_covered_element_the_outermost_cover_is_named() -> None:
    assert read_error("TimeoutError", COVERED) == Trouble(
        "timeout",
        "Timeout 700ms exceeded.",
        matched='<button id="covered">Pay now</button>',
        cover='<div id="veil" class="notice">…</div>',
        obstacle="another element covers it",
    )


def test_a_cover_without_a_parent_is_named_itself() -> None:
    log = click_log(WAITS, FOUND, '<div id="veil"></div> intercepts pointer events')
    assert read_error("TimeoutError", log).cover == '<div id="veil"></div>'


@pytest.mark.parametrize(
    ("line", "obstacle"),
    [
        ("element is not visible", "it is not visible"),
        ("element is not enabled", "it is disabled"),
        ("element is not editable", "it is read-only"),
        ("element is not stable", "it keeps moving"),
        ("element is outside of the viewport", "it is outside of the viewport"),
        (
            "element was detached from the DOM, retrying",
            "it is taken out of the page again and again",
        ),
        ("did not find some options", "it has no such option"),
    ],
)
def test_what_stood_in_the_way_is_said_in_words(line: str, obstacle: str) -> None:
    trouble = read_error("TimeoutError", click_log(WAITS, FOUND, line))
    assert (trouble.kind, trouble.obstacle, trouble.cover) == ("timeout", obstacle, "")


def test_the_last_obstacle_counts() -> None:
    covered = '<div id="veil"></div> intercepts pointer events'
    trouble = read_error("TimeoutError", click_log(WAITS, FOUND, covered, "element is not enabled"))
    assert (trouble.obstacle, trouble.cover) == ("it is disabled", "")


@pytest.mark.parametrize(
    ("seen", "obstacle"), [("hidden", "it is not visible"), ("visible", "it is still visible")]
)
def test_a_wait_in_vain_tells_how_the_element_was(seen: str, obstacle: str) -> None:
    log = click_log(f"{WAITS} to be so", f"5 × locator resolved to {seen} <h1>Shop</h1>")
    trouble = read_error("TimeoutError", log)
    assert (trouble.kind, trouble.matched) == ("timeout", "<h1>Shop</h1>")
    assert trouble.obstacle == obstacle


def test_a_picture_that_waits_for_fonts_misses_no_element() -> None:
    log = "\nCall log:\n  - taking page screenshot\n  - waiting for fonts to load..."
    said = f"Page.screenshot: Timeout 30000ms exceeded.{log}"
    assert read_error("TimeoutError", said).kind == "timeout"


def test_time_that_went_by_looking_for_an_element_is_not_found() -> None:
    assert read_error("TimeoutError", click_log(WAITS)).kind == "not_found"


def test_time_that_went_by_loading_a_page_is_a_timeout() -> None:
    text = (
        "Page.goto: Timeout 400ms exceeded.\nCall log:\n"
        '  - navigating to "http://localhost/slow", waiting until "load"\n'
    )
    assert read_error("TimeoutError", text).kind == "timeout"


def test_an_ambiguous_selector_gives_its_candidates() -> None:
    trouble = read_error("Error", AMBIGUOUS)
    assert (trouble.kind, trouble.found) == ("ambiguous", 2)
    first, second = trouble.candidates
    assert first.startswith(".twin >> nth=0 is <button")
    assert second.startswith(".twin >> nth=1 is <button")


def test_the_candidates_of_a_chain_of_locators_are_elements_alone() -> None:
    chain = 'locator("iframe").content_frame.locator(".twin")'
    trouble = read_error("Error", AMBIGUOUS.replace('locator(".twin")', chain, 1))
    assert trouble.candidates[0] == '<button class="twin">First twin</button>'


def test_an_ambiguous_selector_without_a_list_is_still_ambiguous() -> None:
    assert read_error("Error", "Locator.click: Error: strict mode violation").kind == "ambiguous"


@pytest.mark.parametrize(
    ("name", "text", "kind", "message"),
    [
        (
            "Error",
            'Locator.count: Unexpected token "#" while parsing css selector "###". Did you?',
            "syntax",
            'Unexpected token "#" while parsing css selector "###". Did you?',
        ),
        (
            "Error",
            'Locator.click: Unknown engine "nope" while parsing selector nope=1',
            "syntax",
            'Unknown engine "nope" while parsing selector nope=1',
        ),
        (
            "Error",
            "Page.goto: net::ERR_CONNECTION_REFUSED at http://localhost:1/\nCall log:\n  - x",
            "navigation",
            "net::ERR_CONNECTION_REFUSED",
        ),
        ("Error", "Page.goto: NS_ERROR_UNKNOWN_HOST", "navigation", "NS_ERROR_UNKNOWN_HOST"),
        (
            "TargetClosedError",
            "Page.click: Target page, context or browser has been closed",
            "closed",
            "Target page, context or browser has been closed",
        ),
        ("Error", "Page.goto: Page crashed", "crashed", "Page crashed"),
        ("Error", "Locator.click: Target crashed", "crashed", "Target crashed"),
        (
            "Error",
            "Keyboard.press: \x1b[31mUnknown key: \x1b[39m",
            "other",
            "Unknown key: ",
        ),
        ("Error", "", "other", ""),
    ],
)
def test_an_error_is_of_a_kind(name: str, text: str, kind: str, message: str) -> None:
    trouble = read_error(name, text)
    assert (trouble.kind, trouble.message.strip()) == (kind, message.strip())


@given(st.sampled_from(("Error", "TimeoutError", "TargetClosedError", "")), st.text(max_size=300))
@settings(deadline=None)
def test_no_text_is_too_strange_to_be_read(name: str, text: str) -> None:
    trouble = read_error(name, text)
    assert "\n" not in trouble.message
    assert isinstance(ref_of(text), str)


def test_a_script_error_is_told_without_the_machinery() -> None:
    text = (
        "Page.evaluate: ReferenceError: nowhere is not defined\n"
        "    at eval (eval at evaluate (:303:30), <anonymous>:1:1)\n"
        "    at UtilityScript.evaluate (<anonymous>:305:16)\n"
        "    at shop (http://localhost/app.js:3:1)\n"
        "    at eval (<anonymous>)"
    )
    assert script_message(text) == (
        "ReferenceError: nowhere is not defined\n    at shop (http://localhost/app.js:3:1)"
    )

"""A user pairs Chrome by what the terminal shows; nobody else gets in."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.bookmarks.extension.pairing import make_token, shown
from tests.support.bookmark_chrome import BAR, OPTIONS, POPUP, BookmarkChrome, Desk, pairing_code
from tests.support.driving import size
from tests.support.intercepting import app
from tests.support.rounds import IS_SOAK
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.chromium import Debugger

pytestmark = pytest.mark.browser

"""Whether minutes may be waited for."""
WRONG = 10
"""Codes that may be wrong within a minute."""

TRY = """
(port) => new Promise((resolve) => {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
  socket.onopen = () => resolve("open");
  socket.onerror = () => resolve("refused");
})
"""
COUNT_REFUSALS = """
globalThis.refusals = 0;
chrome.storage.onChanged.addListener(({ status }) => {
  if (status?.newValue.state === "refused") refusals += 1;
});
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[BookmarkChrome]:
    with BookmarkChrome() as chrome:
        yield chrome


@pytest.fixture
def unpaired(browser: BookmarkChrome, desk: Desk) -> BookmarkChrome:
    """A Chrome that knows the server's port and no code."""
    browser.settle(desk.bookmarks_port, "")
    browser.until("unpaired")
    return browser


def type_into(page: Debugger, field: str, text: str) -> None:
    page.send("Page.bringToFront")
    page.evaluate(f"document.getElementById('{field}').select()")
    page.send("Input.insertText", text=text)


def press_enter(page: Debugger) -> None:
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r")


def shows(page: Debugger, text: str) -> None:
    wait_until(lambda: text in page.evaluate("document.body.innerText"), f"the text {text!r}")


# As a user does


def test_the_code_of_the_terminal_typed_into_the_popup_connects(
    desk: Desk, unpaired: BookmarkChrome
) -> None:
    with unpaired.page(POPUP) as popup:
        shows(popup, "Not paired yet")
        shows(popup, "pilothouse pair")
        type_into(popup, "code", desk.code)
        press_enter(popup)
        shows(popup, "Connected")
        shows(popup, "pilothouse 0.")
        shows(popup, f"127.0.0.1:{desk.bookmarks_port}")
        assert popup.evaluate("document.getElementById('pairing').hidden")
    desk.until_connected("Work")
    assert desk.call("bookmark_get", id=BAR)["nodes"]


def test_a_code_is_understood_however_it_is_typed(desk: Desk, unpaired: BookmarkChrome) -> None:
    untidy = desk.code.lower().replace("-", " ").replace("0", "o").replace("1", "l")
    with unpaired.page(POPUP) as popup:
        type_into(popup, "code", f"  {untidy} ")
        press_enter(popup)
        shows(popup, "Connected")


def test_the_options_set_port_name_and_code_and_unpair(desk: Desk, browser: BookmarkChrome) -> None:
    browser.settle(1, "")
    with browser.page(OPTIONS) as options:
        type_into(options, "port", "70000")
        press_enter(options)
        shows(options, "65535")
        for field, text in (
            ("name", "Home"),
            ("port", str(desk.bookmarks_port)),
            ("code", desk.code),
        ):
            type_into(options, field, text)
        press_enter(options)
        shows(options, "Connected")
        desk.until_connected("Home")
        assert options.evaluate("document.getElementById('code').type") == "password"
        type_into(options, "code", "")
        options.evaluate("document.getElementById('code').value = ''")
        press_enter(options)
        shows(options, "Not paired yet")
    desk.until_connected()


def test_a_code_that_cannot_be_one_is_not_even_sent(desk: Desk, unpaired: BookmarkChrome) -> None:
    with unpaired.page(POPUP) as popup:
        for typed, problem in (("", "Enter the code"), ("ABC", "26"), ("U" * 26, "U")):
            type_into(popup, "code", typed)
            press_enter(popup)
            shows(popup, problem)
    assert unpaired.status["state"] == "unpaired"


def test_another_code_ends_what_the_old_one_let_in(browser: BookmarkChrome) -> None:
    with Desk() as desk:
        browser.connect(desk.open())
        new = pairing_code(desk.env, "--new")
        with browser.page(POPUP) as popup:
            shows(popup, "Connected")
            popup.evaluate("document.getElementById('reconnect').click()")
            shows(popup, "Pairing code refused")
            assert desk.profiles == []
            type_into(popup, "code", new)
            press_enter(popup)
            shows(popup, "Connected")
        desk.until_connected("Work")


# Who may not


def test_ten_wrong_codes_lock_out_and_hurt_nobody_who_is_in() -> None:
    with (
        Desk() as desk,
        BookmarkChrome(name="In") as inside,
        BookmarkChrome(name="Guesser") as guesser,
    ):
        inside.connect(desk.open())
        guesser.settle(desk.bookmarks_port, "")
        with guesser.page(POPUP) as popup:
            shows(popup, "Not paired yet")
            popup.evaluate(COUNT_REFUSALS)
            for number in range(1, WRONG + 1):
                type_into(popup, "code", shown(make_token()))
                press_enter(popup)
                wait_until(partial(has_refused, popup, number), f"refusal {number}")
                shows(popup, "Pairing code refused")
            type_into(popup, "code", desk.code)  # the right one, too late
            press_enter(popup)
            shows(popup, "Too many wrong pairing codes")
        assert desk.profiles == ["In"]
        assert desk.call("bookmark_get", id=BAR)["nodes"]
        inside.kill_worker()  # who was let in before may come again
        inside.by_hand("create", {"title": "Wake up"})
        desk.until_connected("In")
        if IS_SOAK:
            desk.until_connected("In", "Guesser", guard_s=5 * 60)


def has_refused(popup: Debugger, times: int) -> bool:
    return bool(popup.evaluate("refusals") == times)


def test_a_web_page_and_another_extension_are_refused(tmp_path: Path) -> None:
    other = another_extension(tmp_path)
    with Desk() as desk, app() as site, BookmarkChrome(beside=other) as chrome:
        chrome.connect(desk.open())
        script = f"({TRY})({desk.bookmarks_port})"
        page = chrome.open(site.url)
        assert chrome.evaluate(page, script) == "refused"
        blank = chrome.open("about:blank")
        assert chrome.evaluate(blank, script) == "refused"
        stranger = wait_until(lambda: worker_of(chrome, "stranger.js"), "the other extension")
        assert chrome.evaluate(stranger, script) == "refused"
        # The same script from a page of our own gets as far as the token.
        assert chrome.person.evaluate(script) == "open"
        assert desk.profiles == ["Work"]
        assert desk.call("bookmark_get", id=BAR)["nodes"]


def another_extension(folder: Path) -> Path:
    manifest = {
        "manifest_version": 3,
        "name": "Stranger",
        "version": "1",
        "permissions": ["bookmarks", "storage"],
        "host_permissions": ["<all_urls>"],
        "background": {"service_worker": "stranger.js"},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "stranger.js").write_text("chrome.runtime.onInstalled.addListener(() => {});")
    return folder


def worker_of(chrome: BookmarkChrome, script: str) -> str:
    return next((str(t["id"]) for t in chrome.targets() if t["url"].endswith(script)), "")


# How it looks


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_popup_is_readable_in_light_and_dark(
    desk: Desk, unpaired: BookmarkChrome, scheme: str, tmp_path: Path
) -> None:
    shots: dict[str, bytes] = {}
    with unpaired.page(POPUP) as popup:
        popup.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        shows(popup, "Not paired yet")
        shots["unpaired"] = picture(popup, tmp_path / f"unpaired-{scheme}.png")
        type_into(popup, "code", desk.code)
        press_enter(popup)
        shows(popup, "Connected")
        shots["connected"] = picture(popup, tmp_path / f"connected-{scheme}.png")
        paper, ink = popup.evaluate(
            "(({ backgroundColor, color }) => [backgroundColor, color])"
            "(getComputedStyle(document.body))"
        )
    assert (brightness(paper) > brightness(ink)) == (scheme == "light")
    assert shots["unpaired"] != shots["connected"]


def picture(page: Debugger, file: Path) -> bytes:
    """The page as large as a popup would be; nothing may stick out at its side."""
    width, height = page.evaluate(
        "[document.body.getBoundingClientRect().width, document.body.scrollHeight].map(Math.ceil)"
    )
    page.send(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=2,
        mobile=False,
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    png = base64.b64decode(page.send("Page.captureScreenshot", format="png")["data"])
    assert size(png) == (2 * width, 2 * height)
    file.write_bytes(png)
    return png


def brightness(colour: str) -> Any:
    return sum(int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])

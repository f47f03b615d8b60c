"""Every view, looked at in light and dark and used with the keyboard alone; the packets; and that
the guide tells of them as they are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.support.dashboard import AXE, VIEWS, board
from tests.support.driving import size
from tests.support.servers import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.dashboard import Board

pytestmark = pytest.mark.browser

GROUNDS = {"light": "rgb(244, 246, 248)", "dark": "rgb(15, 21, 27)"}
GRAVE = ("serious", "critical")
CART = {"Timeline": "200 /api/cart", "Network": "/api/cart", "Packets": "/api/cart"}
"""What tells of the lamp in the cart."""
GUIDE = (ROOT / "docs" / "guides" / "dashboard.md").read_text()
PICTURES = ROOT / "docs" / "pictures"
TAKEN = {
    "dashboard-light.png": ("Timeline", "light"),
    "dashboard-dark.png": ("Timeline", "dark"),
    "dashboard-network.png": ("Network", "light"),
}
WIDTH = 1440


def settled(seen: Board, view: str) -> None:
    """Wait for what a view shows at last."""
    if view == "Page":
        expect(seen.page.get_by_role("img", name="as it is now")).to_be_visible()
    elif view == "Failures":
        frame = seen.page.frame_locator("iframe")
        expect(frame.get_by_role("heading").first).to_be_visible()
    else:
        expect(seen.rows.first).to_be_visible()


def pictured(seen: Board, name: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("PILOTHOUSE_PICTURES", tmp_path))
    seen.page.screenshot(path=folder / f"dashboard-{name}.png")


def findings(seen: Board) -> list[str]:
    """What axe-core finds that keeps people out."""
    seen.page.evaluate(AXE.read_text(encoding="utf-8"))
    report: dict[str, Any] = seen.page.evaluate("axe.run(document, {iframes: false})")
    return [
        f"{found['id']} ({found['impact']}): {node['html'][:120]} {node.get('failureSummary', '')}"
        for found in report["violations"]
        if found["impact"] in GRAVE
        for node in found["nodes"]
    ]


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is missing: scripts/setup --tests")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_open_to_everybody_and_stays_at_home(
    intercepted: tuple[str, str], browser: Browser, scheme: str, tmp_path: Path
) -> None:
    url, token = intercepted
    with board(browser, url, scheme=scheme) as seen:
        seen.page.evaluate("token => sessionStorage.setItem('pilothouse.intercept', token)", token)
        ground = seen.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert ground == GROUNDS[scheme]
        for view in VIEWS:
            seen.show(view)
            settled(seen, view)
            if view in CART:
                seen.rows.filter(has_text=CART[view]).first.click()
                expect(seen.page.get_by_role("complementary")).to_contain_text("lamp")
            assert findings(seen) == []
            assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            pictured(seen, f"{view.lower()}-{scheme}", tmp_path)
        seen.press("?")
        assert findings(seen) == []
        assert seen.troubles == []
        assert seen.violations() == []
        assert seen.foreign() == []


def test_every_view_is_reached_and_used_with_the_keyboard_alone(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    url, token = intercepted
    with board(browser, url) as seen:
        page, panel = seen.page, seen.page.get_by_role("complementary")
        settled(seen, "Timeline")
        seen.press("g", "j", "j", "k", "Enter")
        expect(seen.rows.and_(page.locator("[aria-selected=true]"))).to_have_count(1)
        expect(panel).to_contain_text("Facts")
        seen.press("Escape")
        expect(panel).to_have_count(0)
        expect(page.get_by_role("listbox")).to_be_focused()
        seen.press("/")
        page.keyboard.type("anger")
        expect(seen.rows).to_have_count(1)
        seen.press("Escape", "j", "Enter")
        expect(panel).to_contain_text("said in anger")
        seen.press("/", "Delete", "Escape", "e")
        expect(page.get_by_role("button", name="Only trouble")).to_have_attribute(
            "aria-pressed", "true"
        )
        seen.press("e", "p")
        expect(page.get_by_role("button", name="Go on")).to_be_visible()
        seen.press("p", "2")
        expect(seen.tab("Network")).to_have_attribute("aria-selected", "true")
        settled(seen, "Network")
        seen.press("g", "Enter")
        expect(panel).to_contain_text("Response body")
        seen.press("3")
        page.get_by_label("Token").press_sequentially(token)
        seen.press("Enter")
        settled(seen, "Packets")
        seen.press("Escape", "j", "Enter")
        expect(panel).to_contain_text("Request headers")
        seen.press("4")
        settled(seen, "Page")
        seen.press("5")
        settled(seen, "Failures")
        seen.press("?")
        expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        seen.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_tab_leads_through_the_page_and_the_focus_is_always_seen(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    with board(browser, intercepted[0]) as seen:
        settled(seen, "Timeline")
        reached: list[str] = []
        for _ in range(30):
            seen.press("Tab")
            name, outline = seen.page.evaluate(
                "() => { const here = document.activeElement, style = getComputedStyle(here);"
                " return [here.getAttribute('role') ?? here.tagName, style.outlineStyle] }"
            )
            if name == "BODY":
                break
            assert outline != "none", f"the focus is not to be seen on {name}"
            reached.append(name)
        assert {"BUTTON", "tab", "INPUT", "listbox"} <= set(reached)


def test_light_and_dark_can_be_chosen_and_are_remembered(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    with board(browser, intercepted[0], scheme="light") as seen:
        seen.press("t", "t")
        expect(seen.page.get_by_role("button", name="Theme: dark")).to_be_visible()
        assert seen.page.evaluate(ground) == GROUNDS["dark"]
        seen.page.reload()
        expect(seen.page.get_by_role("button", name="Theme: dark")).to_be_visible()
        assert seen.page.evaluate(ground) == GROUNDS["dark"]


def test_related_rows_are_marked_and_lead_to_each_other(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    with board(browser, intercepted[0]) as seen:
        row = seen.rows.filter(has_text="POST /api/cart").first
        row.click()
        panel = seen.page.get_by_role("complementary")
        expect(panel.get_by_role("heading", name="Related")).to_be_visible()
        expect(seen.page.locator(".row.related").first).to_be_visible()
        panel.locator(".related-rows button").first.click()
        expect(row).to_have_attribute("aria-selected", "false")


def test_what_only_time_speaks_for_is_called_a_guess(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    with board(browser, intercepted[0]) as seen:
        seen.rows.filter(has_text="POST /api/cart").first.click()
        related = seen.page.get_by_role("complementary").locator(".related-rows button")
        step = related.filter(has_text="click #add")
        expect(step).to_contain_text("a guess: ")
        step.click()
        chosen = seen.page.locator("[role=option][aria-selected=true]")
        expect(chosen).to_contain_text("click #add")


def test_sessions_are_told_apart_and_a_step_stands_before_what_it_caused(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    with board(browser, intercepted[0]) as seen:
        name = seen.sessions.first.locator(".id")
        expect(name).not_to_be_empty()
        whole = name.get_attribute("title") or ""
        assert not whole.startswith(name.inner_text()), "all of them begin alike"
        assert name.inner_text() in whole
        expect(seen.rows.filter(has_text="click #add").first).to_be_visible()
        words = seen.rows.all_inner_texts()
        clicked = next(n for n, text in enumerate(words) if "click #add" in text)
        sent = next(n for n, text in enumerate(words) if "POST /api/cart" in text)
        assert clicked < sent


def test_the_page_is_drawn_though_its_stream_says_nothing_yet(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    page = browser.new_page()
    page.route("**/api/stream*", lambda _: None)
    page.goto(intercepted[0])
    expect(page.get_by_role("heading", name="Pilothouse", exact=True)).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Connecting")).to_be_visible()
    page.close()


# The packets: who may see them, their filter, and an exchange in full


def unlock(seen: Board, token: str) -> None:
    seen.page.get_by_label("Token").fill(token)
    seen.page.keyboard.press("Enter")


def test_the_token_is_asked_for_once_and_a_wrong_one_is_refused(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    url, token = intercepted
    with board(browser, url, "#packets") as seen:
        expect(seen.page.get_by_text("pilothouse token")).to_be_visible()
        assert not any("/api/packets/" in asked for asked in seen.requests)
        unlock(seen, "x" * len(token))
        expect(seen.page.get_by_role("alert")).not_to_be_empty()
        expect(seen.rows).to_have_count(0)
        expect(seen.page.get_by_label("Token")).to_be_focused()  # to try the next one at once
        unlock(seen, token)
        expect(seen.rows.filter(has_text="/api/cart").first).to_be_visible()
        seen.page.reload()
        expect(seen.rows.filter(has_text="/api/cart").first).to_be_visible()
        assert token not in seen.page.url


def test_what_is_wrong_in_a_filter_is_shown_where_it_stands(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    url, token = intercepted
    with board(browser, url, "#packets") as seen:
        unlock(seen, token)
        field = seen.page.get_by_role("searchbox")
        field.fill("method == POST && statu >= 400")
        trouble = seen.page.locator("#filter-trouble")
        expect(trouble).to_contain_text("statu")
        expect(trouble).to_contain_text("did you mean status?")
        expect(field).to_have_attribute("aria-invalid", "true")
        mark = seen.page.locator(".caret")
        indent, letter = mark.evaluate(
            "mark => { const style = getComputedStyle(mark);"
            " const pen = document.createElement('canvas').getContext('2d'); pen.font = style.font;"
            " return [parseFloat(style.paddingLeft), pen.measureText('0').width] }"
        )
        assert round(indent / letter) == "method == POST && statu".index("statu")
        # The rows of the last good filter stay, and a mended one is carried out by itself.
        expect(seen.rows.first).to_be_visible()
        field.fill("method == POST && url =~ /api/cart")
        expect(trouble).to_be_empty()
        expect(seen.rows.filter(has_not_text="/api/cart")).to_have_count(0)
        expect(seen.rows).to_have_count(2)
        field.fill("")
        expect(seen.rows.filter(has_not_text="/api/cart").first).to_be_visible()


def test_an_exchange_is_shown_with_both_heads_and_pretty_bodies(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    url, token = intercepted
    with board(browser, url, "#packets") as seen:
        unlock(seen, token)
        seen.rows.filter(has_text="/api/cart").first.click()
        panel = seen.page.get_by_role("complementary")
        expect(panel).to_contain_text("Request headers")
        expect(panel).to_contain_text('{\n  "item": "lamp"\n}')
        expect(panel).to_contain_text("Response body")
        expect(panel).to_contain_text("200")
        assert seen.troubles == [] or all("401" in said for said in seen.troubles)


# docs/guides/dashboard.md: its views and keys are those of the page, which its pictures show


def test_the_guide_names_the_views_and_the_keys_of_the_page(
    intercepted: tuple[str, str], browser: Browser
) -> None:
    views = re.findall(r"^\| ([A-Z]\w+) \|", GUIDE, re.M)
    keys = re.findall(r"^\| (`.+`) \| (.+) \|$", GUIDE, re.M)
    with board(browser, intercepted[0]) as seen:
        tabs = seen.page.get_by_role("tab").all_inner_texts()
        assert [tab.split()[0] for tab in tabs] == views == list(VIEWS)
        seen.press("?")
        help = seen.page.get_by_role("dialog", name="Keyboard")
        expect(help).to_be_visible()
        shown = help.locator("dl > div").evaluate_all(
            "rows => rows.map(row => [[...row.querySelectorAll('kbd')].map(key => key.textContent),"
            " row.querySelector('dd').textContent])"
        )
    assert [[re.findall(r"`([^`]+)`", names), does] for names, does in keys] == shown


@pytest.mark.parametrize("name", TAKEN)
def test_its_pictures_show_what_happened(
    intercepted: tuple[str, str], browser: Browser, name: str
) -> None:
    view, scheme = TAKEN[name]
    with board(browser, intercepted[0], scheme=scheme) as seen:
        seen.show(view)
        seen.rows.filter(has_text="500").filter(has_text="broken").last.click()
        panel = seen.page.get_by_role("complementary")
        expect(panel).to_contain_text("Related")
        expect(panel).to_contain_text("the stock service said no")
        taken = picture(seen)
    assert size(taken)[0] == WIDTH
    if os.environ.get("PILOTHOUSE_WRITE_PICTURES"):
        (PICTURES / name).write_bytes(taken)


def picture(seen: Board) -> bytes:
    seen.page.mouse.move(0, 0)
    return seen.page.screenshot(animations="disabled")


def test_the_pictures_in_the_guide_and_the_readme_are_there_and_readable() -> None:
    for name in TAKEN:
        assert f"../pictures/{name}" in GUIDE
        assert size((PICTURES / name).read_bytes())[0] == WIDTH
    assert "docs/pictures/dashboard-light.png" in (ROOT / "README.md").read_text()

"""The packets' table: who may see it, its filter, and an exchange in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.dashboard import board

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.dashboard import Board

pytestmark = pytest.mark.browser


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

"""docs/guides/dashboard.md: its views and keys are those of the page, which its pictures show."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.dashboard import VIEWS, board, product, shopping
from tests.support.driving import SHOP, size
from tests.support.intercepting import token_of
from tests.support.servers import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.dashboard import Board

pytestmark = pytest.mark.browser

GUIDE = (ROOT / "docs" / "guides" / "dashboard.md").read_text()
PICTURES = ROOT / "docs" / "pictures"
TAKEN = {
    "dashboard-light.png": ("Timeline", "light"),
    "dashboard-dark.png": ("Timeline", "dark"),
    "dashboard-network.png": ("Network", "light"),
}
WIDTH = 1440


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """The address of a Pilothouse with a shopping agent, whose shop lies where any could lie: the
    server's log names the place, and pictures show the log."""
    with tempfile.TemporaryDirectory(prefix="shop-") as folder:
        app = shutil.copytree(SHOP, Path(folder) / "app")
        with product(PILOTHOUSE_ROOTS=folder) as (server, home):
            token_of(home)
            agent = shopping(server.url, app, intercept=True)
            yield server.url
            agent.end()


def test_the_guide_names_the_views_and_the_keys_of_the_page(shop: str, browser: Browser) -> None:
    views = re.findall(r"^\| ([A-Z]\w+) \|", GUIDE, re.M)
    keys = re.findall(r"^\| (`.+`) \| (.+) \|$", GUIDE, re.M)
    with board(browser, shop) as seen:
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
def test_its_pictures_show_what_happened(shop: str, browser: Browser, name: str) -> None:
    view, scheme = TAKEN[name]
    with board(browser, shop, scheme=scheme) as seen:
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

"""The dashboard in a real browser, as a person has it open beside an agent."""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.support.driving import SHOP
from tests.support.http_agent import HttpAgent
from tests.support.npm import SETS, WEB

# bench/rows/dashboard.py takes it from here.
from tests.support.servers import PRODUCT, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from tests.support.servers import Server

GUARD_MS = 30_000
expect.set_options(timeout=GUARD_MS)
VIEWS = ("Timeline", "Network", "Packets", "Page", "Failures")
AXE = SETS[WEB] / "node_modules" / "axe-core" / "axe.min.js"
_VIOLATIONS = """
window.violations = [];
addEventListener('securitypolicyviolation', event =>
  violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@dataclass
class Board:
    """An open dashboard, and all that its browser had to say about it."""

    page: Page
    url: str
    troubles: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def sessions(self) -> Locator:
        """Those that have not ended."""
        return self.page.locator("nav .session:not(.ended)")

    @property
    def ended(self) -> Locator:
        return self.page.locator("nav .session.ended")

    @property
    def rows(self) -> Locator:
        return self.page.get_by_role("option")

    def tab(self, name: str) -> Locator:
        return self.page.get_by_role("tab", name=name)

    def show(self, name: str) -> None:
        self.tab(name).click()

    def kept(self) -> int:
        """Rows that the page has received."""
        return int(self.page.locator("[data-rows]").get_attribute("data-rows") or 0)

    def until_kept(self, many: int) -> None:
        self.page.wait_for_function(
            "many => Number(document.querySelector('[data-rows]')?.dataset.rows) >= many",
            arg=many,
            timeout=GUARD_MS,
        )

    def violations(self) -> list[str]:
        """Of the page's own content security policy."""
        found: list[str] = self.page.evaluate("violations")
        return found

    def foreign(self) -> list[str]:
        """Requests that went anywhere but home."""
        home = (f"{self.url}/", f"blob:{self.url}/", "data:")
        return [url for url in self.requests if not url.startswith(home)]

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)


@contextmanager
def board(
    browser: Browser, url: str, at: str = "", scheme: Any = "light", height: int = 900
) -> Iterator[Board]:
    """The dashboard of a server, open at a fragment, until the block ends."""
    page = browser.new_page(color_scheme=scheme, viewport={"width": 1440, "height": height})
    page.set_default_timeout(GUARD_MS)
    page.add_init_script(_VIOLATIONS)
    opened = Board(page, url)
    page.on("console", lambda message: opened.troubles.append(message.text))
    page.on("pageerror", lambda error: opened.troubles.append(str(error)))
    page.on("request", lambda request: opened.requests.append(request.url))
    page.goto(f"{url}/{at}")
    expect(page.get_by_role("heading", name="Pilothouse", exact=True)).to_be_visible()
    yield opened
    page.close()


@contextmanager
def product(*args: str, **env: str) -> Iterator[tuple[Server, Path]]:
    """Pilothouse itself over HTTP, and its home."""
    # Not tmp_path: Chromium cannot live in a path that long.
    with tempfile.TemporaryDirectory(prefix="ph-", ignore_cleanup_errors=True) as home:
        own = {
            "PILOTHOUSE_HOME": home,
            "PILOTHOUSE_BOOKMARKS_PORT": "0",
            "PILOTHOUSE_REST_PORT": "0",
            "PILOTHOUSE_CONFIG_PORT": "0",
        }
        with http_server(*args, module=PRODUCT, env={**own, **env}) as server:
            yield server, Path(home)


def shopping(url: str, folder: Path = SHOP, *, token: str = "", **options: Any) -> HttpAgent:
    """An agent that has opened the shop and bought a lamp, and could not pay for it."""
    agent = HttpAgent(url, token=token).open()
    command = [sys.executable, str(folder / "server.py")]
    started = agent.call("startSession", command=command, cwd=str(folder), **options)
    assert not started.get("isError"), started
    for tool, arguments in (
        ("navigate", {"url": "/"}),
        ("click", {"selector": "#add"}),
        ("click", {"selector": "#say"}),
        ("evaluate", {"script": "fetch('/api/broken').then(answer => answer.status)"}),
    ):
        done = agent.call(tool, **arguments)
        assert not done.get("isError"), done
    assert agent.call("click", selector="#pay-now", timeout=500).get("isError")
    return agent

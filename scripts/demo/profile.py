"""A Chromium with a profile of its own and the extension in it, paired as a person would do it."""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error, async_playwright

from pilothouse.bookmarks.model import EXTENSION_ID
from pilothouse.machine.chromium.finder import find_browser, needs_no_sandbox
from pilothouse.wiring.extension_pairing import extension_folder
from scripts.demo.telling import DemoFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import BrowserContext, Page, Playwright

OPTIONS = f"chrome-extension://{EXTENSION_ID}/options.html"
MANAGER = "chrome://bookmarks/"
GUARD_MS = 30_000
SIZE = (1100, 420)
DASHBOARD = (1280, 760)
AGENT = "pilothouse-demo"
"""How the agent introduces itself."""


@dataclass(slots=True)
class Profile:
    """An open profile."""

    name: str
    page: Page

    async def pair(self, port: int, code: str) -> None:
        """Fill in the extension's options, and wait until it says that it is connected."""
        page = self.page
        await page.goto(OPTIONS)
        # Its worker gives the profile an id when it first starts.
        await page.wait_for_selector("#profile-id:not(:empty)")
        await page.fill("#name", self.name)
        await page.fill("#port", str(port))
        await page.fill("#code", code)
        await page.click("#settings button.primary")
        await page.wait_for_selector("#status[data-tone=good]")

    async def show_bookmark(self, folder_id: str, title: str, path: Path) -> None:
        """Take a picture of Chrome's own bookmark manager, with that bookmark in it."""
        await self.page.goto(f"{MANAGER}?id={folder_id}")
        await self.page.get_by_text(title).first.wait_for()
        await self.page.screenshot(path=path)

    async def show_dashboard(self, url: str, text: str, path: Path) -> None:
        """Take a picture of the dashboard when it shows that text of the demo's own session."""
        width, height = DASHBOARD
        await self.page.set_viewport_size({"width": width, "height": height})
        await self.page.goto(f"{url}/")
        await self.page.get_by_text(AGENT).first.click()
        await self.page.get_by_text(text).first.wait_for()
        await self.page.screenshot(path=path)


@asynccontextmanager
async def open_profile(name: str, folder: Path) -> AsyncIterator[Profile]:
    """Until the block ends; what is in the folder then is complete. Raises DemoFailed."""
    try:
        async with async_playwright() as playwright:
            context = await _launched(playwright, folder)
            context.set_default_timeout(GUARD_MS)
            async with context:
                yield Profile(name, context.pages[0])
    except Error as error:
        raise DemoFailed(f"the profile's Chromium: {error.message.splitlines()[0]}") from error


async def _launched(playwright: Playwright, folder: Path) -> BrowserContext:
    browser = find_browser(os.environ)
    extension = extension_folder()
    if browser is None or extension is None:
        missing = "Chrome, Chromium or Edge" if browser is None else "extension"
        raise DemoFailed(f"no {missing} was found; `pilothouse doctor` says what to do")
    width, height = SIZE
    return await playwright.chromium.launch_persistent_context(
        folder,
        executable_path=browser.path,
        headless=True,
        chromium_sandbox=not needs_no_sandbox(),
        viewport={"width": width, "height": height},
        ignore_default_args=["--disable-extensions"],
        args=[f"--disable-extensions-except={extension}", f"--load-extension={extension}"],
    )


def kept_bookmarks(profile: Path) -> dict[str, Any]:
    """What Chromium itself has written into the profile; it is complete once it has closed."""
    kept: dict[str, Any] = json.loads((profile / "Default" / "Bookmarks").read_text("utf-8"))
    return kept


def titles_in(node: dict[str, Any]) -> list[str]:
    """The titles of a kept folder and of all that is in it."""
    below = [title for child in node.get("children", ()) for title in titles_in(child)]
    return [str(node.get("name", "")), *below]

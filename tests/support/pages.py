"""A browser as a person has it, by Playwright, and pages that are looked at in it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from pilothouse.e2e.browser.flags import feature_flag
from pilothouse.machine.chromium.finder import find_browser, needs_no_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    """A headless Chromium until the block ends."""
    browser = find_browser(os.environ)
    assert browser is not None, "no browser: run scripts/setup"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=str(browser.path),
            chromium_sandbox=not needs_no_sandbox(),
            args=["--disable-background-networking", feature_flag(), *flags],
        )
        yield launched
        launched.close()


def opened_file(browser: Browser, file: Path, scheme: str, width: int) -> Page:
    """Open a file that shows itself whole: it says nothing, and asks for nothing but pictures that
    are in it."""
    page = browser.new_page(viewport={"width": width, "height": 1500})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    heard: list[str] = []
    page.on("console", lambda line: heard.append(line.text))
    page.on("request", lambda request: heard.append(request.url))
    page.goto(file.as_uri())
    assert [one for one in heard if not one.startswith("data:image/png")] == [file.as_uri()]
    # Nothing has to be scrolled to sideways.
    assert page.evaluate("document.documentElement.scrollWidth") == width
    return page

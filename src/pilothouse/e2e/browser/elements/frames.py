"""Looks into frames: a selector is looked for in the page itself, then in the frames in it.

Playwright can look into all frames at once, but takes it for a mistake if more than one has what is
looked for. Waits and questions are not strict: for them one frame that has it is enough.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from pilothouse.e2e.browser.elements.selectors import for_playwright, is_by_text
from pilothouse.e2e.browser.errors import in_several_frames, ref_of
from pilothouse.e2e.browser.playwright import error_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.e2e.browser.playwright import Frame, FrameLocator, Locator, Page
    from pilothouse.e2e.tab import Tab

    type Scope = Page | Frame | FrameLocator
    type Find = Callable[[Scope], Locator]
    """Maker of the locator of what is looked for, in a page or in its frames."""

State = Literal["visible", "hidden", "attached", "detached"]

AGAIN_S = 0.1
COUNT_S = 3.0
"""Seconds in which a frame has to answer to be counted."""


def by_selector(selector: str) -> Find:
    return lambda scope: scope.locator(for_playwright(selector))


def by_text(text: str) -> Find:
    return lambda scope: scope.get_by_text(text)


async def aim(tab: Tab, selectors: list[str]) -> None:
    """Decide for each selector of a step whether it is looked for in the page alone.

    What the page itself shows is meant before what a frame shows.
    """
    tab.in_any_frame.clear()
    for selector in selectors:
        if ref_of(selector) or not (len(tab.page.frames) > 1 or is_by_text(selector)):
            continue
        if len(tab.page.frames) == 1 or not await _is_in_page(tab, by_selector(selector)):
            tab.in_any_frame.add(selector)


async def is_stale(tab: Tab, ref: str) -> bool:
    """Tell whether nothing has a ref any more; a page that does not answer soon may have it."""
    try:
        async with asyncio.timeout(COUNT_S):
            return not await tab.locator(ref).count()
    except TimeoutError:
        return False  # which the step finds out itself


async def _is_in_page(tab: Tab, find: Find) -> bool:
    found = find(tab.page)
    try:
        async with asyncio.timeout(COUNT_S):
            if await found.filter(visible=True).count():
                return True
            if not await found.count():
                return False
            _, visible = await count(tab, find)
            return not visible  # hidden here, unless a frame shows it
    except TimeoutError:
        return False  # which the step finds out itself


async def count(tab: Tab, find: Find) -> tuple[int, bool]:
    """Return how many elements match in the page and all frames, and whether one is visible."""

    async def of(scope: Scope) -> tuple[int, bool]:
        found = find(scope)
        many = await found.count()
        return many, bool(many) and await found.filter(visible=True).count() > 0

    async def of_frame(frame: Frame) -> tuple[int, bool]:
        try:
            async with asyncio.timeout(COUNT_S):
                return await of(frame)
        except TimeoutError:
            return 0, False
        except Exception as error:
            if not error_name(error):
                raise
            return 0, False  # it has gone

    if len(tab.page.frames) == 1:
        return await of(tab.page)
    try:
        return await of(tab.page.frame_locator())
    except Exception as error:
        if not in_several_frames(str(error)):
            raise
    counts = await asyncio.gather(*map(of_frame, tab.page.frames))
    return sum(many for many, _ in counts), any(visible for _, visible in counts)


async def wait(tab: Tab, find: Find, state: State, limit_ms: float) -> None:
    """Wait until the page or one of its frames has it, or until none has it any more.

    Raises:
        TimeoutError: of Playwright, which says what was found instead, or our own.
    """
    found = find(tab.page.frame_locator())
    if state == "hidden":
        found = found.filter(visible=True)  # all of them, not only the first
    loop = asyncio.get_running_loop()
    ends = loop.time() + limit_ms / 1000
    while True:
        left = max(1.0, (ends - loop.time()) * 1000)
        try:
            return await found.first.wait_for(state=state, timeout=left)
        except Exception as error:
            if not in_several_frames(str(error)):
                raise
        many, visible = await count(tab, find)
        if {"visible": visible, "attached": many > 0, "hidden": not visible}.get(state, not many):
            return None
        if loop.time() > ends:
            raise TimeoutError(f"it is still not {state} after {limit_ms:.0f} ms")
        await asyncio.sleep(AGAIN_S)

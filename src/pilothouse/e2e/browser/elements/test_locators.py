"""How a test would find the elements that steps act on: asked while they are still there.

A ref is stale soon, and a selector that an agent made up may be brittle. Playwright knows better
ones, but asking takes as long as typing a word. So it is asked beside a step only for a ref, which
nothing else could find again; for fields, when the agent is thinking, and at the latest before a
step that may lead away from them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pilothouse.e2e.browser.elements.frames import by_selector, by_text
from pilothouse.e2e.browser.errors import ref_of
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.step import selectors_of

if TYPE_CHECKING:
    from pilothouse.e2e.browser.playwright import Locator
    from pilothouse.e2e.step import Step
    from pilothouse.e2e.tab import Tab

MOST_WAITING = 20
LEAVE_S = 2.0
"""Most seconds that a step which may lead away waits for what is asked about its page."""
AGAIN_S = 0.05
STAYING = frozenset("type fillForm selectOption hover".split())
"""Tools after whose steps the element is still there, unless they submit a form."""
ACTING = STAYING | frozenset("click pressKey drag uploadFile evaluate".split())
"""Tools whose steps name an element that a test has to find again."""


class Locating:
    """The steps of one session whose elements have yet to be asked for."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Step, Tab]] = []
        self._asking: dict[asyncio.Task[None], Tab] = {}

    async def before(self, step: Step, tab: Tab) -> None:
        """Note what a step acts on, before it is taken and may lead away from its page."""
        has_ref = any(map(ref_of, selectors_of(step)))
        if step.looks and not has_ref:
            if step.tool.startswith("wait"):
                self._waiting.append((step, tab))
            return
        stays = step.tool in STAYING and not _submits(step)
        known = step.tool in ACTING and (has_ref or stays or step.tool == "type")
        if not (stays or step.looks):
            await self._ask_about(tab)
        if known:
            self._waiting.append((step, tab))
        if has_ref or not stays or len(self._waiting) > MOST_WAITING:
            self.ask()

    def ask_for(self, step: Step, tab: Tab) -> None:
        """Ask for the elements of a step that has just begun, whatever its tool is."""
        if step.tool in ACTING and (step, tab) not in self._waiting and not self._asks(step):
            self._waiting.append((step, tab))
        self.ask()

    def _asks(self, step: Step) -> bool:
        return any(task.get_name() == str(step.number) for task in self._asking)

    async def _ask_about(self, tab: Tab) -> None:
        """Ask for a page's elements and wait for the answers, before the page may go."""
        self.ask()
        if asking := [task for task, its_tab in self._asking.items() if its_tab is tab]:
            _, late = await asyncio.wait(asking, timeout=LEAVE_S)
            for task in late:
                task.cancel()  # a page that answers nothing holds up one step alone

    def ask(self) -> None:
        """Ask for all that wait. What is asked first, the browser answers first."""
        waiting, self._waiting = self._waiting, []
        for step, tab in waiting:
            if step.ended_at and (not step.ok or tab.navigations != step.navigations):
                continue  # nothing was found then, or another page would answer now
            task = asyncio.create_task(_locate(step, tab), name=str(step.number))
            self._asking[task] = tab
            task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        del self._asking[task]
        if not task.cancelled():
            task.exception()  # the element or its page has gone: the step keeps its own selector

    async def settle(self, limit: float) -> None:
        """Wait until all that can be known is known."""
        self.ask()
        if self._asking:
            await asyncio.wait(self._asking, timeout=limit)

    def close(self) -> None:
        self._waiting.clear()
        for task in list(self._asking):
            task.cancel()


def _submits(step: Step) -> bool:
    submit = step.args.get("submit")
    return submit == step.target if step.tool == "fillForm" else bool(submit)


def _elements(step: Step, tab: Tab) -> dict[str, Locator]:
    selectors = selectors_of(step)
    if not step.looks or any(map(ref_of, selectors)):
        return {selector: tab.locator(selector) for selector in selectors}
    if len(tab.page.frames) == 1:
        return {}
    # What was waited for is what the selector says, whichever element it was this time; but the
    # frame that it was in has to be known.
    frames = tab.page.frame_locator()
    found = {selector: by_selector(selector)(frames).first for selector in selectors}
    if text := step.args.get("text"):
        found[text] = by_text(text)(frames).first
    return found


async def _locate(step: Step, tab: Tab) -> None:
    """Ask for the elements of a step, again and again only while it waits for them itself."""
    for name, found in _elements(step, tab).items():
        while name not in step.locators:
            try:
                step.locators[name] = str(await found.normalize())
            except Exception as error:
                if step.ended_at or not error_name(error):
                    raise
                await asyncio.sleep(AGAIN_S)

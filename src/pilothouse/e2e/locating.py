"""How a test would find the elements that steps act on: asked while they are still there.

A ref is stale soon, and a selector that an agent made up may be brittle. Playwright knows better
ones, but asking takes as long as typing a word. So it is asked beside a step only for a ref, which
nothing else could find again; and for elements that stay, when the agent is thinking.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pilothouse.e2e.protocol import ref_of

if TYPE_CHECKING:
    from pilothouse.e2e.step_record import Step
    from pilothouse.e2e.tab import Tab

MOST_WAITING = 20
LIMIT_MS = 10_000
STAYING = frozenset("type fillForm selectOption hover waitForSelector waitFor".split())
"""Tools after whose steps the element is still there, unless they submit a form."""
ACTING = STAYING | frozenset("click pressKey drag uploadFile evaluate".split())
"""Tools whose steps name an element that a test has to find again."""
LEADING_AWAY = frozenset("navigate goBack".split())
ELEMENT_KIND = "element => `${element.tagName} ${element.type ?? ''}`"


class Locating:
    """The steps of one session whose elements have yet to be asked for."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Step, Tab]] = []
        self._asking: set[asyncio.Task[None]] = set()

    def before(self, step: Step, tab: Tab) -> None:
        """To be called before a step is taken."""
        selectors = _selectors(step) if step.tool in ACTING else []
        has_ref = any(map(ref_of, selectors))
        if has_ref or (selectors and _stays(step)):
            self._waiting.append((step, tab))
        if has_ref or step.tool in LEADING_AWAY or len(self._waiting) > MOST_WAITING:
            self.ask()

    def ask(self) -> None:
        """Ask for all that wait. What is asked first, the browser answers first."""
        waiting, self._waiting = self._waiting, []
        for step, tab in waiting:
            if step.ended_at and not step.ok:
                continue  # nothing was found then, and waiting for it now helps no test
            task = asyncio.ensure_future(_locate(step, tab))
            self._asking.add(task)
            task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
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


def _selectors(step: Step) -> list[str]:
    if step.tool == "fillForm":
        return [step.target]
    return [step.args[name] for name in ("selector", "from", "to") if step.args.get(name)]


def _stays(step: Step) -> bool:
    if step.tool not in STAYING:
        return False
    submit = step.args.get("submit")
    return submit != step.target if step.tool == "fillForm" else not submit


async def _locate(step: Step, tab: Tab) -> None:
    limit = step.args.get("timeout", LIMIT_MS)
    for selector in _selectors(step):
        found = tab.locator(selector)
        try:
            best = await found.normalize()
        except Exception:  # not there yet: the step waits for it, and so does this
            await found.first.wait_for(state="attached", timeout=limit)
            best = await found.normalize()
        step.locators[selector] = str(best)
        if step.tool in ("type", "fillForm"):
            step.element = str(await found.evaluate(ELEMENT_KIND, timeout=limit))

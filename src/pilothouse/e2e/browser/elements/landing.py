"""Where the pointer's events went: a click that reached another element is no success.

The page notes which elements take the trusted events of a step, and judges them against those that
the selector finds. It is armed beside the step, and answers together with the question for what the
step changed, so that a step costs no further question unless it missed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.browser.errors import ref_of
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.tab import CHANGES_S, FRAME_S, Missed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pilothouse.e2e.browser.playwright import Frame
    from pilothouse.e2e.tab import Tab

FINAL_EVENTS: dict[str, list[str]] = {
    "left": ["click"],
    "double": ["dblclick"],
    "right": ["contextmenu", "auxclick"],
    "middle": ["auxclick"],
    "hover": ["mouseover"],
    "drag": ["drop", "mouseup"],
}
"""Events that tell that the step was done at its target, by the button or the tool."""

_ARM = "(elements, kinds) => window.__pilothouseAim?.arm(elements, kinds) ?? false"
_CHECK = "elements => window.__pilothouseAim?.check(elements) ?? null"


@dataclass(frozen=True, slots=True)
class Landing:
    """The outcome of a step of the pointer."""

    missed: bool = False
    took: str = ""
    """The element that took the event instead of the target, in words."""
    retried: bool = False


def judge(told: dict[str, Any] | None, *, presses: bool) -> Landing:
    """Return whether a step missed, from what the page tells of its events.

    A target that went away, or a page that changed between the press and its end, is no miss: menus
    act on mousedown, and what is under the pointer then is another thing.

    Args:
        told: None where the page tells nothing: it was left, or its events went to another frame.
        presses: The step begins with a mousedown at the target.
    """
    if not told or told["final"] == told["down"] == "":
        return Landing()
    took = str(told["took"])
    if presses and told["down"] == "missed":
        return Landing(missed=True, took=took)
    if told["final"] == "hit":
        return Landing()
    return Landing(missed=bool(told["there"]) and not told["changed"], took=took)


async def land(tab: Tab, selector: str, kind: str, act: Callable[[], Awaitable[Any]]) -> Landing:
    """Act with the pointer, once more if it missed, and keep what the page tells of the changes.

    Raises:
        Missed: both times, something else took it.
    """
    first = await _aimed(tab, selector, kind, act)
    if not first.missed:
        return first
    second = await _aimed(tab, selector, kind, act)
    if second.missed:
        raise Missed(second.took or first.took)
    return Landing(took=first.took, retried=True)


async def _aimed(tab: Tab, selector: str, kind: str, act: Callable[[], Awaitable[Any]]) -> Landing:
    presses = kind not in ("hover", "drag")
    navigations = tab.navigations
    # Not awaited: it is in the page long before the pointer is, which has more to ask.
    arming = asyncio.ensure_future(_arm(tab, selector, FINAL_EVENTS[kind]))
    arming.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        await act()
        changes = await tab.changes()
    finally:
        arming.cancel()
    tab.keep_changes(changes)
    if changes is None or tab.navigations != navigations:
        return Landing()
    landing = judge(changes.aim, presses=presses)
    if landing.missed or changes.aim is None:
        # The element may be another by now, or in a frame, which alone can tell.
        told = await (_ask_frames(tab) if ref_of(selector) else _check(tab, selector))
        landing = judge(told, presses=presses)
    return landing


async def _arm(tab: Tab, selector: str, events: list[str]) -> None:
    if ref_of(selector):  # of one element for ever, which is not found like those of a selector
        await tab.locator(selector).evaluate(f"(one, kinds) => ({_ARM})([one], kinds)", events)
    else:
        await tab.locator(selector).evaluate_all(_ARM, events)


async def _ask_frames(tab: Tab) -> dict[str, Any] | None:
    """Return what the frame that has a ref's element tells; that element never changes."""

    async def ask(frame: Frame) -> dict[str, Any] | None:
        try:
            async with asyncio.timeout(FRAME_S):
                told: dict[str, Any] | None = await frame.evaluate(f"({_CHECK})([])")
                return told
        except TimeoutError:
            return None
        except Exception as error:
            if not error_name(error):
                raise
            return None  # it has gone

    told = await asyncio.gather(*map(ask, tab.page.frames))
    return next(filter(None, told), None)


async def _check(tab: Tab, selector: str) -> dict[str, Any] | None:
    try:
        async with asyncio.timeout(CHANGES_S):
            told: dict[str, Any] | None = await tab.locator(selector).evaluate_all(_CHECK)
            return told
    except TimeoutError:
        return None
    except Exception as error:
        if not error_name(error):
            raise
        return None  # its page or frame has gone

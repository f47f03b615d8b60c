"""Elements are asked for while they are there, and waited for only by a step that is not over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from pilothouse.e2e.browser.elements.test_locators import Locating
from pilothouse.e2e.step import Step
from tests.support.until import until

pytestmark = pytest.mark.anyio

FOREVER_S = 600


class Gone(Exception):
    """What Playwright says of an element that is not there."""

    __module__ = "playwright.fake"


class Page:
    """A tab whose elements can be put in and taken out."""

    def __init__(self, *selectors: str) -> None:
        self.there = {*selectors}
        self.asked: list[str] = []
        self.navigations = 0
        self.page = SimpleNamespace(frames=[None])

    def locator(self, selector: str) -> Any:
        async def normalize() -> str:
            self.asked.append(selector)
            if selector not in self.there:
                raise Gone
            return f"get_by_role({selector})"

        return SimpleNamespace(normalize=normalize)


def step(tool: str, selector: str, **args: Any) -> Step:
    return Step(1, tool, selector, {"selector": selector, **args}, "t1", 1.0, 0)


async def take(locating: Locating, page: Page, taken: Step) -> Step:
    """Take a step that goes well."""
    await locating.before(taken, cast("Any", page))
    taken.ended_at, taken.ok, taken.navigations = 2.0, True, page.navigations
    return taken


async def test_fields_are_known_before_a_click_leads_away() -> None:
    locating, page = Locating(), Page("#user", "#password")
    typed = [await take(locating, page, step("type", each, text="x")) for each in page.there]
    assert page.asked == []
    await locating.before(step("click", "#go"), cast("Any", page))
    page.there.clear()
    assert [list(each.locators) for each in typed] == [[each.target] for each in typed]


async def test_elements_that_have_gone_are_not_waited_for() -> None:
    locating, page = Locating(), Page()
    typed = await take(locating, page, step("type", "#user", text="x"))
    with anyio.fail_after(FOREVER_S / 10):
        await locating.settle(FOREVER_S)
    assert page.asked == ["#user"]
    assert typed.locators == {}


async def test_another_page_is_not_asked_for_the_elements_of_the_one_before() -> None:
    locating, page = Locating(), Page("#user")
    typed = await take(locating, page, step("type", "#user", text="x"))
    page.navigations += 1
    await locating.settle(FOREVER_S)
    assert (page.asked, typed.locators) == ([], {})


async def test_an_element_that_a_step_waits_for_is_asked_for_until_it_is_there() -> None:
    locating, page = Locating(), Page()
    typed = step("type", "#late", text="x", submit=True)
    await locating.before(typed, cast("Any", page))
    await until(lambda: len(page.asked) > 1)
    page.there.add("#late")
    await until(lambda: typed.locators)
    locating.close()


async def test_a_click_keeps_the_selector_that_worked_and_a_wait_is_not_asked_for() -> None:
    locating, page = Locating(), Page("#go", "#thanks", "e5")
    await take(locating, page, step("click", "#go"))
    await take(locating, page, step("waitForSelector", "#thanks"))
    by_ref = await take(locating, page, step("click", "e5"))
    await locating.settle(FOREVER_S)
    assert page.asked == ["e5"]
    assert by_ref.locators == {"e5": "get_by_role(e5)"}

"""A tab's steps: each begins at once, ends with its work, and is interrupted by its own news."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from pilothouse.e2e.step import Step
from pilothouse.e2e.tab import Interrupted, Tab

if TYPE_CHECKING:
    from pilothouse.e2e.browser.playwright import Dialog

STEP = Step(1, "click", "#b", {}, "t1", 0.0, 0)


def tab_of_nothing() -> Tab:
    return Tab("t1", cast("Any", None), lambda: 0.0)


def test_a_step_begins_at_once_and_its_value_is_returned() -> None:
    async def run() -> None:
        begun: list[str] = []

        async def doing() -> str:
            begun.append("now")
            await asyncio.sleep(0)
            return "done"

        racing = tab_of_nothing().race(doing(), STEP)
        asyncio.get_running_loop().call_soon(begun.append, "the next turn of the loop")
        assert await racing == "done"
        assert begun[0] == "now"

    asyncio.run(run())


def test_a_step_that_fails_raises_its_error_also_before_it_has_waited_for_anything() -> None:
    async def doing() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        asyncio.run(tab_of_nothing().race(doing(), STEP))


def test_the_end_of_a_step_that_a_dialog_held_up_does_not_interrupt_the_next_one() -> None:
    async def run() -> str:
        tab = tab_of_nothing()
        answered, next_may_end = asyncio.Event(), asyncio.Event()

        async def held_up() -> None:
            tab.dialog = cast("Dialog", object())
            asyncio.get_running_loop().call_soon(tab.interrupt)
            await answered.wait()

        with pytest.raises(Interrupted):
            await tab.race(held_up(), STEP)
        assert tab.held_up is not None
        first, tab.dialog = tab.held_up[1], None

        async def next_step() -> str:
            answered.set()
            await first
            asyncio.get_running_loop().call_soon(next_may_end.set)
            await next_may_end.wait()
            return "done"

        return await tab.race(next_step(), STEP)

    assert asyncio.run(run()) == "done"


def test_whoever_gives_up_a_step_ends_its_work() -> None:
    async def run() -> None:
        ended: list[str] = []

        async def doing() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")

        racing = asyncio.ensure_future(tab_of_nothing().race(doing(), STEP))
        await asyncio.sleep(0)
        racing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await racing
        await asyncio.sleep(0)
        assert ended == ["cancelled"]

    asyncio.run(run())

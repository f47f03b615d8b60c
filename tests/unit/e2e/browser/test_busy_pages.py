"""Looking at a page has a limit, and a page that answers nothing is told as busy before it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from pilothouse.e2e.browser import busy_pages
from pilothouse.e2e.browser.busy_pages import Busy, unless_busy

if TYPE_CHECKING:
    from pilothouse.e2e.tab import Tab

LONG_MS = 600_000


class Page:
    """A tab whose page answers, or does not, or whose browser fails."""

    def __init__(self, answer: bool | Exception) -> None:
        self.answer = answer
        self.asked = 0

    async def answers(self, limit_s: float) -> bool:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def looked(page: Page, doing: Any, limit_ms: int) -> Any:
    return asyncio.run(unless_busy(cast("Tab", page), doing, limit_ms, "snapshot"))


async def never() -> None:
    await asyncio.Event().wait()


async def soon() -> str:
    await asyncio.sleep(0)
    return "seen"


def test_what_comes_in_time_is_returned_and_the_page_asked_nothing() -> None:
    page = Page(answer=False)
    assert looked(page, soon(), LONG_MS) == "seen"
    assert page.asked == 0


def test_a_page_that_does_not_answer_is_busy() -> None:
    with pytest.raises(Busy):
        looked(Page(answer=False), never(), 4)


def test_what_takes_too_long_though_the_page_answers_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(busy_pages, "GRACE_S", 0.0)
    page = Page(answer=True)
    with pytest.raises(TimeoutError, match="snapshot did not end within 4 ms"):
        looked(page, never(), 4)
    assert page.asked == 1


def test_an_error_of_the_question_is_that_of_the_look() -> None:
    with pytest.raises(ValueError, match="a defect"):
        looked(Page(ValueError("a defect")), never(), 4)


def test_who_gives_up_a_look_is_told_of_no_busy_page_and_leaves_no_timer() -> None:
    async def run() -> None:
        page = Page(answer=False)
        loop = asyncio.get_running_loop()
        looking = asyncio.ensure_future(unless_busy(cast("Tab", page), never(), LONG_MS, "find"))
        await asyncio.sleep(0)
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
        waiting = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        assert (page.asked, waiting) == (0, [])

    asyncio.run(run())


def test_after_a_busy_page_the_task_goes_on_as_if_nobody_had_cancelled_it() -> None:
    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(Busy):
            await unless_busy(cast("Tab", Page(answer=False)), never(), 4, "find")
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    asyncio.run(run())

"""The page keeps what it has received, also what the server's rings have let go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.support.dashboard import board, product
from tests.support.http_agent import HttpAgent
from tests.support.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.dashboard import Board
    from tests.support.servers import Server

pytestmark = pytest.mark.browser

ROUNDS, A_ROUND = 5, 4_000
"""Together twice as many as the ring of a tab keeps."""
SCROLLED = """async () => {
  const list = document.querySelector('[role=listbox]');
  const seen = new Map();
  const frame = () => new Promise(requestAnimationFrame);
  for (let top = 0; ; top += list.clientHeight) {
    list.scrollTop = top;
    await frame(); await frame();
    for (const row of list.querySelectorAll('[role=option]')) {
      seen.set(Number(row.ariaPosInSet), row.querySelector('.text')?.textContent ?? '');
    }
    if (top + list.clientHeight >= list.scrollHeight) break;
  }
  return [...seen].sort((one, other) => one[0] - other[0]).map(([, text]) => text);
}"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with product() as (running, _):
        yield running


@pytest.fixture
def flooding(server: Server) -> Iterator[HttpAgent]:
    """An agent in a page that logs as many lines as it is asked for."""
    agent = HttpAgent(server.url).open()
    with Site() as site:
        agent.call("startSession", url=site.url("/flood"))
        agent.call("navigate", url=site.url("/flood"))
        yield agent
        agent.end()


def flood(agent: HttpAgent, many: int) -> None:
    done: dict[str, Any] = agent.call("evaluate", script=f"start({many})")
    assert not done.get("isError"), done


def only_console(seen: Board) -> None:
    for lane in ("Steps", "Network", "Server log", "Packets"):
        seen.page.get_by_role("group", name="Lanes").get_by_role("button", name=lane).click()


@pytest.mark.timeout(240)
def test_20_000_rows_are_scrolled_from_the_first_to_the_last_without_one_missing(
    server: Server, browser: Browser, flooding: HttpAgent
) -> None:
    with board(browser, server.url, height=1_600) as seen:
        for number in range(1, ROUNDS + 1):
            flood(flooding, A_ROUND)
            seen.until_kept(number * A_ROUND)
        only_console(seen)
        expect(seen.page.locator(".count")).to_have_text(f"{ROUNDS * A_ROUND:,} rows")
        texts = seen.page.evaluate(SCROLLED)
        numbers = [int(text.split()[1]) for text in texts]
        assert numbers == [n for _ in range(ROUNDS) for n in range(A_ROUND)]
        assert seen.troubles == []


def test_a_list_that_was_scrolled_up_stays_where_it_is_and_jumps_when_asked(
    server: Server, browser: Browser, flooding: HttpAgent
) -> None:
    with board(browser, server.url) as seen:
        flood(flooding, 500)
        seen.until_kept(500)
        last = seen.rows.filter(has_text="line 499")
        expect(last).to_be_visible()
        seen.page.locator("[role=listbox]").hover()
        seen.page.mouse.wheel(0, -3_000)
        jump = seen.page.get_by_role("button", name="Newest")
        expect(jump).to_be_visible()
        top = seen.page.locator("[role=listbox]").evaluate("list => list.scrollTop")
        flood(flooding, 500)
        seen.until_kept(1_000)
        assert seen.page.locator("[role=listbox]").evaluate("list => list.scrollTop") == top
        jump.click()
        expect(jump).to_have_count(0)
        expect(last).to_be_visible()


def test_a_paused_list_keeps_all_that_comes_and_shows_it_later(
    server: Server, browser: Browser, flooding: HttpAgent
) -> None:
    with board(browser, server.url) as seen:
        flood(flooding, 100)
        seen.until_kept(100)
        seen.page.get_by_role("button", name="Pause").click()
        flood(flooding, 200)
        seen.until_kept(300)
        expect(seen.page.locator(".count")).to_contain_text("waiting")
        expect(seen.rows.filter(has_text="line 150")).to_have_count(0)
        seen.page.get_by_role("button", name="Go on").click()
        expect(seen.rows.filter(has_text="line 199")).to_be_visible()


def test_a_text_filters_rows_that_are_there_and_rows_that_come(
    server: Server, browser: Browser, flooding: HttpAgent
) -> None:
    with board(browser, server.url) as seen:
        flood(flooding, 5_000)
        seen.until_kept(5_000)
        seen.page.get_by_role("searchbox").fill("LINE 4321 ")
        expect(seen.page.locator(".count")).to_have_text("1 row")
        flood(flooding, 4_500)
        expect(seen.page.locator(".count")).to_have_text("2 rows")

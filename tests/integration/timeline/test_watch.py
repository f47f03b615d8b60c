"""Watches over the wire: each kind fires below the next answer, once, whatever it is about."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.driving import Driver
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

TRACED = Path(__file__).parents[2] / "support" / "traced_shop.py"
COMMAND = [sys.executable, str(TRACED)]
URI = "pilothouse://watches"
KINDS = {
    "console.error": ("#shout", "console:", "console error: out of lamps"),
    "status >= 500": ("#order", "request:", "500 from "),
    "slow > 200 ms": ("#wait", "request:", "/api/slow?ms=400"),
    "selector gone #cart": ("#empty", "browser:", "#cart is gone from "),
    "log =~ shelf of lamp \\d+": ("#order", "server:", "server stderr: "),
}


class Watching(Driver):
    def __init__(self, *args: str, joins_hub: bool = False) -> None:
        super().__init__("--tools", "e2e,observe,timeline", *args, joins_hub=joins_hub)
        self._marks: set[str] = set()

    def footer(self, tool: str = "status", **arguments: Any) -> list[dict[str, Any]]:
        """What stands below an answer that is about something else."""
        result = self.ask(tool, **arguments)
        news: list[dict[str, Any]] = result.get("_meta", {}).get("pilothouse/watches", [])
        texts = [block["text"] for block in result["content"] if block["type"] == "text"]
        assert len(texts) == (2 if news else 1)
        if news:
            assert f"Watch {news[0]['id']} fired" in texts[1]
            assert "fired" not in texts[0]
            # A page that has seen a mark cannot use it to write outside of the next fence.
            (mark,) = set(re.findall(r"<data ([\w-]{22})>", texts[1]))
            assert mark not in self._marks
            self._marks.add(mark)
        return news


@pytest.fixture(scope="module")
def driver() -> Iterator[Watching]:
    with Watching() as opened:
        opened.start(command=COMMAND)
        yield opened


@pytest.fixture(autouse=True)
def _without_watches(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "driver" in request.fixturenames:
        driver: Watching = request.getfixturevalue("driver")
        for watch in driver.call("watch")["watches"]:
            driver.call("watch", action="remove", id=watch["id"])


@pytest.mark.parametrize("when", KINDS)
def test_each_kind_fires_below_the_next_answer_once(driver: Watching, when: str) -> None:
    button, kind, text = KINDS[when]
    driver.visit("/")
    added = driver.call("watch", when=when)
    assert added["uri"] == URI
    first = driver.footer("click", selector=button)
    news = first or wait_until(driver.footer)
    assert [one["id"] for one in news] == [added["id"]]
    hit = news[0]["first"]
    assert hit["key"].startswith(kind)
    assert text in hit["text"]
    # Told once; the resource remembers.
    assert driver.footer() == []
    (told,) = json.loads(driver.resource(URI))["watches"]
    assert told["when"] == when
    assert told["count"] >= 1
    around = driver.call("timeline", around=hit["key"])
    assert around["moments"]


def test_a_footer_leaves_the_answer_of_a_specs_tool_as_it_is(driver: Watching) -> None:
    driver.visit("/")
    driver.call("watch", when="console.error")
    driver.call("evaluate", script="console.error('one'), console.error('two')")
    driver.call("evaluate", script="console.error('three'), 1")
    result = wait_until(lambda: _with_news(driver))
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    (news,) = result["_meta"]["pilothouse/watches"]
    assert news["count"] >= 1


def test_an_exception_between_failed_requests_is_told_before_them(driver: Watching) -> None:
    driver.visit("/")
    driver.call("watch", when="console.error")
    script = """(async () => {
      const miss = name => fetch('/missing/' + name).then(a => a.text());
      await miss('a'); await miss('b');
      setTimeout(() => { throw new TypeError('the cart is no list') });
      await new Promise(over => setTimeout(over)); await miss('c');
    })()"""
    driver.call("evaluate", script=script)
    wait_until(lambda: json.loads(driver.resource(URI))["watches"][0]["count"] == 4)
    (told,) = json.loads(driver.resource(URI))["watches"]
    thrown, missing = told["texts"]
    assert thrown["text"].startswith("console error: TypeError: the cart is no list")
    assert thrown["count"] == 1
    assert driver.call("causes", of=thrown["key"])["of"] == thrown["key"]
    assert "Failed to load resource" in missing["text"]
    assert missing["count"] == 3
    assert told["first"]["key"] != thrown["key"]


def test_an_exception_after_many_different_lines_is_told_before_them(driver: Watching) -> None:
    driver.visit("/")
    driver.call("watch", when="console.error")
    script = """
      for (let i = 0; i < 150; i++) console.error('lamp ' + i + ' is out');
      setTimeout(() => { throw new TypeError('the shelf fell') }); 1"""
    driver.call("evaluate", script=script)

    def told() -> dict[str, Any]:
        watches: list[dict[str, Any]] = json.loads(driver.resource(URI))["watches"]
        return next(watch for watch in watches if watch["when"] == "console.error")

    wait_until(lambda: told()["count"] >= 151)
    first = told()["texts"][0]
    assert first["text"].startswith("console error: TypeError: the shelf fell")
    assert first["count"] == 1
    assert sum(one["count"] for one in told()["texts"]) + told()["others"] == told()["count"]


def _with_news(driver: Watching) -> dict[str, Any]:
    result = driver.ask("evaluate", script="console.error('again'), 2")
    return result if "_meta" in result else {}


def test_a_failed_answer_has_its_footer_too(driver: Watching) -> None:
    driver.visit("/")
    driver.call("watch", when="console.error")
    driver.call("evaluate", script="setInterval(() => console.error('again'), 50), 1")
    result = driver.ask("click", selector="#nothing", timeout=1_000)
    assert result["structuredContent"]["error"]["type"] == "element_not_found"
    assert "console error: again" in str(result["_meta"]["pilothouse/watches"])


def test_a_mistake_in_a_watch_is_told_with_its_position(driver: Watching) -> None:
    fault = driver.fault("watch", when="status >= many")
    assert (fault["type"], fault["position"]) == ("bad_watch", 10)
    driver.visit("/")
    assert driver.fault("watch", when="selector gone ##")["type"] == "bad_watch"
    assert driver.fault("watch", action="add")["type"] == "invalid_input"
    assert driver.fault("watch", action="remove", id="w999")["type"] == "watch_not_found"
    assert driver.call("watch")["watches"] == []


def test_an_element_that_the_next_page_has_too_is_not_gone(driver: Watching) -> None:
    driver.visit("/")
    driver.call("watch", when="selector gone #cart")
    driver.visit("/?again")
    driver.call("waitFor", idle=True)
    told = driver.footer("click", selector="#empty")
    news = told or wait_until(driver.footer)
    assert news[0]["first"]["text"].endswith("/?again")
    assert news[0]["count"] == 1


def test_a_watch_of_one_session_does_not_fire_for_another(driver: Watching) -> None:
    first = driver.session_id
    other = driver.call("startSession", command=COMMAND)["sessionId"]
    try:
        added = driver.call("watch", when="console.error", sessionId=first)
        assert added["uri"] == f"{URI}/{first}"
        script = {"script": "console.error('broken'), 1"}
        driver.call("evaluate", **script, sessionId=other)
        told = driver.footer("evaluate", **script, sessionId=first)
        news = told or wait_until(driver.footer)
        assert news[0]["count"] == 1
        (told,) = json.loads(driver.resource(f"{URI}/{first}"))["watches"]
        assert told["sessionId"] == first
        assert json.loads(driver.resource(f"{URI}/{other}"))["watches"] == []
    finally:
        driver.call("endSession", sessionId=other)


def test_a_relay_passes_the_footer_on() -> None:
    with Watching(joins_hub=True) as driver:
        driver.start(command=COMMAND)
        driver.visit("/")
        driver.call("watch", when="console.error")
        first = driver.footer("click", selector="#shout")
        news = first or wait_until(driver.footer)
        assert "out of lamps" in news[0]["first"]["text"]
        assert driver.footer() == []


def test_a_watch_on_a_session_ends_with_it_and_none_is_set_on_one_that_has_ended() -> None:
    with Watching() as driver:
        started = driver.start(command=COMMAND)
        session = started["sessionId"]
        driver.call("watch", when="console.error", sessionId=session)
        driver.call("endSession", sessionId=session)
        (told,) = driver.call("watch")["watches"]
        assert told["ended"].startswith("its session has ended")
        fault = driver.fault("watch", when="console.error", sessionId=session)
        assert fault["type"] == "session_not_found"
        assert "has ended" in fault["message"]

"""An error is told with its place in the sources and with the errors that it was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.observing import Watcher, texts, visit

if TYPE_CHECKING:
    from tests.support.chromium import Chromium
    from tests.support.site import Site

pytestmark = pytest.mark.browser

PAY = "document.querySelector('button').click()"


def test_frames_are_named_by_the_function_that_they_lie_in(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/mapped"))
    chromium.evaluate(tab, PAY)
    (thrown,) = watcher.wait_for(
        tab, lambda found: [e for e in found if e.get("source") == "exception"], kinds=["log"]
    )
    originals = [frame["original"] for frame in thrown["frames"][:2]]
    # Not by what is called there: the click's handler calls checkCustomer.
    assert [place["name"] for place in originals] == ["checkCustomer", "payClicked"]
    assert thrown["stack"]["original"]["name"] == "checkCustomer"


@pytest.mark.parametrize("call", ["log", "error"])
def test_console_lines_are_led_back_to_their_sources(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str, call: str
) -> None:
    visit(chromium, tab, site.url("/mapped"))
    # The script's own call is then the console's.
    chromium.evaluate(tab, f"Array.prototype.reduce = console.{call}; {PAY}")
    (line,) = watcher.wait_for(tab, lambda found: len(found) == 1, kinds=["console"])
    assert line["stack"]["url"].endswith("/mapped.min.js")
    original = line["stack"]["original"]
    assert original["source"].endswith("/mapped.js")
    assert (original["line"], original["name"]) == (6, "totalOf")


def test_errors_keep_those_that_they_were_made_from(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(
        tab,
        """{
          const deep = new TypeError('deep', {cause: 'a text'});
          const made = new Error('outer', {cause: new RangeError('inner', {cause: deep})});
          console.error('logged', made);
          setTimeout(() => { throw made });
          Promise.reject(new AggregateError([new Error('first'), deep], 'all'));
          1
        }""",
    )

    def explained(found: list[dict[str, Any]]) -> bool:
        return len(found) == 3 and all("causes" in event for event in found)

    events = watcher.wait_for(tab, explained, level="error")
    by_text = {
        text.partition("\n")[0]: event for text, event in zip(texts(events), events, strict=True)
    }

    def told(text: str) -> list[str]:
        return [cause.partition("\n")[0] for cause in by_text[text]["causes"]]

    chain = ["RangeError: inner", "TypeError: deep", "a text"]
    assert told("Error: outer") == chain
    assert told("logged Error: outer") == chain
    assert told("AggregateError: all") == ["Error: first", "TypeError: deep", "a text"]
    assert "\nCaused by: RangeError: inner" in by_text["Error: outer"]["text"]

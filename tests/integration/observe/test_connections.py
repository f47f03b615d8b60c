"""One connection, many calls at once, and whatever else may answer on a browser's port."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.chromium import Chromium
from tests.support.observing import Watcher, texts, visit
from tests.support.until import wait_until

if TYPE_CHECKING:
    from tests.support.site import Site

pytestmark = pytest.mark.browser

AT_ONCE = 20


def _answers(watcher: Watcher, numbers: list[int]) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    while len(found) < len(numbers):
        answer = watcher.receive()
        found[answer["id"]] = answer["result"]
    return found


def test_calls_at_once_do_not_close_the_connection_of_each_other(
    chromium: Chromium, site: Site, watcher: Watcher
) -> None:
    target = chromium.open(site.url("/empty"))
    listing = [watcher.begin("cdp_list_targets", types=["page"]) for _ in range(AT_ONCE)]
    observing = watcher.begin("cdp_observe", targetId=target)
    more = [watcher.begin("cdp_list_targets", types=["page"]) for _ in range(AT_ONCE)]
    found = _answers(watcher, [*listing, observing, *more])
    assert not [result["structuredContent"] for result in found.values() if result["isError"]]
    assert found[observing]["structuredContent"]["targetId"] == target
    chromium.evaluate(target, "console.log('still heard')")
    watcher.wait_for(target, lambda events: "still heard" in texts(events))
    chromium.close_tab(target)


def test_a_frame_that_is_observed_for_itself_still_reports_to_its_page(
    chromium: Chromium, site: Site, watcher: Watcher
) -> None:
    page = chromium.open(site.url("/frames"))
    chromium.wait_for_title(page)
    (frame,) = [
        entry["id"]
        for entry in watcher.call("cdp_list_targets", types=["iframe"])["targets"]
        if "name=cross" in entry["url"]
    ]
    for target in (frame, page):
        watcher.call("cdp_observe", targetId=target)
    chromium.evaluate(frame, "console.log('of both')")
    for target in (frame, page):
        lines = texts(watcher.wait_for(target, lambda events: "of both" in texts(events)))
        assert lines.count("of both") == 1
    watcher.call("cdp_stop_observe", targetId=frame)
    chromium.evaluate(frame, "console.log('of the page')")
    watcher.wait_for(page, lambda events: "of the page" in texts(events))
    assert "of the page" not in texts(watcher.events(frame))
    chromium.close_tab(page)


class _Impostor(BaseHTTPRequestHandler):
    """Claims to be a browser that lives elsewhere."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        body = json.dumps({"webSocketDebuggerUrl": "ws://8.8.8.8:1/devtools/browser/1"}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_another_program_on_a_dead_browsers_port_ends_nothing(site: Site) -> None:
    with Chromium() as browser, Chromium() as other, Watcher(browser.port) as watcher:
        tab, well = browser.open(site.url("/empty")), other.open("about:blank")
        watcher.call("cdp_observe", targetId=tab)
        watcher.call("cdp_observe", targetId=well, port=other.port)
        browser.evaluate(tab, "console.log('kept')")
        watcher.wait_for(tab, lambda events: "kept" in texts(events))
        browser.kill()
        with HTTPServer(("127.0.0.1", browser.port), _Impostor) as impostor:
            threading.Thread(target=impostor.serve_forever, daemon=True).start()
            # The second time it comes back, the first refusal is behind it.
            wait_until(lambda: _Impostor.asked >= 2, "the second attempt to come back")
            assert watcher.wait_for_state(tab, "disconnected")["matched"] >= 1
            assert "kept" in texts(watcher.events(tab))
            visit(other, well, site.url("/empty"))
            other.evaluate(well, "console.log('not concerned')")
            watcher.wait_for(well, lambda events: "not concerned" in texts(events))
            impostor.shutdown()

"""Browsers die, tabs crash and close: calls fail at once, and what was recorded stays readable."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.observe.cdp.client import COMMAND_S
from tests.support.chromium import Chromium
from tests.support.observing import Watcher, texts, visit
from tests.support.rounds import ROUNDS
from tests.support.until import wait_until

if TYPE_CHECKING:
    from tests.support.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.chaos]


def test_twenty_crashes_leave_the_observer_working(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    rounds = min(20, max(3, ROUNDS))
    for number in range(rounds):
        visit(chromium, tab, site.url("/empty"))
        chromium.evaluate(tab, f"console.log('before crash {number}')")
        chromium.crash(tab)
        watcher.wait_for_state(tab, "crashed")
        visit(chromium, tab, site.url("/empty"), crashed=True)
        watcher.wait_for_state(tab, "observing")
    crashes = watcher.events(tab, kinds=["other"])
    assert len([e for e in crashes if e["type"] == "targetCrashed"]) == rounds
    lines = texts(watcher.events(tab, kinds=["console"]))
    assert [line for line in lines if "before crash" in line] == [
        f"before crash {number}" for number in range(rounds)
    ]


def test_a_closed_tab_stays_readable_and_says_so(
    chromium: Chromium, watcher: Watcher, tab: str
) -> None:
    chromium.evaluate(tab, "console.log('last words')")
    watcher.wait_for(tab, lambda found: "last words" in texts(found))
    chromium.close_tab(tab)
    page = watcher.wait_for_state(tab, "closed")
    assert page["matched"] >= 1
    assert "last words" in texts(watcher.events(tab))
    assert watcher.events(tab, kinds=["other"])[-1]["type"] == "detached"
    gone = watcher.fault("cdp_observe", targetId=tab)
    assert gone["code"] == "TARGET_NOT_FOUND"


def test_a_killed_browser_fails_what_is_pending_and_keeps_the_buffer(site: Site) -> None:
    with Chromium() as browser, Watcher(browser.port) as watcher:
        tab = browser.open(site.url("/empty"))
        watcher.call("cdp_observe", targetId=tab)
        browser.evaluate(tab, "console.log('kept')")
        watcher.wait_for(tab, lambda found: "kept" in texts(found))
        # The page is stopped, so that no answer can come before the browser dies.
        renderers = [p for p in browser.processes() if "--type=renderer" in " ".join(p.cmdline())]
        for renderer in renderers:
            os.kill(renderer.pid, signal.SIGSTOP)
        started = time.monotonic()
        for number in range(100):
            body = {"targetId": tab, "requestId": f"none.{number}"}
            message = {"name": "cdp_get_response_body", "arguments": body}
            watcher.send_request("tools/call", message, id=number)
        killer = threading.Timer(0.3, browser.kill)
        killer.start()
        codes = []
        for _ in range(100):
            answer = watcher.receive()
            codes.append(answer["result"]["structuredContent"]["error"]["code"])
        killer.join()
        # None of them waited for its deadline.
        assert time.monotonic() - started < COMMAND_S
        assert set(codes) == {"BODY_NOT_AVAILABLE"}
        page = watcher.wait_for_state(tab, "disconnected")
        assert page["matched"] >= 1
        assert "kept" in texts(watcher.events(tab))
        assert watcher.fault("cdp_list_targets")["code"] == "BROWSER_UNREACHABLE"


def test_seq_goes_on_over_clear_stop_and_observe(
    chromium: Chromium, watcher: Watcher, tab: str
) -> None:
    chromium.evaluate(tab, "console.log('one')")
    first = watcher.wait_for(tab, lambda found: "one" in texts(found))[-1]["seq"]
    assert watcher.call("cdp_clear_events", targetId=tab) == {"cleared": True}
    page = watcher.call("cdp_read_events", targetId=tab)
    assert (page["events"], page["dropped"]) == ([], 0)
    chromium.evaluate(tab, "console.log('two')")
    second = watcher.wait_for(tab, lambda found: "two" in texts(found))[-1]["seq"]
    assert second > first
    assert watcher.call("cdp_stop_observe", targetId=tab) == {"stopped": True}
    assert watcher.fault("cdp_stop_observe", targetId=tab)["code"] == "NOT_OBSERVING"
    chromium.evaluate(tab, "console.clear(); console.log('unseen')")
    assert "two" in texts(watcher.events(tab))
    watcher.call("cdp_observe", targetId=tab)
    chromium.evaluate(tab, "console.log('three')")
    events = watcher.wait_for(tab, lambda found: "three" in texts(found))
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs))
    assert any(e.get("type") == "gap" for e in events)
    watcher.call("cdp_stop_observe", targetId=tab, dropBuffer=True)
    assert watcher.fault("cdp_read_events", targetId=tab)["code"] == "NOT_OBSERVING"


def _has(line: str, events: list[dict[str, Any]]) -> bool:
    return line in texts(events)


def _logged(browser: Chromium, tab: str, line: str, events: list[dict[str, Any]]) -> bool:
    browser.evaluate(tab, f"console.log({line!r})")
    return _has(line, events)


def test_a_lost_connection_is_found_again_with_a_gap_marker(site: Site) -> None:
    from tests.support.proxy import Relay

    with Chromium() as browser, Relay(browser.port) as relay, Watcher(relay.port) as watcher:
        tab = browser.open(site.url("/empty"))
        watcher.call("cdp_observe", targetId=tab)
        for number in range(max(2, ROUNDS // 2)):
            browser.evaluate(tab, f"console.log('before {number}')")
            watcher.wait_for(tab, partial(_has, f"before {number}"))
            relay.drop()
            # What a page logs while nobody is attached the browser does not always keep for whoever
            # comes: the marker says that it is lost. So it is logged until it is recorded.
            watcher.wait_for(tab, partial(_logged, browser, tab, f"after {number}"))
        events = watcher.events(tab)
        seqs = [event["seq"] for event in events]
        assert seqs == sorted(set(seqs))
        gaps = [e for e in events if e.get("type") == "gap"]
        assert len(gaps) == max(2, ROUNDS // 2)


def test_a_buffer_expires_after_its_time_to_live(chromium: Chromium, watcher: Watcher) -> None:
    target = chromium.open("about:blank")
    watcher.call("cdp_observe", targetId=target, ttlSec=1)
    chromium.evaluate(target, "console.log('short-lived')")
    watcher.wait_for(target, lambda found: "short-lived" in texts(found))
    # Reading is no activity of the page: it must not keep the buffer alive.
    wait_until(lambda: watcher.ask("cdp_get_filters", targetId=target)["isError"])
    fault = watcher.fault("cdp_read_events", targetId=target)
    assert fault["code"] == "NOT_OBSERVING"
    assert "ttlSec of 1" in fault["message"]
    assert fault["details"]["cause"] == "ttl_over"
    chromium.close_tab(target)


def test_two_hundred_tabs_do_not_slow_down_observing_one(site: Site) -> None:
    count = 200 if ROUNDS > 5 else 60
    with Chromium() as browser, Watcher(browser.port) as watcher:
        tabs = [browser.open("about:blank") for _ in range(count)]
        target = browser.open(site.url("/empty"))
        started = time.monotonic()
        listed = watcher.call("cdp_list_targets", types=["page"])["targets"]
        watcher.call("cdp_observe", targetId=target)
        # A guard; the figure (3 s) is a benchmark's business.
        assert time.monotonic() - started < 60
        assert {*tabs, target} <= {entry["id"] for entry in listed}
        attached = [t["id"] for t in watcher.call("cdp_list_targets")["targets"] if t["attached"]]
        assert attached == [target]


def test_observing_again_repeats_no_line_and_no_seq(
    chromium: Chromium, watcher: Watcher, tab: str
) -> None:
    chromium.evaluate(tab, "console.log('first')")
    watcher.wait_for(tab, lambda found: "first" in texts(found))
    watcher.call("cdp_stop_observe", targetId=tab)
    chromium.evaluate(tab, "console.log('unseen')")
    watcher.call("cdp_observe", targetId=tab, bufferSize=3)
    chromium.evaluate(tab, "for (const n of [1, 2, 3, 4]) console.log('again', n)")
    page = watcher.wait_for(tab, lambda found: "again 4" in texts(found))
    assert texts(page) == ["again 2", "again 3", "again 4"]
    watcher.call("cdp_stop_observe", targetId=tab, dropBuffer=True)
    watcher.call("cdp_observe", targetId=tab)
    chromium.evaluate(tab, "console.log('last')")
    anew = watcher.wait_for(tab, lambda found: "last" in texts(found))
    assert anew[0]["seq"] > page[-1]["seq"]


def test_lines_are_kept_once_over_stop_and_observe(
    chromium: Chromium, watcher: Watcher, tab: str
) -> None:
    chromium.evaluate(tab, "console.log('first')")
    watcher.wait_for(tab, lambda found: "first" in texts(found))
    watcher.call("cdp_stop_observe", targetId=tab)
    chromium.evaluate(tab, "console.log('unseen')")
    watcher.call("cdp_observe", targetId=tab)
    chromium.evaluate(tab, "console.log('second')")
    told = texts(watcher.wait_for(tab, lambda found: "second" in texts(found), kinds=["console"]))
    assert told == ["first", "unseen", "second"]

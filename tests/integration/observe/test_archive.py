"""What is recorded is recorded once and whole, and every archive of it is one that others read."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.har_schema import check_archive
from tests.support.npm import PEERS
from tests.support.observing import Watcher, texts, visit
from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.chromium import Chromium
    from tests.support.site import Site

pytestmark = pytest.mark.browser


def archive(watcher: Watcher, target: str) -> dict[str, Any]:
    """The archive of a tab, which others' schema accepts."""
    made: dict[str, Any] = json.loads(watcher.resource(f"cdp://har/{target}"))
    check_archive(made)
    return made


def entries(watcher: Watcher, target: str, part: str) -> list[dict[str, Any]]:
    found = archive(watcher, target)["log"]["entries"]
    return [entry for entry in found if part in entry["request"]["url"]]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_going_back_repeats_no_line(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str, host: str
) -> None:
    visit(chromium, tab, site.url("/kept"))
    before = watcher.wait_for(tab, lambda found: len(found) >= 2, kinds=["console"])
    visit(chromium, tab, site.url("/empty", host=host))
    with chromium.debugger(tab) as page:
        page.send("Page.enable")
        page.post("Runtime.evaluate", expression="history.back()")
        came = page.wait_for_event("Page.frameNavigated")
    assert came["type"] == "BackForwardCacheRestore"
    chromium.evaluate(tab, "console.log('after going back')")
    after = watcher.wait_for(
        tab, lambda found: "after going back" in texts(found), kinds=["console"]
    )
    assert texts(after) == [*texts(before), "after going back"]


def test_a_service_worker_leaves_no_half_entry(
    chromium: Chromium, new_site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, new_site.url("/sw"))
    chromium.wait_for_title(tab)
    made = wait_until(lambda: entries(watcher, tab, "/sw-made"))
    assert made[0]["_fromServiceWorker"] is True
    scripts = entries(watcher, tab, "/sw.js")
    assert [entry["request"]["method"] for entry in scripts] == ["GET"]
    log = archive(watcher, tab)["log"]
    assert all(entry["request"]["url"] for entry in log["entries"])
    assert "comment" not in log  # nothing was left out either


def test_requests_under_way_when_recording_begins_leave_a_sound_archive(
    chromium: Chromium, site: Site, watcher: Watcher
) -> None:
    target = chromium.open(site.url("/empty"))
    chromium.evaluate(target, "fetch('/slow?ms=3000').then(() => fetch('/item/7')); 1")
    watcher.call("cdp_observe", targetId=target)
    watcher.wait_for(
        target,
        lambda found: any("/item/7" in e.get("url", "") for e in found),
        kinds=["response"],
    )
    log = archive(watcher, target)["log"]
    begun = [entry for entry in log["entries"] if "/slow" in entry["request"]["url"]]
    assert len(begun) == 1
    assert begun[0]["_incomplete"] is True
    assert begun[0]["comment"]
    chromium.close_tab(target)


def test_a_beacon_of_a_page_that_goes_leaves_a_sound_archive(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    site.forget_requests()
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(
        tab,
        "addEventListener('pagehide', () => fetch('/api/echo', {method: 'POST', body: 'bye',"
        " keepalive: true})); addEventListener('unload', () => 1); 1",
    )
    visit(chromium, tab, site.url("/item/9", host="localhost"))
    watcher.wait_for(
        tab, lambda found: any("/item/9" in e.get("url", "") for e in found), kinds=["response"]
    )
    wait_until(lambda: any(request.path == "/api/echo" for request in site.requests))
    # The browser may tell nothing of it, but never half.
    methods = [e["request"]["method"] for e in entries(watcher, tab, "/api/echo")]
    assert methods in ([], ["POST"])


def test_what_the_network_told_is_in_the_events_and_in_the_archive(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    other = site.url("/status/403", host="localhost")
    chromium.evaluate(
        tab,
        "(async () => { const paths = ['/set-cookie', '/etag', '/etag', '/bad-cookie',"
        f" '{other}', '/redirect/2', '/abort'];"
        " for (const path of paths) await fetch(path).then(r => r.text()).catch(() => 0);"
        " return 1 })()",
    )

    def told(found: list[dict[str, Any]]) -> bool:
        wanted = ("/set-cookie", "/etag", "/bad-cookie", "/status/403", "/redirect/")
        ends = [
            e
            for e in found
            if e["kind"] in ("response", "loadingFailed")
            and any(part in e["url"] for part in wanted)
        ]
        lacking[:] = [e["url"] for e in ends if "wireStatus" not in e]
        return len(ends) == 8 and not lacking

    lacking: list[str] = []
    events: list[dict[str, Any]] = []

    def read() -> bool:
        events[:] = watcher.events(tab)
        return told(events)

    wait_until(read, lambda: lacking)

    def of(kind: str, part: str) -> list[dict[str, Any]]:
        return [e for e in events if e["kind"] == kind and part in e["url"]]

    # CDP's status stays, the network's stands beside it.
    assert [(e["status"], e["wireStatus"]) for e in of("response", "/etag")] == [
        (200, 200),
        (200, 304),
    ]
    assert [e["wireStatus"] for e in of("response", "/redirect/")] == [302, 302, 200]
    (refused,) = of("loadingFailed", "/status/403")
    assert refused["wireStatus"] == 403
    (blocked,) = of("response", "/bad-cookie")
    assert blocked["blockedCookies"] == [{"name": "stranger", "reasons": ["InvalidDomain"]}]
    later = of("request", "/etag")[0]["headers"]
    assert "cookie" in {name.lower() for name in later}
    assert "not-a-real-session" not in json.dumps(events)
    (sets,) = of("response", "/set-cookie")
    assert "set-cookie" in {name.lower() for name in sets["headers"]}

    assert [e["response"]["status"] for e in entries(watcher, tab, "/etag")] == [200, 304]
    confirmed = entries(watcher, tab, "/etag")[1]
    assert confirmed["response"]["statusText"] == "Not Modified"
    assert confirmed["response"]["bodySize"] == 0
    assert confirmed["request"]["cookies"]
    assert entries(watcher, tab, "/status/403")[0]["response"]["status"] == 403
    hops = entries(watcher, tab, "/redirect/")
    assert [e["response"]["status"] for e in hops] == [302, 302, 200]


def test_sockets_and_server_sent_events_are_archived_soundly(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    for page in ("/websocket", "/events?n=3"):
        visit(chromium, tab, site.url(page))
        chromium.wait_for_title(tab)
    sockets = wait_until(lambda: entries(watcher, tab, "ws://"))
    assert sockets[0]["response"]["status"] == 101
    assert wait_until(lambda: entries(watcher, tab, "/sse"))


def test_an_archive_has_all_that_chrome_har_makes_of_the_same_page(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str, tmp_path: Path
) -> None:
    with chromium.debugger(tab) as page:
        for domain in ("Page", "Network"):
            page.send(f"{domain}.enable")
        page.send("Page.navigate", url=site.url("/mix?n=2"))
        page.wait_for_event("Page.loadEventFired")
        chromium.wait_for_title(tab)
        page.evaluate("1")
        messages = page.events
    recorded = tmp_path / "messages.json"
    recorded.write_text(json.dumps(messages))
    script = (
        "import {harFromMessages} from 'chrome-har'; import {readFileSync} from 'fs';"
        f"const said = JSON.parse(readFileSync({json.dumps(str(recorded))}));"
        "console.log(JSON.stringify(harFromMessages(said)))"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script],
        cwd=PEERS,
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = json.loads(done.stdout)["log"]
    wait_until(lambda: _page(watcher, tab)["pageTimings"]["onLoad"] > 0)
    ours = archive(watcher, tab)["log"]
    assert _page(watcher, tab)["pageTimings"]["onContentLoad"] > 0
    by_id = {entry["_requestId"]: entry for entry in ours["entries"]}
    assert len(theirs["entries"]) > 5
    lacking = [
        f"{entry['request']['url']} {name}"
        for entry in theirs["entries"]
        for name in _lacking(entry, by_id[entry["_requestId"]])
    ]
    assert not lacking, lacking


def _page(watcher: Watcher, target: str) -> dict[str, Any]:
    pages: list[dict[str, Any]] = archive(watcher, target)["log"]["pages"]
    return pages[-1]


def _lacking(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Fields of HAR 1.2 that are filled in the one and empty in the other, and where a request
    comes from and how urgent it is."""
    own = {"charset", "fromDiskCache", "fromEarlyHints", "fromServiceWorker", "fromPrefetchCache"}

    def empty(value: Any) -> bool:
        return value in (None, "", -1, [], {})

    def walk(one: Any, other: Any, path: str) -> list[str]:
        if isinstance(one, dict):
            return [
                lack
                for name, value in one.items()
                if not name.startswith("_") and name not in own
                for lack in walk(value, (other or {}).get(name), f"{path}.{name}")
            ]
        # It takes the fields of a JSON document for parameters; ours is under text, as HAR has it.
        if path == ".request.postData.params" and ours["request"]["postData"]["text"]:
            return []
        return [] if empty(one) or not empty(other) else [path]

    found = walk(theirs, ours, "")
    initiator = ours.get("_initiator", {})
    for name, value in (
        ("_initiator", initiator.get("url")),
        ("_initiator_line", initiator.get("lineNumber", -2) + 1),
        ("_initiator_type", initiator.get("type")),
        ("_priority", ours.get("_priority")),
    ):
        if name in theirs and theirs[name] != value:
            found.append(f"{name}: {theirs[name]} is {value} here")
    return found


def test_text_in_another_encoding_is_text(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(tab, "fetch('/latin').then(r => r.text())")
    events = watcher.wait_for(
        tab, lambda found: any("/latin" in e["url"] for e in found), kinds=["loadingFinished"]
    )
    request = next(e["requestId"] for e in events if "/latin" in e["url"])
    body = watcher.call("cdp_get_response_body", targetId=tab, requestId=request)
    assert (body["body"], body["encoded"]) == ("gr\u00fc\u00dfe", False)


def test_a_store_keeps_bodies_over_a_restart(
    chromium: Chromium, site: Site, tmp_path: Path
) -> None:
    store = ("--store", f"sqlite:{tmp_path / 'events.sqlite'}")
    target = chromium.open("about:blank")
    with Watcher(chromium.port, *store) as watcher:
        watcher.call("cdp_observe", targetId=target)
        visit(chromium, target, site.url("/empty"))
        chromium.evaluate(target, "fetch('/item/3').then(r => r.text())")
        events = watcher.wait_for(
            target,
            lambda found: any("/item/3" in e["url"] for e in found),
            kinds=["loadingFinished"],
        )
        request = next(e["requestId"] for e in events if "/item/3" in e["url"])
        watcher.call("cdp_get_response_body", targetId=target, requestId=request)
        watcher.close()
    chromium.close_tab(target)
    with Watcher(chromium.port, *store) as watcher:
        body = watcher.call("cdp_get_response_body", targetId=target, requestId=request)
        assert '"item":3' in body["body"]
        (entry,) = entries(watcher, target, "/item/3")
        assert '"item":3' in entry["response"]["content"]["text"]
        watcher.call("cdp_clear_events", targetId=target)
        fault = watcher.fault("cdp_get_response_body", targetId=target, requestId=request)
        assert fault["code"] == "BODY_NOT_AVAILABLE"

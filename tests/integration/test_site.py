"""The test site does what other tests rely on, by itself and in a real browser."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.support.site import Received, Site
from tests.support.site_routes import ALL_BYTES, FOLDER, PAGES, SECRETS, SESSION_COOKIE
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.chromium import Chromium

# Pages that wait for someone keep their name as their title; the others end as "done".
WAITING = {"act", "covered", "dialog", "empty", "form", "frame", "mapped"}
QUERIES = {"flood": "?auto=1&n=500", "fetches": "?n=120", "mix": "?n=3", "spa": "?auto=1"}
FAILING_ON_PURPOSE = {"console", "mix"}


@pytest.fixture
def client(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url(""), trust_env=False) as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "status", "media_type"),
    [
        ("/", 200, "text/html; charset=utf-8"),
        ("/item/7", 200, "application/json"),
        ("/sw.js", 200, "text/javascript; charset=utf-8"),
        ("/mapped.min.js.map", 200, "application/json"),
        ("/spa/items", 200, "text/html; charset=utf-8"),
        ("/status/418", 418, "text/plain; charset=utf-8"),
        ("/binary", 200, "application/octet-stream"),
        ("/pixel.png", 200, "image/png"),
        ("/stream", 200, "text/plain; charset=utf-8"),
        ("/sse", 200, "text/event-stream; charset=utf-8"),
        ("/download", 200, "text/csv; charset=utf-8"),
        ("/slow?ms=1", 200, "application/json"),
        ("/nowhere", 404, "text/plain; charset=utf-8"),
        *((f"/{page}", 200, "text/html; charset=utf-8") for page in PAGES),
    ],
)
def test_an_answer_has_its_type_and_may_not_be_stored(
    client: httpx.Client, path: str, status: int, media_type: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == media_type
    assert answer.headers["cache-control"] == "no-store"


def test_answers_say_what_the_list_of_routes_promises(client: httpx.Client) -> None:
    assert client.get("/item/7").json()["item"] == 7
    assert len(client.get("/redirect/3", follow_redirects=True).history) == 3
    assert client.get("/status/204").content == b""
    assert client.get("/slow?ms=50").elapsed.total_seconds() >= 0.05
    assert len(client.get("/big?bytes=100001").content) == 100_001
    assert client.get("/binary").content == ALL_BYTES
    assert "max-age" in client.get("/cached.js").headers["cache-control"]
    assert "attachment" in client.get("/download").headers["content-disposition"]
    streamed = client.get("/stream?n=3")
    assert streamed.headers["transfer-encoding"] == "chunked"
    assert streamed.text == "chunk 0\nchunk 1\nchunk 2\n"


def test_secrets_come_back(client: httpx.Client) -> None:
    told = client.get("/secret", headers={"authorization": "Bearer abc"}).json()
    assert told == {**SECRETS, "authorization": "Bearer abc"}
    assert SESSION_COOKIE in client.get("/set-cookie").headers["set-cookie"]
    assert client.get("/set-cookie").json()["cookies"] == {
        "session": SESSION_COOKIE,
        "theme": "dark",
    }


def test_an_event_stream_continues_after_the_last_event_seen(client: httpx.Client) -> None:
    whole = client.get("/sse?n=3").text
    assert re.findall(r"^id: (\d+)", whole, re.M) == ["0", "1", "2", "3"]
    assert re.findall(r"^event: (\w+)", whole, re.M) == ["tick", "tick", "end"]
    assert whole.endswith(client.get("/sse?n=3", headers={"last-event-id": "1"}).text)
    assert client.get("/sse?n=3", headers={"last-event-id": "3"}).status_code == 204


def test_abort_ends_in_the_middle_of_the_body(client: httpx.Client) -> None:
    with client.stream("GET", "/abort") as answer:
        assert answer.headers["content-length"] == "1000"
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()


def test_every_request_is_recorded_with_its_body(site: Site, client: httpx.Client) -> None:
    site.forget_requests()
    echoed = client.post("/api/echo?a=1", content=b"\x00hi", headers={"x-mark": "m"}).json()
    assert echoed["method"] == "POST"
    assert echoed["body"] == "\0hi"
    assert echoed["headers"]["x-mark"] == "m"
    assert site.requests == [Received("POST", "/api/echo?a=1", echoed["headers"], b"\x00hi")]


def test_the_web_socket_echoes_or_sends_frames(site: Site) -> None:
    url = site.url("/ws").replace("http", "ws", 1)
    with connect(url, proxy=None) as echo:
        for frame in ("text", b"\x00\xff"):
            echo.send(frame)
            assert echo.recv(timeout=30) == frame
    with connect(f"{url}?frames=3", proxy=None) as sender:
        assert [json.loads(frame)["frame"] for frame in sender] == [0, 1, 2]
        assert sender.close_code == 1000


def test_the_site_stops_while_an_answer_is_awaited() -> None:
    with Site() as site, connect(site.url("/ws").replace("http", "ws", 1), proxy=None):
        with httpx.Client(trust_env=False) as client:
            with pytest.raises(httpx.ReadTimeout):
                client.get(site.url("/slow?ms=600000"), timeout=0.2)
    with pytest.raises(httpx.ConnectError):
        httpx.get(site.url(), trust_env=False)


def visit(chromium: Chromium, url: str, title: str) -> tuple[str, list[dict[str, Any]]]:
    """Open a page, wait for its title; its tab and everything it logged until then."""
    tab = chromium.open("about:blank")
    with chromium.debugger(tab) as debugger:
        debugger.send("Runtime.enable")
        debugger.send("Log.enable")
        debugger.send("Page.navigate", url=url)
        chromium.wait_for_title(tab, title)
        debugger.evaluate("1")  # what was sent before this answer has arrived with it
        return tab, debugger.events


def errors(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def is_error(event: dict[str, Any]) -> bool:
        match event["method"], event["params"]:
            case "Runtime.exceptionThrown", _:
                return True
            case "Runtime.consoleAPICalled", {"type": "error" | "assert" | "warning"}:
                return True
            case "Log.entryAdded", {"entry": {"level": "error" | "warning"}}:
                return True
        return False

    return list(filter(is_error, events))


@pytest.mark.browser
@pytest.mark.parametrize("page", PAGES)
def test_a_page_comes_to_its_end_and_fails_only_on_purpose(
    site: Site, chromium: Chromium, page: str
) -> None:
    title = page if page in WAITING else "done"
    tab, events = visit(chromium, site.url(f"/{page}{QUERIES.get(page, '')}"), title)
    chromium.close_tab(tab)
    assert bool(errors(events)) == (page in FAILING_ON_PURPOSE), errors(events)


@pytest.mark.browser
def test_the_console_page_shows_every_type_and_failure(site: Site, chromium: Chromium) -> None:
    tab, events = visit(chromium, site.url("/console"), "done")
    chromium.close_tab(tab)
    types = {e["params"]["type"] for e in events if e["method"] == "Runtime.consoleAPICalled"}
    plain = {"log", "info", "warning", "error", "debug", "dir", "dirxml", "table", "trace"}
    groups = {"clear", "startGroup", "startGroupCollapsed", "endGroup"}
    assert types == plain | groups | {"assert", "count", "timeEnd"}
    thrown = [e["params"] for e in events if e["method"] == "Runtime.exceptionThrown"]
    assert len(thrown) == 5
    assert any("404" in str(e["params"]) for e in events if e["method"] == "Log.entryAdded")


@pytest.mark.browser
def test_every_fetch_reaches_the_site(site: Site, chromium: Chromium) -> None:
    site.forget_requests()
    tab = chromium.open(site.url("/fetches?n=120"))
    chromium.wait_for_title(tab)
    chromium.close_tab(tab)
    fetched = sorted(request.path for request in site.requests if "/item/" in request.path)
    assert fetched == sorted(f"/item/{i}" for i in range(120))


@pytest.mark.browser
def test_the_frame_of_the_other_host_is_out_of_process(site: Site, chromium: Chromium) -> None:
    site.forget_requests()
    tab = chromium.open(site.url("/frames"))
    chromium.wait_for_title(tab)
    expected = [site.url("/frame?name=cross", host="localhost")]
    wait_until(
        # A frame of a tab that another test closed may take a moment to go.
        lambda: [t["url"] for t in chromium.targets() if t["type"] == "iframe"] == expected,
        "the frame of the other host, and no other, as a target",
    )
    chromium.close_tab(tab)
    hosts = {r.path: r.headers["host"].split(":")[0] for r in site.requests}
    assert hosts["/item/1?from=same-frame"] == "127.0.0.1"
    assert hosts["/item/1?from=cross-frame"] == "localhost"


@pytest.mark.browser
def test_every_worker_is_a_target_and_fetches(site: Site, chromium: Chromium) -> None:
    site.forget_requests()
    tabs = [chromium.open(site.url(page)) for page in ("/workers", "/sw")]
    for tab in tabs:
        chromium.wait_for_title(tab)
    expected = ["service_worker", "shared_worker", "worker", "worker"]
    wait_until(
        lambda: sorted(t["type"] for t in chromium.targets() if "worker" in t["type"]) == expected,
        f"{expected} as targets",
    )
    for tab in tabs:
        chromium.close_tab(tab)
    paths = {request.path for request in site.requests}
    workers = ("dedicated-worker", "nested-worker", "shared-worker", "sw-page")
    assert {f"/item/1?from={worker}" for worker in workers} <= paths
    assert "/sw-made" not in paths


@pytest.mark.browser
def test_navigate_away_ends_on_the_other_host(site: Site, chromium: Chromium) -> None:
    tab = chromium.open(site.url("/navigate-away?auto=1"))
    chromium.wait_for_title(tab, "empty")
    assert chromium.evaluate(tab, "location.href") == site.url("/empty", host="localhost")
    chromium.close_tab(tab)


@pytest.mark.browser
def test_the_covered_button_is_out_of_reach_until_the_overlay_goes(
    site: Site, chromium: Chromium
) -> None:
    tab, _ = visit(chromium, site.url("/covered"), "covered")
    hit = """(() => {
        const { x, y } = document.getElementById("buy").getBoundingClientRect();
        return document.elementFromPoint(x + 2, y + 2).id;
    })()"""
    assert chromium.evaluate(tab, hit) == "overlay"
    chromium.evaluate(tab, "document.getElementById('dismiss').click()")
    assert chromium.evaluate(tab, hit) == "buy"
    chromium.close_tab(tab)


@pytest.mark.browser
def test_the_source_map_leads_from_the_exception_to_the_throw(
    site: Site, chromium: Chromium
) -> None:
    tab = chromium.open(site.url("/mapped"))
    chromium.wait_for_title(tab, "mapped")
    with chromium.debugger(tab) as debugger:
        # The title is there before the script is.
        wait_until(lambda: debugger.evaluate("document.readyState") == "complete", "the script")
        debugger.send("Runtime.enable")
        debugger.post("Runtime.evaluate", expression="document.getElementById('pay').click()")
        details = debugger.wait_for_event("Runtime.exceptionThrown")["exceptionDetails"]
    chromium.close_tab(tab)
    frame = details["stackTrace"]["callFrames"][0]
    assert frame["url"] == site.url("/mapped.min.js")
    assert frame["lineNumber"] == 0
    source_map = json.loads((FOLDER / "mapped.min.js.map").read_text())
    source = (FOLDER / "mapped.js").read_text()
    assert source_map["sourcesContent"] == [source]
    line = source.splitlines()[original_line(source_map["mappings"], frame["columnNumber"])]
    assert line.lstrip().startswith("throw new Error")


def original_line(mappings: str, column: int) -> int:
    """Where a column of the first generated line comes from, counted from 0."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    at = line = found = 0
    for segment in mappings.split(";")[0].split(","):
        numbers, value, shift = [], 0, 0
        for digit in map(digits.index, segment):
            value |= (digit & 31) << shift
            shift += 5
            if digit < 32:  # the last digit of this number; its lowest bit is the sign
                numbers.append(-(value >> 1) if value & 1 else value >> 1)
                value = shift = 0
        at += numbers[0]
        line += numbers[2]
        if at <= column:
            found = line
    return found

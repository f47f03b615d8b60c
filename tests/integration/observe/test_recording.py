"""What a real page does is recorded: every line, request, frame and worker, each once."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.observing import Watcher, texts, visit

if TYPE_CHECKING:
    from tests.support.chromium import Chromium
    from tests.support.site import Site

pytestmark = pytest.mark.browser


def request_of(events: list[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return [event for event in events if part in event.get("url", "")]


def test_console_lines_of_every_type_are_there_once_with_text_args_and_structure(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/console"))
    chromium.wait_for_title(tab)
    events = watcher.events(tab, kinds=["console", "log"])
    assert "[object Object]" not in str(events)
    levels = {event["type"] for event in events}
    assert {"log", "warn", "error", "info", "debug", "trace"} <= levels
    exceptions = [event for event in events if event.get("source") == "exception"]
    assert len(exceptions) >= 2
    assert any(event.get("inPromise") for event in exceptions)
    assert all(event["stack"]["url"].startswith(site.url("")) for event in exceptions)
    consoles = [event for event in events if event["kind"] == "console"]
    assert all(len(event["args"]) == len(event["argsPreview"]) for event in consoles)
    assert all({"seq", "ts", "targetId", "sessionId", "kind"} <= event.keys() for event in events)
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})


def test_requests_redirects_failures_and_posts_are_told_whole(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(
        tab,
        """(async () => {
          await fetch('/redirect/3');
          await fetch('/api/echo', {method: 'POST', body: JSON.stringify({a: 1}),
            headers: {'content-type': 'application/json', 'authorization': 'Bearer abc123def456'}});
          await fetch('/status/404');
          await fetch('/abort').then(r => r.text()).catch(() => 0);
          return 1;
        })()""",
    )
    events = watcher.wait_for(
        tab, lambda found: any(e["kind"] == "loadingFailed" and "/abort" in e["url"] for e in found)
    )
    hops = [e for e in events if "/redirect/" in e.get("url", "") and e["kind"] == "request"]
    assert len(hops) == 4
    assert len({e["requestId"] for e in hops}) == 1
    assert [e.get("hop", 0) for e in hops] == [0, 1, 2, 3]
    answers = [e for e in events if "/redirect/" in e.get("url", "") and e["kind"] == "response"]
    assert [e["status"] // 100 for e in answers] == [3, 3, 3, 2]
    post = next(e for e in events if e["kind"] == "request" and e["method"] == "POST")
    assert post["postDataPreview"] == '{"a":1}'
    assert "abc123def456" not in str(post)
    assert post["initiator"] == "script"
    missing = [e for e in events if "/status/404" in e.get("url", "")]
    assert {e["kind"] for e in missing} >= {"request", "response"}
    assert next(e for e in missing if e["kind"] == "response")["status"] == 404
    finished = [e for e in events if e["kind"] == "loadingFinished"]
    assert all(e["url"] and e["method"] for e in finished)


def test_frames_workers_and_service_workers_each_report_once(
    chromium: Chromium, new_site: Site, watcher: Watcher, tab: str
) -> None:
    for page in ("/frames", "/workers", "/sw"):
        visit(chromium, tab, new_site.url(page))
        chromium.wait_for_title(tab)
    events = watcher.events(tab)
    lines = Counter(texts([e for e in events if e["kind"] == "console"]))
    sessions = {e["sessionId"] for e in events if e["kind"] == "console"}
    assert len(sessions) >= 6  # page, cross-site frame, worker, nested, shared, service worker
    for source in ("frame", "worker", "nested", "shared", "service"):
        assert any(source in line.lower() for line in lines), (source, lines)
    repeated = {line: n for line, n in lines.items() if n > 1}
    assert not repeated, repeated


def test_websocket_frames_and_server_sent_events_are_there(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/websocket"))
    chromium.wait_for_title(tab)
    frames = watcher.wait_for(
        tab, lambda found: any(e["event"] == "closed" for e in found), kinds=["websocket"]
    )
    assert [e["event"] for e in frames][:2] == ["created", "open"]
    sent = [e for e in frames if e.get("direction") == "sent"]
    received = [e for e in frames if e.get("direction") == "recv"]
    assert len(sent) == 3
    assert len(received) >= 3
    texts_sent = [e for e in sent if e["opcode"] == 1]
    assert texts_sent
    assert all(e["payloadLength"] == len(e["payloadPreview"].encode()) for e in texts_sent)
    visit(chromium, tab, site.url("/events?n=3"))
    chromium.wait_for_title(tab)
    told = watcher.wait_for(
        tab,
        lambda found: [e for e in found if e.get("type") == "serverSentEvent"],
        kinds=["other"],
    )
    assert any(e.get("eventName") for e in told if e["type"] == "serverSentEvent")


def test_an_exception_is_led_back_to_its_source_by_the_map(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/mapped"))
    chromium.evaluate(tab, "document.querySelector('button').click()")
    events = watcher.wait_for(
        tab, lambda found: [e for e in found if e.get("source") == "exception"], kinds=["log"]
    )
    thrown = next(e for e in events if e.get("source") == "exception")
    assert thrown["stack"]["original"]["source"].endswith("mapped.js")
    assert "throw" in thrown["frames"][0]["original"]["code"]


def test_two_thousand_bodies_are_readable_after_the_page_went_elsewhere(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/fetches?n=400"))
    chromium.wait_for_title(tab)
    visit(chromium, tab, site.url("/empty", host="localhost"))
    requests = watcher.wait_for(
        tab,
        lambda found: len([e for e in found if "/item/" in e["url"]]) >= 400,
        kinds=["loadingFinished"],
    )
    wanted = [e for e in requests if "/item/" in e["url"]]
    assert len(wanted) == 400
    for event in wanted:
        number = event["url"].rsplit("/", 1)[1]
        body = watcher.call("cdp_get_response_body", targetId=tab, requestId=event["requestId"])
        assert f'"item":{number}' in body["body"].replace(" ", "")
        assert body["mimeType"] == "application/json"


def test_a_document_and_a_binary_body_survive_navigation(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/covered"))
    chromium.evaluate(tab, "fetch('/binary').then(r => r.arrayBuffer())")
    watcher.wait_for(
        tab, lambda found: len(found) == 1, kinds=["loadingFinished"], urlIncludes="/binary"
    )
    visit(chromium, tab, site.url("/empty", host="localhost"))
    watcher.wait_for(tab, lambda found: found, kinds=["loadingFinished"], urlIncludes="localhost")
    events = watcher.events(tab, kinds=["response"])
    document = next(e for e in events if e["url"].endswith("/covered"))
    body = watcher.call("cdp_get_response_body", targetId=tab, requestId=document["requestId"])
    assert "<button" in body["body"]
    assert body["encoded"] is False
    binary = next(e for e in events if e["url"].endswith("/binary"))
    body = watcher.call("cdp_get_response_body", targetId=tab, requestId=binary["requestId"])
    assert body["encoded"] is True
    assert base64.b64decode(body["body"]) == bytes(range(256))


def test_a_service_worker_that_ran_before_the_page_came_reports_too(
    chromium: Chromium, new_site: Site, watcher: Watcher, tab: str
) -> None:
    other = chromium.open(new_site.url("/sw"))
    chromium.wait_for_title(other)
    visit(chromium, tab, new_site.url("/empty"))

    def heard(found: list[dict[str, Any]]) -> bool:
        # Asked again each time: the worker may be between two lives when the page comes.
        chromium.evaluate(other, "fetch('/sw-made').then(r => r.text())")
        return any("fetch /sw-made" in line for line in texts(found))

    assert watcher.wait_for(tab, heard, kinds=["console"])
    chromium.close_tab(other)


@pytest.mark.parametrize(
    ("page", "kind"), [("/sw", "service_worker"), ("/workers", "shared_worker")]
)
def test_a_worker_of_an_origin_is_observed_for_itself_beside_its_page_each_line_once(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str, page: str, kind: str
) -> None:
    other = chromium.open(site.url(page))
    chromium.wait_for_title(other)
    found = watcher.call("cdp_list_targets", types=[kind], filterUrlIncludes=site.url("/"))
    worker = found["targets"][0]["id"]
    say = "setTimeout(() => console.log('said by it')); 1"

    def told(target: str, times: int) -> None:
        chromium.evaluate(worker, say)
        events = watcher.wait_for(target, lambda found: texts(found).count("said by it") >= times)
        assert texts(events).count("said by it") == times

    watcher.call("cdp_observe", targetId=worker)
    told(worker, 1)
    # The page comes, goes elsewhere and comes again: it hears each line once.
    visit(chromium, tab, site.url("/empty"))
    visit(chromium, tab, site.url("/empty", host="localhost"))
    visit(chromium, tab, site.url("/empty"))
    told(worker, 2)
    before = texts(watcher.events(tab)).count("said by it")
    told(worker, 3)
    told(tab, before + 2)
    watcher.call("cdp_stop_observe", targetId=worker)
    told(tab, before + 3)
    chromium.close_tab(other)


def test_a_worker_that_ends_with_its_page_is_not_told_as_a_crash(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/workers"))
    chromium.wait_for_title(tab)
    visit(chromium, tab, site.url("/empty"))
    events = watcher.wait_for(
        tab, lambda found: any(e["type"] == "workerEnded" for e in found), kinds=["other"]
    )
    (ended,) = (event for event in events if event["type"] == "workerEnded")
    assert ended["url"] == site.url("/shared-worker.js")
    assert not [event for event in events if event["type"] == "targetCrashed"]


def test_a_browser_outlives_an_observed_shared_worker_that_ran_before_its_page_came(
    chromium: Chromium, site: Site
) -> None:
    other = chromium.open(site.url("/workers"))
    chromium.wait_for_title(other)
    with Watcher(chromium.port) as alone:
        page, next_one = chromium.open("about:blank"), chromium.open("about:blank")
        alone.call("cdp_observe", targetId=page)
        visit(chromium, page, site.url("/empty"))
        alone.wait_for(page, lambda found: "shared worker" in texts(found), kinds=["console"])
        chromium.close_tab(other)
        alone.wait_for(
            page, lambda found: any(e["type"] == "workerEnded" for e in found), kinds=["other"]
        )
        chromium.close_tab(page)
        alone.wait_for_state(page, "closed")
        # Held on to, the worker that ended would bring the whole browser down here.
        alone.call("cdp_observe", targetId=next_one)
        listed = {target["id"] for target in alone.call("cdp_list_targets")["targets"]}
        assert next_one in listed
    chromium.close_tab(next_one)


def test_a_tab_of_another_origin_is_not_told_of_foreign_workers(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty", host="localhost"))
    other = chromium.open(site.url("/workers"))
    chromium.wait_for_title(other)
    chromium.evaluate(tab, "console.log('the end')")
    events = watcher.wait_for(tab, lambda found: "the end" in texts(found))
    assert not [line for line in texts(events) if "worker" in line]
    chromium.close_tab(other)


def test_what_a_service_worker_answers_has_a_body_also_after_navigating_away(
    chromium: Chromium, new_site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, new_site.url("/sw"))
    chromium.wait_for_title(tab)
    made = chromium.evaluate(tab, "fetch('/sw-made').then(answer => answer.text())")
    answers = watcher.wait_for(
        tab,
        lambda found: [e["kind"] for e in found].count("loadingFinished") == 2,
        urlIncludes="/sw-made",
    )
    first, second = (e for e in answers if e["kind"] == "response")
    assert first["fromServiceWorker"]
    # Bodies come in their order: with the second one the first is here, which nobody asked for.
    watcher.call("cdp_get_response_body", targetId=tab, requestId=second["requestId"])
    visit(chromium, tab, "about:blank")
    body = watcher.call("cdp_get_response_body", targetId=tab, requestId=first["requestId"])
    assert body["body"] == made


def test_a_page_that_a_running_service_worker_answers_has_its_body_also_after_navigating_away(
    chromium: Chromium, new_site: Site, watcher: Watcher
) -> None:
    first = chromium.open(new_site.url("/sw"))
    chromium.wait_for_title(first)
    tab = chromium.open("about:blank")
    watcher.call("cdp_observe", targetId=tab)
    visit(chromium, tab, new_site.url("/sw"))
    chromium.wait_for_title(tab)
    chromium.evaluate(tab, "fetch('/sw-made?last').then(answer => answer.text())")
    (last,) = watcher.wait_for(tab, bool, kinds=["loadingFinished"], urlIncludes="/sw-made?last")
    # Bodies come in their order: with the last one the others are here.
    watcher.call("cdp_get_response_body", targetId=tab, requestId=last["requestId"])
    visit(chromium, tab, "about:blank")
    answers = [e for e in watcher.events(tab, kinds=["response"]) if e["fromServiceWorker"]]
    page, made = answers[0], next(e for e in answers if e["url"].endswith("/sw-made"))
    body = watcher.call("cdp_get_response_body", targetId=tab, requestId=page["requestId"])
    assert "<title>running</title>" in body["body"]
    body = watcher.call("cdp_get_response_body", targetId=tab, requestId=made["requestId"])
    assert "by the worker" in body["body"]
    for each in (first, tab):
        chromium.close_tab(each)


def test_the_beginning_of_a_large_upload_is_there_with_its_true_length(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(tab, "fetch('/echo', {method: 'POST', body: 'y'.repeat(100000)})")
    (sent,) = watcher.wait_for(tab, bool, kinds=["request"], method="POST")
    assert sent["postDataPreview"] == "y" * 64_000
    assert sent["truncated"]["postDataPreview"] == 100_000


_LINK = (
    "(link => { link.href = '/binary'; link.download = 'all.bin'; link.click() })"
    "(document.createElement('a'))"
)


@pytest.mark.parametrize(
    ("script", "url", "kinds"),
    [
        # The browser fetches it itself, and tells of no request.
        (_LINK, "/binary", {"other"}),
        # The page gives its request up for the download.
        (
            "void (location.href = '/download')",
            "/download",
            {"request", "response", "loadingFailed", "other"},
        ),
    ],
)
def test_a_download_is_told(
    chromium: Chromium,
    site: Site,
    watcher: Watcher,
    tab: str,
    script: str,
    url: str,
    kinds: set[str],
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(tab, script)
    told = watcher.wait_for(
        tab,
        lambda found: [e for e in found if e.get("type") == "downloadEnded"],
        urlIncludes=url,
    )
    assert {event["kind"] for event in told} == kinds
    begun, ended = [event for event in told if event["kind"] == "other"]
    assert begun["type"] == "downloadBegun"
    assert begun["fileName"]
    assert ended["state"] == "completed"
    assert ended["receivedBytes"] > 0


def test_an_archive_has_the_bytes_of_what_is_no_text(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(tab, "fetch('/pixel.png').then(r => r.blob())")
    watcher.wait_for(tab, bool, kinds=["loadingFinished"], urlIncludes="/pixel.png")
    entries = json.loads(watcher.resource(f"cdp://har/{tab}"))["log"]["entries"]
    (picture,) = [e for e in entries if e["request"]["url"].endswith("/pixel.png")]
    content = picture["response"]["content"]
    assert (content["encoding"], content["mimeType"]) == ("base64", "image/png")
    assert base64.b64decode(content["text"]).startswith(b"\x89PNG")
    assert content["size"] == len(base64.b64decode(content["text"]))

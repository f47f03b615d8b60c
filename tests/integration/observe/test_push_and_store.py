"""Push of new events in both eras, the store on disk, metrics, and the browser we start."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import psutil
import pytest
from mcp.client import Client

from tests.support.command_line import run
from tests.support.observing import Watcher, chrome_command, texts, visit
from tests.support.servers import ERAS, http_server, stdio

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.chromium import Chromium
    from tests.support.site import Site

pytestmark = pytest.mark.browser
GUARD_S = 30


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_a_subscriber_hears_of_new_events(chromium: Chromium, era: str) -> None:
    heard = anyio.Event()

    async def on_message(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.set()

    target = await anyio.to_thread.run_sync(chromium.open, "about:blank")
    args = ("observe", "--port", str(chromium.port))
    async with stdio(*args, mode=era, module="pilothouse", message_handler=on_message) as client:
        observed = await client.call_tool("cdp_observe", {"targetId": target})
        uri = observed.structured_content["resourceUri"]

        async def log() -> None:
            await anyio.to_thread.run_sync(chromium.evaluate, target, "console.log('pushed')")

        with anyio.fail_after(GUARD_S):
            if era == "auto":
                async with client.listen(resource_subscriptions=[uri]) as subscription:
                    await log()
                    event = await anext(aiter(subscription))
                    assert str(getattr(event, "uri", "")) == uri
            else:
                await client.subscribe_resource(uri)
                await log()
                await heard.wait()
        content = (await client.read_resource(uri)).contents[0]
        body = json.loads(getattr(content, "text", ""))
        assert "pushed" in texts(body["events"])
        assert body["nextOffset"] == body["events"][-1]["seq"] + 1
    await anyio.to_thread.run_sync(chromium.close_tab, target)


def test_a_store_keeps_what_the_ring_forgot_over_a_restart(
    chromium: Chromium, site: Site, tmp_path: Path
) -> None:
    file = tmp_path / "events.sqlite"
    store = ("--store", f"sqlite:{file}", "--buffer-size", "100")
    target = chromium.open(site.url("/flood?n=1000"))
    with Watcher(chromium.port, *store) as watcher:
        watcher.call("cdp_observe", targetId=target)
        chromium.evaluate(target, "start()")
        events = watcher.wait_for(
            target, lambda found: any("999" in e["args"] for e in found), kinds=["console"]
        )
        assert len(events) == 1000
        page = watcher.call("cdp_read_events", targetId=target)
        assert page["dropped"] == 0
        last = watcher.events(target)[-1]["seq"]
        watcher.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with Watcher(chromium.port, *store) as watcher:
        assert watcher.call("cdp_read_events", targetId=target)["state"] == "stored"
        assert len(watcher.events(target, kinds=["console"])) == 1000
        only = watcher.events(target, textIncludes="line 500")
        assert [e["args"][1] for e in only] == ["500"]
        watcher.call("cdp_observe", targetId=target)
        chromium.evaluate(target, "console.log('after the restart')")
        events = watcher.wait_for(target, lambda found: "after the restart" in texts(found))
        seqs = [event["seq"] for event in events]
        assert seqs == sorted(set(seqs))
        assert seqs[-1] > last
    chromium.close_tab(target)


def test_resources_and_a_new_recording_go_on_from_the_store(
    chromium: Chromium, site: Site, tmp_path: Path
) -> None:
    store = ("--store", f"sqlite:{tmp_path / 'events.sqlite'}", "--buffer-size", "5")
    target = chromium.open("about:blank")
    with Watcher(chromium.port, *store) as watcher:
        watcher.call("cdp_observe", targetId=target)
        visit(chromium, target, site.url("/mix?n=3"))
        chromium.wait_for_title(target)
        events = watcher.events(target)
        urls = _archived(watcher, target)
        assert len(urls) == len({e["requestId"] for e in events if e["kind"] == "request"})
        watcher.close()
    with Watcher(chromium.port, *store) as watcher:
        shown = json.loads(watcher.resource(f"cdp://events/{target}"))
        assert [e["seq"] for e in shown["events"]] == [e["seq"] for e in events][-200:]
        assert shown["dropped"] == 0
        assert _archived(watcher, target) == urls
        watcher.close()
    with Watcher(chromium.port, *store) as watcher:
        # Not read before: what was recorded earlier is known all the same.
        watcher.call("cdp_observe", targetId=target)
        chromium.evaluate(target, "console.log('after the restart')")
        after = watcher.wait_for(target, lambda found: "after the restart" in texts(found))
        assert after[: len(events)] == events
        # The browser repeats the page's lines; they are there already.
        new = [(e["kind"], e.get("type")) for e in after[len(events) :]]
        assert new == [("other", "gap"), ("console", "log")]
    chromium.close_tab(target)


def _archived(watcher: Watcher, target: str) -> list[str]:
    log = json.loads(watcher.resource(f"cdp://har/{target}"))["log"]
    assert "comment" not in log
    return [entry["request"]["url"] for entry in log["entries"]]


def test_an_archive_says_what_the_ring_has_lost(chromium: Chromium, site: Site) -> None:
    target = chromium.open("about:blank")
    with Watcher(chromium.port, "--buffer-size", "5") as watcher:
        watcher.call("cdp_observe", targetId=target)
        visit(chromium, target, site.url("/mix?n=3"))
        chromium.wait_for_title(target)
        dropped = watcher.call("cdp_read_events", targetId=target)["dropped"]
        log = json.loads(watcher.resource(f"cdp://har/{target}"))["log"]
        assert log["comment"] == f"{dropped} events before these are not in this archive"
    chromium.close_tab(target)


def test_a_store_that_cannot_be_used_is_named_at_the_start(tmp_path: Path) -> None:
    for setting, said in (("redis:x", "write sqlite:PATH"), (f"sqlite:{tmp_path}", str(tmp_path))):
        done = run("observe", "--store", setting)
        assert done.returncode == 2
        assert "--store" in done.stderr
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_metrics_count_events_frames_and_commands(chromium: Chromium, site: Site) -> None:
    with Watcher(chromium.port, "--metrics-port", "0") as watcher:
        target = chromium.open(site.url("/empty"))
        watcher.call("cdp_observe", targetId=target, bufferSize=5)
        watcher.call("cdp_set_filters", targetId=target, urlBlocklist=["/item/3"])
        chromium.evaluate(
            target, "(async () => { for (let i = 0; i < 8; i++) await fetch('/item/' + i) })()"
        )
        watcher.wait_for(target, lambda found: any("/item/7" in e.get("url", "") for e in found))
        found = None
        while found is None:
            found = re.search(r"http://127\.0\.0\.1:\d+/metrics", watcher.log())
        text = httpx.get(found.group()).text
        numbers = dict(re.findall(r"^(pilothouse_\w+_total) ([\d.]+)$", text, re.MULTILINE))
        assert float(numbers["pilothouse_events_seen_total"]) >= 16
        assert float(numbers["pilothouse_events_dropped_total"]) >= 5
        assert float(numbers["pilothouse_events_filtered_total"]) >= 1
        assert float(numbers["pilothouse_cdp_commands_total"]) >= 8
        assert float(numbers["pilothouse_cdp_frames_total"]) >= 16
        chromium.close_tab(target)


@pytest.mark.anyio
async def test_a_hub_shows_what_its_workers_count_also_of_those_that_have_ended(
    chromium: Chromium,
) -> None:
    def seen(url: str) -> float:
        text = httpx.get(f"{url}/metrics", timeout=GUARD_S).text
        found = re.search(r"^pilothouse_events_seen_total ([\d.]+)$", text, re.MULTILINE)
        assert "pilothouse_events_dropped_total 0.0" in text
        return float(found.group(1)) if found else 0.0

    target = await anyio.to_thread.run_sync(chromium.open, "about:blank")
    lines = 0
    with http_server(module="pilothouse", env={"CDP_PORT": str(chromium.port)}) as server:
        for era in ERAS:
            async with Client(f"{server.url}/mcp", mode=era) as client:
                await client.call_tool("cdp_observe", {"targetId": target})
                await anyio.to_thread.run_sync(chromium.evaluate, target, "console.log('counted')")
                lines += 1  # each line so far is repeated to whoever attaches
                read: list[Any] = []
                while len(read) < lines:
                    asked = {"targetId": target, "kinds": ["console"]}
                    answer = await client.call_tool("cdp_read_events", asked)
                    read = answer.structured_content["events"]
                counted = await anyio.to_thread.run_sync(seen, server.url)
                assert counted == lines * (lines + 1) / 2
                assert await anyio.to_thread.run_sync(seen, server.url) == counted
    await anyio.to_thread.run_sync(chromium.close_tab, target)


def test_pilothouse_chrome_starts_a_browser_that_can_be_observed(
    site: Site, tmp_path: Path
) -> None:
    with chrome_command(tmp_path, "chrome", "--headless", site.url("/console")) as (process, port):
        with Watcher(port) as watcher:
            watcher.call("cdp_observe", urlIncludes="/console")
        assert stat.S_IMODE((tmp_path / "chrome-profile").stat().st_mode) == 0o700
    assert process.returncode == 0


def test_the_session_timeline_holds_the_tab_beside_the_calls(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(tab, "console.log('on the timeline')")
    watcher.wait_for(tab, lambda found: "on the timeline" in texts(found))
    answer = watcher.request("resources/read", {"uri": "pilothouse://timeline"}, id=5)
    events = json.loads(answer["result"]["contents"][0]["text"])["events"]
    names = {event["event"] for event in events}
    assert {"ToolInvoked", "ConsoleLogged", "RequestSent", "ResponseReceived"} <= names
    times = [event["time"] for event in events]
    assert times == sorted(times)


def test_the_browser_we_start_has_nothing_of_the_terminal_s_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "k3ep")
    monkeypatch.setenv("LC_TIME", "C")
    with chrome_command(tmp_path, "chrome", "--headless") as (process, _):
        (browser,) = psutil.Process(process.pid).children()
        environ = browser.environ()
    assert environ["LC_TIME"] == "C"
    assert "k3ep" not in environ.values()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_browser_we_start_dies_with_us(tmp_path: Path, end: signal.Signals) -> None:
    with chrome_command(tmp_path, "chrome", "--headless") as (process, _):
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        os.kill(process.pid, end)
        process.wait(30)
        _, alive = psutil.wait_procs(children, timeout=30)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]

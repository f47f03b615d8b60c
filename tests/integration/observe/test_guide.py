"""The commands of the guide, run as they are written there."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.observing import Watcher, chrome_command
from tests.support.servers import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.site import Site

pytestmark = pytest.mark.browser

GUIDE = (ROOT / "docs" / "guides" / "observe.md").read_text()


def test_the_guide_works_from_the_browser_to_the_har(site: Site, tmp_path: Path) -> None:
    start, serve = re.findall(r"```sh\n(pilothouse .+)\n```", GUIDE)
    page = site.url("/console")
    words = shlex.split(start.replace("http://127.0.0.1:8000/", page))[1:]
    with chrome_command(tmp_path, *words) as (_, port):
        assert shlex.split(serve)[:3] == ["pilothouse", "observe", "--port"]
        with Watcher(port) as watcher:
            _follow(watcher, page)


def _follow(watcher: Watcher, page: str) -> None:
    """Call the tools of the guide's table in order, with real ids in the places of its words."""
    calls = re.findall(r"\| `(cdp_\w+) (\{.+\})` \|", GUIDE)
    assert [tool for tool, _ in calls][:3] == ["cdp_list_targets", "cdp_observe", "cdp_read_events"]
    target = request = ""
    for tool, text in calls:
        text = text.replace("127.0.0.1:8000", page.split("//")[1])
        text = text.replace('"TARGET"', json.dumps(target))
        if "REQUEST" in text:
            request = _whole_request(watcher, target)
        arguments: dict[str, Any] = json.loads(text.replace('"REQUEST"', json.dumps(request)))
        answer = watcher.call(tool, **arguments)
        if tool == "cdp_observe":
            target = answer["targetId"]
            # The page was there before us: load it again to see it from its first line.
            watcher.call("cdp_list_targets")
            _reload(watcher, target)
        if arguments.get("level") == "error":
            assert answer["events"]
    har = watcher.request("resources/read", {"uri": f"cdp://har/{target}"}, id=3)
    assert json.loads(har["result"]["contents"][0]["text"])["log"]["entries"]


def _whole_request(watcher: Watcher, target: str) -> str:
    """Return a request that was seen from its start: of another, the browser may keep no body."""

    def whole(events: list[dict[str, Any]]) -> list[str]:
        begun = {event["requestId"] for event in events if event["kind"] == "request"}
        ended = [event["requestId"] for event in events if event["kind"] == "loadingFinished"]
        return [one for one in ended if one in begun]

    return whole(watcher.wait_for(target, whole, kinds=["request", "loadingFinished"]))[0]


def _reload(watcher: Watcher, target: str) -> None:
    from websockets.sync.client import connect

    port = watcher.port
    with connect(f"ws://127.0.0.1:{port}/devtools/page/{target}") as socket:
        socket.send(json.dumps({"id": 1, "method": "Page.reload"}))
        socket.recv()
    watcher.wait_for(
        target, lambda found: any(e.get("source") == "exception" for e in found), kinds=["log"]
    )

"""From a click to the console and back, over the MCP wire, in a real browser with a real server."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.driving import SHOP
from tests.support.intercepting import Tap
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

TRACED = Path(__file__).parents[2] / "support" / "traced_shop.py"
LANES = {"steps", "network", "packets", "server", "console"}


class Bridge(Tap):
    """An agent with all groups, in a shop whose orders fail."""

    def open(self, server: Path = TRACED, **arguments: Any) -> str:
        started = self.call("startSession", command=[sys.executable, str(server)], **arguments)
        self.call("navigate", url="/", sessionId=started["sessionId"])
        return str(started["sessionId"])

    def moments(self, **arguments: Any) -> dict[str, dict[str, Any]]:
        shown = self.call("timeline", **arguments)["moments"]
        return {moment["key"]: moment for moment in shown}

    def order(self, **arguments: Any) -> dict[str, dict[str, Any]]:
        """Click, and wait until all five lanes have told of it."""
        self.call("click", selector="#order", **arguments)
        told = wait_until(lambda: self._all_told(**arguments))
        assert isinstance(told, dict)
        return told

    def _all_told(self, **arguments: Any) -> dict[str, dict[str, Any]]:
        found = self.moments(limit=500, **arguments)
        ordered = [one for one in found.values() if "order" in one["text"]]
        answered = any("/api/order → 500" in one["text"] for one in ordered)
        return found if {one["lane"] for one in ordered} >= LANES and answered else {}


def only(moments: dict[str, dict[str, Any]], lane: str, text: str) -> dict[str, Any]:
    (found,) = [m for m in moments.values() if m["lane"] == lane and text in m["text"]]
    return found


def joint(moment: dict[str, Any], key: str) -> dict[str, Any]:
    (found,) = [link for link in moment["links"] if link["key"] == key]
    return dict(found)


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    with Bridge() as opened:
        opened.open(intercept=True)
        yield opened


@pytest.fixture(scope="module")
def chain(bridge: Bridge) -> dict[str, dict[str, Any]]:
    """The moments of one order, by the name of what they are."""
    found = bridge.order()
    return {
        "step": only(found, "steps", "click #order"),
        "request": only(found, "network", "/api/order"),
        "packet": only(found, "packets", "/api/order"),
        "line": only(found, "server", "POST /api/order"),
        "error": only(found, "server", "the shelf of lamp 17"),
        "console": only(found, "console", "order failed"),
    }


@pytest.mark.parametrize("name", ["step", "request", "packet", "line", "error", "console"])
def test_the_whole_way_is_found_from_each_of_its_keys(
    bridge: Bridge, chain: dict[str, dict[str, Any]], name: str
) -> None:
    key = chain[name]["key"]
    shown = bridge.call("timeline", around=key, window=1_000)
    assert shown["around"] == key
    found = {moment["key"]: moment for moment in shown["moments"]}
    assert {one["key"] for one in chain.values()} <= found.keys()
    assert found[key]["offsetMs"] == 0
    times = [moment["at"] for moment in shown["moments"]]
    assert times == sorted(times)
    assert found[chain["request"]["key"]]["level"] == "error"


def test_what_has_an_id_is_certain_and_what_has_none_is_a_labelled_guess(
    bridge: Bridge, chain: dict[str, dict[str, Any]]
) -> None:
    found = bridge.moments(around=chain["step"]["key"])
    request = found[chain["request"]["key"]]
    packet = found[chain["packet"]["key"]]
    began = joint(request, chain["step"]["key"])
    assert (began["role"], began["how"], began["guess"]) == ("cause", "time", True)
    assert "its tab" in began["why"]
    assert joint(packet, request["key"])["guess"] is False
    for line in ("line", "error"):
        link = joint(found[chain[line]["key"]], packet["key"])
        assert (link["how"], link["guess"]) == ("id", False)
    assert joint(found[chain["console"]["key"]], request["key"])["guess"] is True


def test_a_packet_is_found_in_the_history_by_the_number_of_its_key(
    bridge: Bridge, chain: dict[str, dict[str, Any]]
) -> None:
    number = int(chain["packet"]["key"].removeprefix("packet:"))
    detail = bridge.call("get_packet_detail", packet_id=number)
    assert "/api/order" in str(detail)


def test_causes_walks_back_from_the_console_to_the_click(
    bridge: Bridge, chain: dict[str, dict[str, Any]]
) -> None:
    told = bridge.call("causes", of=chain["console"]["key"])
    keys = [moment["key"] for moment in told["chain"]]
    wanted = [chain[name]["key"] for name in ("step", "request", "packet", "error", "console")]
    assert [key for key in keys if key in wanted] == wanted
    assert told["root"] == chain["step"]["key"]
    assert told["certain"] is False


def test_causes_of_a_line_in_the_log_end_at_the_click_too(
    bridge: Bridge, chain: dict[str, dict[str, Any]]
) -> None:
    result = bridge.ask("causes", of=chain["error"]["key"])
    assert result["structuredContent"]["root"] == chain["step"]["key"]
    text = result["content"][0]["text"]
    ours, fenced = re.split(r"<data [\w-]+>", text)
    assert f"goes back to {chain['step']['key']}" in ours
    assert "lamp 17" not in ours
    assert f"← {chain['packet']['key']}" in fenced


def test_an_answer_keeps_to_its_budget_and_says_what_it_left_out(
    bridge: Bridge, chain: dict[str, dict[str, Any]]
) -> None:
    result = bridge.ask("timeline", around=chain["console"]["key"], window=60_000, maxTokens=300)
    assert len(result["content"][0]["text"]) <= 300 * 4
    shown = result["structuredContent"]
    assert len(json.dumps(shown, separators=(",", ":"), ensure_ascii=False)) <= 300 * 4
    assert shown["around"] in {moment["key"] for moment in shown["moments"]}
    assert sum(shown["leftOut"].values()) > 0
    assert "Left out" in result["content"][0]["text"]


def test_lanes_are_shown_alone_when_asked_for(
    bridge: Bridge, chain: dict[str, dict[str, Any]]
) -> None:
    found = bridge.moments(around=chain["step"]["key"], lanes=["server", "packets"])
    assert {moment["lane"] for moment in found.values()} == {"server", "packets"}
    assert any(key.startswith("call:") for key in bridge.moments(lanes=["other"]))


def test_a_key_that_is_none_or_not_kept_is_told_with_the_next_call(bridge: Bridge) -> None:
    wrong = bridge.fault("timeline", around="console")
    assert wrong["type"] == "invalid_input"
    assert "step:4" in wrong["message"]
    gone = bridge.fault("causes", of="packet:999999")
    assert gone["type"] == "moment_not_found"
    assert "without a key" in gone["suggestion"]
    unknown = bridge.fault("timeline", sessionId="nobody")
    assert unknown["type"] == "session_not_found"


def test_without_ids_lines_of_the_log_are_guessed_and_two_sessions_are_kept_apart() -> None:
    with Bridge("--redact", "lamp \\d+") as bridge:
        first = bridge.open(SHOP / "server.py")
        second = bridge.open(SHOP / "server.py")
        script = "fetch('/api/broken').then(r => console.error('broken', r.status))"
        for session in (first, second):
            bridge.call("evaluate", script=script, sessionId=session)
        found = wait_until(lambda: _all_of(bridge, first))
        trace = only(found, "server", "OutOfStock")
        assert "lines)" in trace["text"]
        assert "lamp 17" not in trace["text"]
        request = only(found, "network", "/api/broken")
        link = joint(trace, request["key"])
        assert (link["how"], link["guess"]) == ("time", True)
        step = only(found, "steps", "evaluate")
        assert step["key"] == f"step:{first[:6]}/2"
        assert joint(request, step["key"])["role"] == "cause"
        # Of the whole agent both are shown; of one session only its own.
        both = [m for m in bridge.moments(limit=500).values() if "/api/broken →" in m["text"]]
        assert len(both) == 2
        others = _all_of(bridge, second)
        assert not others.keys() & found.keys()
        bridge.call("endSession", sessionId=first)
        # What has ended is still told of.
        assert only(bridge.moments(sessionId=first), "steps", "evaluate")["key"] == step["key"]


def _all_of(bridge: Bridge, session: str) -> dict[str, dict[str, Any]]:
    found = bridge.moments(sessionId=session, limit=500)
    told = {m["lane"] for m in found.values() if "roken" in m["text"] or "Stock" in m["text"]}
    return found if told >= {"network", "server", "console"} else {}


def test_with_nothing_recorded_it_says_what_begins_a_recording() -> None:
    with Bridge() as bridge:
        result = bridge.ask("timeline")
        assert "Starting a browser session" in result["content"][0]["text"]
        assert result["structuredContent"]["moments"] == []
        assert not result["structuredContent"]["at"].startswith("1970")
        long = bridge.fault("timeline", around="request:" + "x" * 5_000)
        assert len(long["message"]) < 200


def test_a_request_that_a_session_left_without_an_answer_is_not_told_as_under_way() -> None:
    def told(agent: Bridge) -> str:
        shown = agent.moments(lanes=["network"]).values()
        return "".join(one["text"] for one in shown if "/api/slow" in one["text"])

    with Bridge() as agent:
        session = agent.open()
        script = "fetch('/api/slow?ms=60000').catch(() => 0), 1"
        agent.call("evaluate", script=script, sessionId=session)
        wait_until(lambda: "no answer yet" in told(agent))
        agent.call("endSession", sessionId=session)
        wait_until(lambda: "no answer before its tab was closed" in told(agent))

"""The kept inputs, sent to one hub again: none may be an incident. `make fuzz` draws new ones."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.arguments import declared_tools
from tests.fuzz.browser import run_hostile_browser
from tests.fuzz.clients import LEGACY, MODERN, HttpClient
from tests.fuzz.corpus import kept_calls, kept_frames
from tests.fuzz.judge import Figures, log_incidents
from tests.fuzz.lanes import AgentLane, FrameLane
from tests.fuzz.pipe import PipePlace
from tests.fuzz.processes import own_engine, own_zygote
from tests.fuzz.run import hub_places
from tests.fuzz.servers import Setting, connected_chrome, running_hub

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

KEPT = 200
"""At least so many inputs are sent."""
HOSTILE_READS = 4


@pytest.fixture(scope="module")
def setting() -> Iterator[Setting]:
    with Setting.made() as made:
        yield made


@pytest.fixture(scope="module")
def hub(setting: Setting) -> Iterator[Server]:
    with running_hub(setting) as server, connected_chrome(setting):
        yield server
        assert log_incidents(server.lines) == []


@pytest.fixture(scope="module")
def fuzzing_agent(hub: Server, setting: Setting) -> Iterator[AgentLane]:
    """One of the 2025 era, with a session in its app."""
    client = HttpClient(hub.url, LEGACY)
    figures, tools = Figures(), declared_tools()
    lane = AgentLane("2025", client, setting, Random(1), figures, tools)
    lane.begin()
    yield lane
    lane.end()
    client.close()


def test_kept_calls_are_no_incidents_in_either_era(
    fuzzing_agent: AgentLane, hub: Server, setting: Setting
) -> None:
    figures = Figures()
    modern = HttpClient(hub.url, MODERN)
    other = AgentLane("2026", modern, setting, Random(2), figures, declared_tools())
    other.known = fuzzing_agent.known  # it names the session, and so has the same worker
    fuzzing_agent._figures = figures
    for number, kept in enumerate(kept_calls()):
        (fuzzing_agent if number % 2 else other).send(kept.tool, kept.arguments)
    modern.close()
    assert figures.incidents == []
    assert figures.hangs == 0
    assert figures.valid_share >= 0.5
    assert fuzzing_agent.must("status")


def test_kept_frames_end_nobody(fuzzing_agent: AgentLane, hub: Server, setting: Setting) -> None:
    figures = Figures()
    with (
        own_engine(setting.home / "engine") as engine,
        own_zygote(setting.home / "zygote") as zygote,
    ):
        places = {one.name: one for one in (*hub_places(hub, setting), engine, zygote, PipePlace())}
        sender = FrameLane((), Random(1), figures)
        for kept in kept_frames():
            sender.send(places[kept.place], kept.frames)
    assert figures.incidents == []
    assert figures.frames.keys() == places.keys()
    assert log_incidents([*engine.log, *zygote.log]) == []
    assert fuzzing_agent.must("getSessionStatus", sessionId="<sessionId>")


def test_a_hostile_browser_is_only_watched(fuzzing_agent: AgentLane) -> None:
    with run_hostile_browser(Random(1), is_silent=False) as browser:
        place = {"port": browser.port, "host": "127.0.0.1"}
        for _ in range(HOSTILE_READS):
            fuzzing_agent.ask("cdp_list_targets", **place)
            fuzzing_agent.ask("cdp_observe", targetId="HOSTILE", **place)
            for tool in ("cdp_read_events", "cdp_get_filters", "cdp_stop_observe"):
                fuzzing_agent.send(tool, {"targetId": "HOSTILE"})
        assert browser.frames > HOSTILE_READS
    assert fuzzing_agent._figures.incidents == []


def test_a_resource_with_half_a_character_is_read(fuzzing_agent: AgentLane) -> None:
    fuzzing_agent.refresh()
    script = "console.error('x\\udfff'); throw new Error('y\\udfff')"
    fuzzing_agent.ask("evaluate", sessionId="<sessionId>", script=script)
    fuzzing_agent.ask("cdp_observe", sessionId="<sessionId>", targetId="<ownTarget>")
    for uri in ("pilothouse://timeline", f"cdp://events/{fuzzing_agent.known.get('ownTarget')}"):
        reply = fuzzing_agent.client.request("resources/read", {"uri": uri})
        assert reply.message is not None, uri
        assert "result" in reply.message, reply.message


def test_enough_is_kept() -> None:
    assert len(kept_calls()) + len(kept_frames()) >= KEPT

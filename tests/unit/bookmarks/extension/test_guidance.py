"""Why no Chrome is connected is told with the whole way to one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.bookmarks.extension.guidance import Guidance
from pilothouse.core.declare.faults import Envelope
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(50.0)


@pytest.fixture
def guidance(clock: Clock) -> Guidance:
    made = Guidance(Path("/opt/pilothouse/extension"), clock)
    made.opened(8765)
    return made


def test_the_hint_leads_from_nothing_to_a_connection(guidance: Guidance) -> None:
    error = guidance.fault().render(Envelope.CODE)
    assert error["code"] == "EXTENSION_NOT_CONNECTED"
    details = error["details"]
    assert isinstance(details, dict)
    for part in ("/opt/pilothouse/extension", "chrome://extensions", "`pilothouse pair`", "8765"):
        assert part in details["hint"]
    assert details["hint"].endswith("every 30 s: call again after that")
    assert details["retryAfterSec"] == 30


def test_the_message_says_what_happened_last(guidance: Guidance, clock: Clock) -> None:
    clock.now += 3
    assert guidance.fault().message.endswith("the server began to listen 3 s ago")
    guidance.refused("the pairing code is wrong")
    clock.now += 4
    assert "the pairing code is wrong) 4 s ago" in guidance.fault().message
    guidance.connected(["Work"])
    guidance.connected([])
    clock.now += 5
    assert guidance.fault().message.endswith("the connection was lost 5 s ago")


def test_the_state_names_who_is_connected(guidance: Guidance) -> None:
    assert guidance.state() == "ws://127.0.0.1:8765, connected: no Chrome"
    guidance.connected(["Work", "Home"])
    assert guidance.state() == "ws://127.0.0.1:8765, connected: Work, Home"


def test_a_link_that_is_off_says_why_and_how_to_move_it(guidance: Guidance) -> None:
    guidance.could_not_open("port 8765 is taken by chess (pid 7)")
    assert guidance.is_off
    assert guidance.state() == "off: port 8765 is taken by chess (pid 7)"
    fault = guidance.fault()
    assert "chess (pid 7)" in fault.message
    assert "PILOTHOUSE_BOOKMARKS_PORT" in fault.hint
    guidance.opened(8766)
    assert not guidance.is_off


def test_a_build_without_the_extension_still_says_where_it_is() -> None:
    bare = Guidance(None, Clock(50.0))
    bare.opened(8765)
    assert "`extension`" in bare.fault().hint

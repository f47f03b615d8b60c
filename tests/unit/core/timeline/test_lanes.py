"""Lanes, levels, lines and public keys: one vocabulary for all who show a timeline."""

from __future__ import annotations

import pytest

from pilothouse.core.timeline.events import ToolInvocationFailed, ToolInvoked
from pilothouse.core.timeline.lanes import (
    KINDS,
    LANES,
    MomentKey,
    counted_by_several,
    key_of,
    lane_of,
    level_of,
    line_of,
    one_line,
    parse_key,
    phase_of,
    shown,
)
from tests.support.moments import Written, order_that_fails

OTHER = "FFEE00111"


def shown_keys(written: Written) -> list[str]:
    several = counted_by_several(written.timeline)
    return [shown(key_of(moment), several) for moment in written.timeline]


def test_every_kind_of_moment_has_its_lane_and_its_key() -> None:
    written = Written()
    order_that_fails(written)
    written.timeline.emit(ToolInvoked(at=1_100, tool="click", duration_ms=3))
    found = {
        (lane_of(moment.event.name), key)
        for moment, key in zip(written.timeline, shown_keys(written), strict=True)
    }
    assert found >= {
        ("steps", "step:4"),
        ("network", "request:11.2"),
        ("packets", "packet:77"),
        ("packets", "packet:78"),
        ("server", "server:1"),
        ("console", "console:6"),
        ("console", "console:7"),
        ("other", "call:0"),
    }
    assert {lane for lane, _ in found} <= {*LANES}


def test_keys_say_whose_they_are_once_there_are_several() -> None:
    written = Written()
    written.console(1, "one")
    written.step(1, 2, 1)
    assert shown_keys(written) == ["console:0", "step:1"]
    written.console(5, "two", target=OTHER)
    written.step(1, 6, 1, session_id="777777bb")
    assert shown_keys(written) == [
        "console:AB12CD/0", "step:0f3a21/1", "console:FFEE00/0", "step:777777/1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("step:4", MomentKey("step", "4")),
        (" console:0123 ", MomentKey("console", "123")),
        ("console:ab12cd/123", MomentKey("console", "123", "ab12cd")),
        ("request:1000.12/x", MomentKey("request", "1000.12/x")),
        ("packet:77", MomentKey("packet", "77")),
        ("browser:3", MomentKey("browser", "3")),
        ("server:" + "9" * 5_000, MomentKey("server", "9" * 5_000)),
    ],
)
def test_a_key_is_read_in_its_parts(text: str, key: MomentKey) -> None:
    assert parse_key(text) == key
    assert parse_key(str(key)) == key


@pytest.mark.parametrize(
    "text", ["", "4", "step", "step:", "step:x", "page:4", "console:a/", "²:1"]
)
def test_what_is_no_key_is_refused_in_words_that_show_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no key: .*(step:4|a number)"):
        parse_key(text)


def test_zeros_before_a_number_mean_nothing() -> None:
    assert (parse_key("step:004").id, parse_key("step:000").id) == ("4", "0")


def test_every_key_that_is_shown_can_be_read() -> None:
    written = Written()
    order_that_fails(written)
    for key in shown_keys(written):
        assert parse_key(key).kind in KINDS


@pytest.mark.parametrize(
    ("name", "facts", "level"),
    [
        ("ConsoleLogged", {"type": "error"}, "error"),
        ("EntryLogged", {"type": "warn"}, "warn"),
        ("ConsoleLogged", {"type": "log"}, "info"),
        ("ConsoleLogged", {"type": "trace"}, "debug"),
        ("StepFinished", {"ok": False}, "error"),
        ("ResponseReceived", {"status": 503}, "error"),
        ("ResponseReceived", {"status": 404}, "warn"),
        ("ResponseReceived", {"status": 200}, "info"),
        ("PacketRecorded", {"status": None}, "info"),
        ("LoadingFailed", {"canceled": True}, "debug"),
        ("LoadingFailed", {}, "error"),
        ("ServerLogged", {"line": "2026-01-01 ERROR no shelf"}, "error"),
        ("ServerLogged", {"line": "RuntimeError: x"}, "error"),
        ("ServerLogged", {"line": "WARNING: old"}, "warn"),
        ("ServerLogged", {"line": "compiled with 0 errors"}, "info"),
        ("BrowserNoted", {"what": "tab crashed"}, "error"),
        ("BrowserNoted", {"what": "dialog"}, "info"),
        ("ToolInvocationFailed", {}, "warn"),
    ],
)  # fmt: skip
def test_a_level_says_how_much_it_should_worry(
    name: str, facts: dict[str, object], level: str
) -> None:
    assert level_of(name, facts) == level


def test_lines_are_short_and_say_what_happened() -> None:
    written = Written()
    order_that_fails(written)
    failed = ToolInvocationFailed(
        at=2_000, tool="click", duration_ms=2, code="timeout", message="no"
    )
    written.timeline.emit(failed)
    lines = [line_of(moment.event.name, moment.event.facts()) for moment in written.timeline]
    assert "step 4 click #buy ok" in lines
    assert "POST http://localhost:3000/api/order" in lines
    assert "500 from http://localhost:3000/api/order" in lines
    assert "packet 78 POST localhost:3000/api/order → 500" in lines
    assert "server stderr:     at take (stock.js:5:8)" in lines
    assert "console error: order failed desk-lamp 500" in lines
    assert "click failed (timeout): no" in lines


def test_an_event_that_nobody_knows_is_told_by_its_name() -> None:
    assert line_of("SomethingElse", {}) == "SomethingElse"
    assert lane_of("SomethingElse") == "other"
    assert phase_of("SomethingElse") is None
    assert phase_of("LoadingFailed") == "failed"


def test_a_line_has_no_line_ends_and_no_more_than_so_many_characters() -> None:
    assert one_line("a\n  b\tc", 10) == "a b c"
    assert one_line("abcdef", 4) == "abc…"

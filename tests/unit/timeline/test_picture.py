"""What is shown of a timeline, and the way back from a moment."""

from __future__ import annotations

import anyio
import pytest

from pilothouse.core.timeline.lanes import key_of, parse_key
from pilothouse.timeline.causes import causes_of
from pilothouse.timeline.picture import Picture, joined, moment_of, picture, relatives
from tests.support.moments import KEY, SHOP, Written, order_that_fails

WHOLE = ["step:4", "request:11.2", "packet:77", "server:0", "server:1", "console:6", "console:7"]


def around(written: Written, key: str, window: float = 2_000, limit: int = 60) -> Picture:
    moment = moment_of(written.timeline, parse_key(key), None)
    assert moment is not None
    whole = anyio.run(joined, written.timeline, None, moment.event.at, window)
    item = whole.find(key)
    assert item is not None
    return picture(whole, item, window, (), limit)


def keys(seen: Picture) -> list[str]:
    return [item.key for item in seen.items]


@pytest.mark.parametrize("key", [*WHOLE, "packet:78", "server:2"])
def test_the_same_chain_is_found_from_each_of_its_keys(key: str) -> None:
    written = Written()
    order_that_fails(written)
    assert keys(around(written, key, window=100)) == WHOLE


def test_what_led_to_it_is_shown_also_from_outside_of_the_window() -> None:
    written = Written()
    written.step(1, 0, 10)
    written.request("1.1", 5, f"{SHOP}/slow")
    written.request("1.2", 8, f"{SHOP}/other")
    written.response("1.1", 30_000, f"{SHOP}/slow", 500)
    written.response("1.2", 20, f"{SHOP}/other")
    written.console(30_005, "slow failed")
    assert keys(around(written, "console:4", window=50)) == ["step:1", "request:1.1", "console:4"]


def test_too_many_moments_leave_room_for_the_chain_and_the_errors_and_are_counted() -> None:
    written = Written()
    order_that_fails(written)
    for number in range(100):
        written.line(1_080 + number, f"chatter {number}")
    seen = around(written, "console:7", limit=9)
    assert keys(seen)[:7] == WHOLE
    assert len(seen.items) == 9
    assert seen.left_out["server"] == 98
    assert sum(seen.left_out.values()) == 100


def test_lanes_choose_what_is_shown_and_answers_of_calls_are_left_out_unless_asked_for() -> None:
    from pilothouse.core.timeline.events import ToolInvoked

    written = Written()
    order_that_fails(written)
    written.timeline.emit(ToolInvoked(at=1_100, tool="click", duration_ms=3))
    whole = anyio.run(joined, written.timeline, None, None, 0)
    assert "call:0" not in keys(picture(whole, None, 0, (), 60))
    assert "call:0" in keys(picture(whole, None, 0, ("other",), 60))
    assert "call:0" in keys(picture(whole, whole.find("call:0"), 0, (), 60))
    assert keys(picture(whole, None, 0, ("packets",), 60)) == ["packet:77"]


def test_without_a_key_the_newest_are_shown_and_offsets_are_from_the_last() -> None:
    written = Written()
    written.line(0, "ERROR long ago")
    for number in range(1, 10):
        written.line(number, f"line {number}")
    seen = picture(anyio.run(joined, written.timeline, None, None, 0), None, 0, (), 3)
    assert keys(seen) == ["server:7", "server:8", "server:9"]
    assert seen.at == 9
    assert seen.left_out == {"server": 7}


def test_an_empty_timeline_has_an_empty_picture() -> None:
    seen = picture(anyio.run(joined, Written().timeline, None, None, 0), None, 0, (), 60)
    assert seen.items == []


def test_a_plain_key_means_the_newest_tabs() -> None:
    written = Written()
    written.console(1, "old")
    written.console(2, "new", target="FFEE00111")
    moment = moment_of(written.timeline, parse_key("console:0"), None)
    older = moment_of(written.timeline, parse_key("console:AB12CD/0"), None)
    assert moment is not None
    assert older is not None
    assert (moment.source, older.source) == ("tab FFEE00", "tab AB12CD")
    assert moment_of(written.timeline, parse_key("console:9"), None) is None


# Causes


def causes(written: Written, key: str, depth: int = 8) -> tuple[list[str], list[str]]:
    whole = anyio.run(joined, written.timeline, None, None, 0)
    item = whole.find(key)
    assert item is not None
    chain = causes_of(item, whole.items, whole.links, depth)
    return [one.key for one in chain.items], [one.key for one in chain.near]


def test_an_error_goes_back_to_the_click_with_what_the_server_said() -> None:
    written = Written()
    order_that_fails(written)
    chain, near = causes(written, "console:7")
    assert chain == ["step:4", "request:11.2", "packet:77", "server:1", "console:7"]
    assert near == ["console:6"]


def test_a_line_of_the_log_goes_back_to_the_click() -> None:
    written = Written()
    order_that_fails(written)
    assert causes(written, "server:0")[0] == [
        "step:4", "request:11.2", "packet:77", "server:0", "server:1",
    ]  # fmt: skip


def test_depth_says_how_far_back() -> None:
    written = Written()
    order_that_fails(written, proxied=False)
    assert "step:4" not in causes(written, "console:7", depth=1)[0]
    assert "step:4" in causes(written, "console:7", depth=2)[0]


def test_what_nothing_led_to_stands_alone_and_the_rest_is_only_near() -> None:
    written = Written()
    written.line(100, "ERROR cache is cold", "stderr")
    written.line(200, "all is well")
    written.step(1, 300, 10)
    chain, near = causes(written, "step:1")
    assert chain == ["step:1"]
    assert near == ["server:0"]


def test_a_failed_wait_goes_back_through_the_failed_request_to_the_click() -> None:
    written = Written()
    order_that_fails(written)
    written.step(5, 1_100, 3_000, tool="waitForSelector", ok=False, looks=True)
    chain, _ = causes(written, "step:5")
    assert chain[0] == "step:4"
    assert chain[-1] == "step:5"
    assert "server:1" in chain


def test_a_cause_stands_before_its_effect_whatever_their_clocks_say() -> None:
    written = Written()
    order_that_fails(written)
    written.packet(77, 900, "/api/order", group=77, key=KEY)
    chain, _ = causes(written, "console:7")
    assert chain == ["step:4", "request:11.2", "packet:77", "server:1", "console:7"]


def test_what_the_server_said_stands_before_what_is_asked_about_also_if_it_was_read_later() -> None:
    written = Written()
    order_that_fails(written, late_ms=500)
    chain, _ = causes(written, "console:7")
    assert chain == ["step:4", "request:11.2", "packet:77", "server:1", "console:7"]


# What belongs to one moment


def belonging(written: Written, key: str) -> dict[str, tuple[bool, str]]:
    moment = moment_of(written.timeline, parse_key(key), None)
    assert moment is not None
    found = anyio.run(relatives, written.timeline, moment)
    return {str(key_of(one)): (relation.guess, relation.why) for one, _, relation in found}


def test_an_error_in_the_console_is_related_to_the_click_by_a_guess_that_says_why() -> None:
    written = Written()
    order_that_fails(written)
    found = belonging(written, "console:7")
    guess, why = found["step:0f3a21/4"]
    assert guess
    assert "step" in why
    assert found["request:11.2"] == (True, "it failed 10 ms before")
    assert "packet:77" in found
    assert "console:AB12CD/7" not in found


def test_what_two_carry_the_same_id_of_is_no_guess() -> None:
    written = Written()
    order_that_fails(written)
    assert belonging(written, "request:11.2")["packet:77"][0] is False


def test_a_step_that_took_long_is_related_to_what_it_did_first() -> None:
    written = Written()
    written.step(1, 0, 40_000)
    written.exchange("1.1", 10, 5, "/begun")
    assert "request:1.1" in belonging(written, "step:1")


def test_what_stands_alone_is_related_to_nothing() -> None:
    written = Written()
    written.line(100, "all is well")
    assert belonging(written, "server:0") == {}

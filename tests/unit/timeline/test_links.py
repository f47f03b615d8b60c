"""What led to what: certain where both carry an id, else a guess that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pilothouse.core.timeline.attribution import ids_in
from pilothouse.core.timeline.lanes import counted_by_several
from pilothouse.timeline.items import items_of
from pilothouse.timeline.links import links_of
from tests.support.moments import KEY, SHOP, TARGET, Written, order_that_fails

if TYPE_CHECKING:
    from pilothouse.timeline.model import ItemLink, TimelineItem

POPUP = "CC77DD000"


def items(written: Written) -> dict[str, TimelineItem]:
    several = counted_by_several(written.timeline)
    return {item.key: item for item in items_of(written.timeline, several)}


def links(written: Written) -> dict[tuple[str, str], ItemLink]:
    found = links_of(list(items(written).values()))
    return {(link.cause, link.effect): link for link in found}


# Items


def test_an_exchange_is_one_item_with_its_outcome_and_its_length() -> None:
    written = Written()
    order_that_fails(written)
    order = items(written)["request:11.2"]
    assert order.text == f"POST {SHOP}/api/order → 500 in 51 ms"
    assert (order.at, order.answered, order.ended) == (1_010, 1_060, 1_061)
    assert order.level == "error"
    assert order.failed


def test_a_line_is_told_with_its_place_in_the_sources_where_it_is_known() -> None:
    written = Written()
    served = {"url": f"{SHOP}/a.min.js", "line": 1, "column": 90}
    written.console(5, "plain", stack=served)
    written.console(6, "mapped", stack={**served, "original": {"source": "a.js", "line": 11}})
    told = [item.text for item in items(written).values()]
    assert told == [f"console error: plain ({SHOP}/a.min.js:1)", "console error: mapped (a.js:11)"]


def test_what_has_no_answer_yet_goes_on() -> None:
    written = Written()
    written.request("1.1", 5, f"{SHOP}/slow")
    written.request("1.2", 5, f"{SHOP}/gone")
    written.failed("1.2", 9)
    written.request("1.3", 5, f"{SHOP}/left")
    written.failed("1.3", 9, "net::ERR_ABORTED", canceled=True)
    found = items(written)
    assert found["request:1.1"].text.endswith("→ no answer yet")
    assert found["request:1.2"].text.endswith("→ net::ERR_FAILED in 4 ms")
    assert found["request:1.2"].failed
    assert found["request:1.3"].text.endswith("→ cancelled in 4 ms")
    assert not found["request:1.3"].failed


def test_what_has_no_answer_when_its_tab_is_closed_gets_none() -> None:
    written = Written()
    written.request("1.1", 5, f"{SHOP}/slow")
    written.exchange("1.2", 5, 3, "/quick")
    written.request("2.1", 5, f"{SHOP}/slow", target="FF00EE111")
    written.see(50, kind="other", type="detached", reason="the session has ended")
    found = items(written)
    assert found["request:1.1"].text.endswith("→ no answer before its tab was closed")
    assert found["request:1.1"].ended == 50
    assert found["request:1.2"].text.endswith("→ 200 in 4 ms")
    assert found["request:2.1"].text.endswith("→ no answer yet")


def test_an_answer_whose_body_nobody_reads_ends_with_its_head() -> None:
    written = Written()
    written.request("1.1", 5, f"{SHOP}/a")
    written.response("1.1", 9, f"{SHOP}/a")
    written.request("1.2", 5, f"{SHOP}/stream", resourceType="EventSource")
    written.response("1.2", 9, f"{SHOP}/stream", resourceType="EventSource")
    found = items(written)
    assert found["request:1.1"].ended == 9
    assert found["request:1.2"].ended == float("inf")


def test_a_websocket_is_one_item_that_counts_its_frames() -> None:
    written = Written()
    socket = {"kind": "websocket", "requestId": "9.1", "url": "ws://localhost:3000/live"}
    written.see(1, **socket, event="created")
    for at in range(2, 6):
        written.see(at, **socket, event="frame", direction="sent" if at == 2 else "recv")
    found = items(written)["request:9.1"]
    assert found.text == "WebSocket ws://localhost:3000/live: 1 sent, 3 received, open"
    written.see(9, **socket, event="closed")
    assert items(written)["request:9.1"].ended == 9


def test_both_packets_of_an_exchange_are_one_item_that_either_key_finds() -> None:
    written = Written()
    order_that_fails(written)
    packet = items(written)["packet:77"]
    assert packet.aliases == ["packet:77", "packet:78"]
    assert packet.text == "packet 77 POST localhost:3000/api/order → 500"


def test_a_stack_trace_is_one_item() -> None:
    written = Written()
    written.line(1, "Traceback (most recent call last):", "stderr")
    written.line(1, '  File "app.py", line 3, in buy', "stderr")
    written.line(2, "RuntimeError: sold out", "stderr")
    written.line(2, "GET / 200", "stderr")
    written.line(2, "  a line of the other stream")
    found = items(written)
    assert [*found] == ["server:0", "server:3", "server:4"]
    trace = found["server:0"]
    assert trace.text == (
        "server stderr: Traceback (most recent call last): … RuntimeError: sold out (3 lines)"
    )
    assert trace.level == "error"
    assert "server:2" in trace.aliases


def test_a_line_that_begins_with_a_space_much_later_stands_alone() -> None:
    written = Written()
    written.line(1, "first")
    written.line(5_000, "  second")
    assert [*items(written)] == ["server:0", "server:1"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("no id at all here", set()),
        (f"id={KEY} ok", {KEY}),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", {"b7ad6b7169203331"}),
        ("1234567", set()),
    ],
)
def test_ids_are_found_among_other_words(text: str, ids: set[str]) -> None:
    assert ids <= ids_in(text)
    assert bool(ids) == bool(ids_in(text))


# Links


def test_the_whole_way_from_a_click_to_the_console_is_found() -> None:
    written = Written()
    order_that_fails(written)
    found = links(written)
    assert found["step:4", "request:11.2"].is_guess
    assert found["request:11.2", "packet:77"].how == "id"
    assert found["packet:77", "server:0"].how == "id"
    assert found["packet:77", "server:1"].how == "id"
    assert found["request:11.2", "console:6"].how == "id"
    assert found["request:11.2", "console:7"].is_guess
    assert ("step:3", "request:11.1") in found
    assert ("step:3", "request:11.2") not in found


def test_without_ids_every_link_is_a_guess_and_says_why() -> None:
    written = Written()
    order_that_fails(written, proxied=False)
    found = links(written)
    by_path, by_trouble = found["request:11.2", "server:0"], found["request:11.2", "server:1"]
    assert by_path.is_guess
    assert by_path.why == "the line names its path, while it was under way"
    assert by_trouble.is_guess
    assert by_trouble.why == "an error was written while it was under way, and it failed"
    assert found["request:11.2", "console:7"].why == "it failed 10 ms before"


@pytest.mark.parametrize("header", ["X-Request-Id", "traceparent", "x-correlation-id"])
def test_an_id_header_of_the_app_itself_is_certain(header: str) -> None:
    written = Written()
    written.exchange("1.1", 10, 20, "/a", headers={header: "req-81f3a2b7c9"})
    written.exchange("1.2", 10, 20, "/a", headers={header: "req-99f3a2b7c9"})
    written.line(5_000, "done 99f3a2b7c9")
    (link,) = [one for (_, effect), one in links(written).items() if effect == "server:0"]
    assert (link.cause, link.how) == ("request:1.2", "id")


def test_an_id_that_several_requests_carry_is_a_guess() -> None:
    written = Written()
    for number in (1, 2):
        written.exchange(
            f"1.{number}", number * 100, 20, "/a", headers={"x-trace-id": "same12345678"}
        )
    written.line(205, "same12345678 handled")
    link = links(written)["request:1.2", "server:0"]
    assert link.is_guess
    assert "2 requests" in link.why


@pytest.mark.parametrize(
    ("line", "is_named"),
    [
        ('127.0.0.1 - "GET /api HTTP/1.1" 200', True),
        ("GET http://localhost:3000/api?q=1", True),
        ("GET /api/cart 200", False),
        ("GET /apis 200", False),
        ("nothing", False),
    ],
)
def test_a_path_is_named_as_a_whole(line: str, is_named: bool) -> None:
    written = Written()
    written.exchange("1.1", 10, 20, "/api")
    written.line(20, line)
    assert (("request:1.1", "server:0") in links(written)) is is_named


def test_a_line_long_after_the_request_is_not_its_own() -> None:
    written = Written()
    written.exchange("1.1", 10, 20, "/api")
    written.line(3_000, "GET /api 200")
    assert links(written) == {}


def test_a_packet_without_an_id_is_joined_by_its_address_once() -> None:
    written = Written()
    written.request("1.1", 100, f"{SHOP}/api/order", "POST")
    written.request("1.2", 110, f"{SHOP}/api/order", "POST")
    written.packet(5, 102, "/api/order", group=5)
    written.packet(6, 9_000, "/api/order", group=6)
    found = links(written)
    assert [*found] == [("request:1.1", "packet:5")]
    assert found["request:1.1", "packet:5"].is_guess


def test_a_step_that_looks_has_caused_nothing() -> None:
    written = Written()
    written.step(1, 0, 10)
    written.step(2, 20, 5_000, tool="waitForSelector", looks=True)
    written.request("1.1", 500, f"{SHOP}/soon")
    written.request("1.2", 4_000, f"{SHOP}/late")
    found = links(written)
    assert ("step:1", "request:1.1") in found
    assert found["step:1", "request:1.1"].why == "began 490 ms after the step, in its tab"
    assert not any(effect == "request:1.2" for _, effect in found)


def test_requests_of_another_tab_are_not_the_steps_own_unless_it_is_a_popup() -> None:
    written = Written()
    written.step(1, 0, 100)
    written.step(2, 0, 1, target_id=POPUP, tab_id="t2")
    written.request("1.1", 50, f"{SHOP}/other", target=POPUP)
    written.request("1.2", 50, f"{SHOP}/popup", target="EE0000111")
    found = links(written)
    assert ("step:1", "request:1.1") not in found
    assert found["step:1", "request:1.2"].why.endswith("in another tab")


def test_two_sessions_logs_are_kept_apart() -> None:
    written = Written()
    written.step(1, 0, 100)
    written.exchange("1.1", 10, 20, "/api")
    written.line(20, "GET /api 200", session_id="another")
    assert not any(effect == "server:0" for _, effect in links(written))


def test_a_wait_in_vain_goes_back_to_what_went_wrong() -> None:
    written = Written()
    order_that_fails(written)
    written.step(5, 1_100, 3_000, tool="waitForSelector", ok=False, looks=True)
    found = links(written)
    assert ("request:11.2", "step:5") in found
    assert ("console:7", "step:5") in found
    assert ("request:11.1", "step:5") not in found


def test_a_click_that_failed_is_not_blamed_on_its_own_requests() -> None:
    written = Written()
    written.step(1, 0, 100, ok=False)
    written.exchange("1.1", 50, 10, "/api", status=500)
    assert [*links(written)] == [("step:1", "request:1.1")]


def test_links_of_a_busy_minute_are_found_soon() -> None:
    """A guard against a square of all lines and all requests, not a measurement."""
    written = Written()
    for number in range(2_000):
        written.exchange(f"1.{number}", number * 30.0, 20, f"/api/{number}")
        written.line(number * 30.0 + 5, f"GET /api/{number} 200")
    found = links(written)
    assert len(found) == 2_000
    assert TARGET.startswith(items(written)["request:1.0"].tab)


def test_an_error_after_a_good_answer_is_guessed_to_be_of_it_unless_the_page_was_used_since() -> (
    None
):
    written = Written()
    written.step(1, 0, 20)
    written.exchange("1.1", 10, 40, "/api/cart")
    at = written.console(100, "cannot read the cart")
    assert ("request:1.1", f"console:{at}") in links(written)
    written.step(2, 120, 30)
    other = written.console(130, "said by the second click")
    found = links(written)
    assert found["step:2", f"console:{other}"].is_guess
    assert ("request:1.1", f"console:{other}") not in found


def test_a_request_that_failed_before_the_last_step_is_blamed_only_by_a_line_that_names_it() -> (
    None
):
    written = Written()
    written.step(1, 0, 20)
    written.exchange("1.1", 10, 40, "/favicon.ico", status=404)
    written.step(2, 100, 30)
    other = written.console(130, "boom")
    named = written.console(140, "/favicon.ico is missing")
    found = links(written)
    assert ("step:2", f"console:{other}") in found
    assert ("request:1.1", f"console:{other}") not in found
    assert ("request:1.1", f"console:{named}") in found

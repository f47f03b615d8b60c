"""Tools that read what was recorded: pages, single exchanges, logs and exports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.intercept.tools.export import MOST_BODY_BYTES
from tests.support.intercepting import Tap
from tests.support.until import wait_until

if TYPE_CHECKING:
    from tests.support.intercepting import App

SECRET = "hunter22hunter22"


@pytest.fixture(scope="module", autouse=True)
def recorded(tap: Tap, shop: App) -> list[int]:
    """The request packets of three exchanges, the second of which fails."""
    for path in ("/one", "/two?status=500", "/three"):
        tap.get(f"{shop.url}{path}", headers={"Authorization": f"Bearer {SECRET}"})
    wait_until(lambda: len(tap.packets("status > 0")) == 6)
    return [packet["id"] for packet in tap.packets()][::2]


# Pages


def test_an_order_is_read_whatever_its_spelling(tap: Tap) -> None:
    page = tap.call("get_history", limit=2, order="Time  DESC")
    times = [packet["time"] for packet in page["packets"]]
    assert times == sorted(times, reverse=True)
    assert (page["order_applied"], page["filter_applied"]) == ("time desc", "")
    assert (page["total_count"], page["has_more"]) == (6, True)


def test_a_page_goes_on_where_the_one_before_ended(tap: Tap) -> None:
    first = tap.call("get_history", limit=4)
    rest = tap.call("get_history", limit=4, cursor=first["next_cursor"])
    ids = [packet["id"] for page in (first, rest) for packet in page["packets"]]
    assert ids == sorted(ids, reverse=True)
    assert (len(ids), rest["has_more"]) == (6, False)


def test_fields_are_those_that_were_asked_for(tap: Tap) -> None:
    (packet,) = tap.packets("url == /one", fields=["id", "direction", "type"], limit=1)
    assert list(packet) == ["id", "direction", "type"]


def test_nothing_is_beyond_the_end(tap: Tap) -> None:
    page = tap.call("get_history", offset=10**40)
    assert (page["packets"], page["total_count"], page["has_more"]) == ([], 6, False)


def test_null_is_as_good_as_nothing_where_nothing_is_the_default(tap: Tap) -> None:
    assert tap.call("get_history", filter=None, fields=None, cursor=None)["total_count"] == 6


def test_a_costly_filter_is_carried_out_with_a_warning(tap: Tap) -> None:
    page = tap.call("get_history", filter="full_text =~ o.e")
    assert page["packets"]
    assert page["warning"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"filter": "what"}, -32002),
        ({"cursor": "c1"}, -32602),
        ({"fields": ["body"]}, -32602),
        ({"order": "size desc"}, -32602),
    ],
    ids=repr,
)
def test_what_a_page_cannot_be_is_said(tap: Tap, args: dict[str, Any], code: int) -> None:
    fault = tap.fault("get_history", **args)
    assert fault["code"] == code
    assert fault["data"]["hint"]


def test_a_bad_filter_tells_where(tap: Tap) -> None:
    assert tap.fault("get_history", filter="what")["data"]["position"] == 4


# One exchange


def test_bodies_are_shown_only_when_asked_for_and_in_ranges(tap: Tap, recorded: list[int]) -> None:
    plain = tap.call("get_packet_detail", packet_id=recorded[0])
    assert "body" not in plain
    whole = tap.call("get_packet_detail", packet_id=recorded[0], include_body=True)
    length = len(whole["body"]["response"])
    part = tap.call(
        "get_packet_detail",
        packet_id=recorded[0],
        include_body=True,
        response_offset=length - 5,
        max_bytes=64,
    )
    assert part["body"]["response"] == whole["body"]["response"][-5:]
    assert part["truncated"]["response"] == {"offset": length - 5, "total": length}


@pytest.mark.parametrize("packet_id", [999_999, 0, -5, 2**63])
def test_a_packet_that_is_not_there_is_not_found(tap: Tap, packet_id: int) -> None:
    fault = tap.fault("get_packet_detail", packet_id=packet_id)
    assert fault["code"] == -32003
    assert "get_history" in fault["data"]["hint"]


# Exports


def entries(har: dict[str, Any]) -> list[int]:
    return [entry["_packetId"] for entry in har["har"]["log"]["entries"]]


def test_each_exchange_is_in_a_har_once(tap: Tap, recorded: list[int]) -> None:
    har = tap.call("export_har")
    assert entries(har) == recorded
    assert (har["entries"], har["has_more"]) == (3, False)
    assert entries(tap.call("export_har", filter="status == 500")) == [recorded[1]]
    both = [recorded[0], recorded[0] + 1, recorded[2]]
    assert entries(tap.call("export_har", packet_ids=both)) == [recorded[0], recorded[2]]


def test_a_limit_takes_the_newest_and_says_that_there_are_more(
    tap: Tap, recorded: list[int]
) -> None:
    har = tap.call("export_har", limit=2)
    assert (entries(har), har["has_more"]) == ([recorded[2]], True)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"packet_ids": [1], "filter": "status == 500"}, -32602),
        ({"packet_ids": [999_999]}, -32003),
        ({"filter": "what"}, -32002),
    ],
    ids=repr,
)
def test_what_cannot_be_exported_is_said(tap: Tap, args: dict[str, Any], code: int) -> None:
    assert tap.fault("export_har", **args)["code"] == code


def test_no_export_shows_a_secret(tap: Tap, recorded: list[int]) -> None:
    shown = [
        tap.ask("export_har"),
        tap.ask("export_curl", packet_id=recorded[0]),
        tap.ask("diff_packets", a=recorded[0], b=recorded[1]),
    ]
    assert not any(one["isError"] for one in shown)
    assert SECRET not in json.dumps(shown)
    assert tap.packets(f"full_text =~ {SECRET}")  # it was there


def test_a_request_is_shown_as_a_command(tap: Tap, shop: App, recorded: list[int]) -> None:
    for packet_id in (recorded[0], recorded[0] + 1):
        command = tap.call("export_curl", packet_id=packet_id)["command"]
        assert command.startswith("curl ")
        assert f"{shop.url}/one" in command


def test_two_exchanges_are_compared(tap: Tap, recorded: list[int]) -> None:
    same = tap.call("diff_packets", a=recorded[0], b=recorded[0] + 1)
    assert same["identical"] is True
    other = tap.call("diff_packets", a=recorded[0], b=recorded[2])
    assert other["identical"] is False
    changes = other["response"]["body"]["changes"]
    assert {"path": "$.path", "a": '"/one"', "b": '"/three"'} in changes


def test_bodies_have_no_room_in_a_har_before_entries_have_none(shop: App) -> None:
    body = b"x" * 1_000_000
    with Tap() as tap:  # of its own: the history gets larger
        tap.listen()
        for number in range(MOST_BODY_BYTES // len(body) + 1):
            tap.get(f"{shop.url}/large?{number}", method="POST", content=body)
        wait_until(lambda: len(tap.packets("url =~ ^/large && status == 200")) == 10)
        packets = [packet["id"] for packet in tap.packets("url =~ ^/large")]
        har = tap.call("export_har", packet_ids=packets)
        small = tap.call("export_har", packet_ids=packets, max_body_bytes=0)
    assert (har["entries"], entries(har)) == (5, packets[::2])
    assert har["left_out"] == packets[: len(har["left_out"])]
    oldest, newest = har["har"]["log"]["entries"][:: len(packets) // 2 - 1]
    for shown in (oldest["request"]["postData"], oldest["response"]["content"]):
        assert (shown.get("text", ""), shown["comment"][:8]) == ("", "left out")
    assert oldest["request"]["bodySize"] == len(body)
    assert newest["request"]["postData"]["text"] == body.decode()
    assert (small["entries"], small["left_out"]) == (5, packets)

"""Exports: which exchanges are in them, and that no secret is."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.faults import InvalidInput
from pilothouse.core.fence import visible_json
from pilothouse.intercept.export_tools import (
    MOST_BODY_BYTES,
    diff_packets,
    export_curl,
    export_har,
)
from pilothouse.intercept.model import BadFilter, PacketNotFound
from tests.support.fake_interceptor import FakeInterceptor, call, exchange

pytestmark = pytest.mark.anyio


def recorded(**changes: Any) -> FakeInterceptor:
    """Three exchanges of two packets each."""
    details = {}
    for group in (1, 3, 5):
        for packet_id in (group, group + 1):
            details[packet_id] = exchange(packet_id, group=group, **changes)
    return FakeInterceptor(details=details)


def ids(shown: dict[str, Any]) -> list[int]:
    return [entry["_packetId"] for entry in shown["har"]["log"]["entries"]]


async def test_each_exchange_is_in_the_har_once() -> None:
    shown = await call(export_har, recorded(), filter="method == GET")
    assert sorted(ids(shown)) == [1, 3, 5]
    assert (shown["entries"], shown["has_more"]) == (3, False)
    assert shown["har"]["log"]["version"] == "1.2"


async def test_a_limit_takes_the_newest_and_says_that_there_are_more() -> None:
    shown = await call(export_har, recorded(), limit=2)
    assert ids(shown) == [5]
    assert shown["has_more"] is True


async def test_packets_can_be_named() -> None:
    shown = await call(export_har, recorded(), packet_ids=[4, 3, 1])
    assert sorted(ids(shown)) == [1, 3]


async def test_what_has_no_room_is_named() -> None:
    fake = recorded(response_body=b"x" * (MOST_BODY_BYTES // 2), content_type="text/plain")
    shown = await call(export_har, fake, packet_ids=[1, 3, 5])
    assert sorted(ids(shown)) == [3, 5]
    assert shown["left_out"] == [1]


async def test_one_exchange_is_exported_however_large() -> None:
    fake = recorded(response_body=b"x" * (MOST_BODY_BYTES + 1), content_type="text/plain")
    shown = await call(export_har, fake, packet_ids=[1])
    assert shown["entries"] == 1


async def test_packets_and_a_filter_together_are_refused() -> None:
    with pytest.raises(InvalidInput):
        await call(export_har, recorded(), packet_ids=[1], filter="method == GET")


@pytest.mark.parametrize(
    ("args", "fault"),
    [({"packet_ids": [99]}, PacketNotFound), ({"filter": "what"}, BadFilter)],
)
async def test_what_cannot_be_found_is_said(args: dict[str, Any], fault: type[Exception]) -> None:
    with pytest.raises(fault):
        await call(export_har, recorded(), **args)


async def test_no_export_shows_a_secret() -> None:
    fake = recorded(request_body=b'{"password": "hunter22"}', url="/login?token=hunter22")
    shown = [
        await call(export_har, fake),
        await call(export_curl, fake, packet_id=1),
        await call(diff_packets, fake, a=1, b=3),
    ]
    assert "hunter22" not in visible_json(shown)
    assert "abcdef" not in visible_json(shown)


async def test_a_request_is_shown_as_a_command() -> None:
    shown = await call(export_curl, recorded(), packet_id=2)
    assert shown["command"].startswith("curl ")
    assert "api.example.com" in shown["command"]


async def test_two_packets_are_compared() -> None:
    fake = recorded()
    fake.details[3] = exchange(3, response_body=b'{"a": 1}')
    assert (await call(diff_packets, fake, a=1, b=5))["identical"] is True
    shown = await call(diff_packets, fake, a=1, b=3)
    assert shown["identical"] is False
    assert (shown["a"], shown["b"]) == (1, 3)
    assert shown["response"]["body"]["changes"] == [{"path": "$.a", "b": "1"}]

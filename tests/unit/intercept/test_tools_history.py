"""Tools that read the history: what they ask for and what they show of the answer."""

from __future__ import annotations

import pytest

from pilothouse.core.faults import InvalidInput
from pilothouse.intercept.asking import BadCursor
from pilothouse.intercept.history_tools import (
    filter_explain,
    get_history,
    get_logs,
    get_packet_detail,
)
from pilothouse.intercept.model import BadFilter, PacketNotFound
from pilothouse.intercept.ports import HistoryAsk, HistoryPage, LogAsk
from tests.support.fake_interceptor import FakeInterceptor, call, exchange, row

pytestmark = pytest.mark.anyio


def recorded(count: int) -> FakeInterceptor:
    return FakeInterceptor(details={n: exchange(n) for n in range(1, count + 1)})


# get_history


async def test_a_page_says_how_many_there_are_and_what_was_applied() -> None:
    shown = await call(
        get_history, recorded(3), limit=2, filter="method == GET", order="Time  DESC"
    )
    assert [packet["id"] for packet in shown.pop("packets")] == [3, 2]
    assert shown == {
        "total_count": 3,
        "has_more": True,
        "filter_applied": "method == GET",
        "order_applied": "time desc",
    }


async def test_without_arguments_the_newest_100_of_this_session_are_asked_for() -> None:
    fake = recorded(1)
    shown = await call(get_history, fake)
    assert fake.asked == [("history", HistoryAsk(session="s1"))]
    assert (shown["filter_applied"], shown["order_applied"]) == ("", "id desc")


async def test_all_sessions_are_shown_when_asked_for() -> None:
    fake = recorded(1)
    await call(get_history, fake, all_sessions=True)
    ((_, ask),) = fake.asked
    assert ask.session is None


async def test_what_is_out_of_the_ordinary_is_said() -> None:
    fake = FakeInterceptor(
        page=HistoryPage(
            rows=[row(1, status=None)],
            total_count=7,
            total_is_exact=False,
            has_more=True,
            complete=False,
            next_cursor="c2",
            warning="scans every body",
        )
    )
    shown = await call(get_history, fake, filter="full_text =~ x+")
    assert shown["total_is_exact"] is False
    assert shown["complete"] is False
    assert shown["next_cursor"] == "c2"
    assert shown["warning"] == "scans every body"
    assert shown["packets"][0]["status"] is None


@pytest.mark.parametrize("limit", [0, -1, 1_001, "many", 1.5, None])
async def test_a_limit_out_of_range_is_refused_with_the_range(limit: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        await call(get_history, recorded(1), limit=limit)
    assert refused.value.details["expected"] == "integer, 1 to 1000"


async def test_an_offset_beyond_any_history_is_an_empty_page() -> None:
    shown = await call(get_history, recorded(2), offset=10**40)
    assert (shown["packets"], shown["total_count"], shown["has_more"]) == ([], 2, False)


async def test_a_bad_filter_goes_through_with_its_position() -> None:
    with pytest.raises(BadFilter) as refused:
        await call(get_history, recorded(1), filter="what")
    assert refused.value.number == -32002
    assert refused.value.details["position"] == 4


async def test_a_cursor_of_another_question_is_refused_apart_from_other_bad_input() -> None:
    with pytest.raises(BadCursor) as refused:
        await call(get_history, recorded(1), cursor="c1")
    assert (refused.value.number, refused.value.status) == (-32602, 409)
    with pytest.raises(InvalidInput) as other:
        await call(get_history, recorded(1), order="size desc")
    assert type(other.value) is InvalidInput


async def test_a_bad_field_is_refused_before_the_history_is_asked() -> None:
    fake = recorded(1)
    with pytest.raises(InvalidInput):
        await call(get_history, fake, fields=["body"])
    assert fake.asked == []


async def test_null_is_as_good_as_nothing_where_nothing_is_the_default() -> None:
    shown = await call(get_history, recorded(1), filter=None, fields=None, cursor=None)
    assert shown["total_count"] == 1


# get_packet_detail


async def test_the_detail_of_a_packet_has_no_bodies_by_default() -> None:
    shown = await call(get_packet_detail, recorded(1), packet_id=1)
    assert shown["id"] == 1
    assert "body" not in shown
    assert "error" not in shown


async def test_bodies_come_in_ranges() -> None:
    fake = FakeInterceptor(details={1: exchange(1, b"", b"x" * 100, "text/plain")})
    shown = await call(
        get_packet_detail, fake, packet_id=1, include_body=True, response_offset=64, max_bytes=64
    )
    assert shown["body"] == {"request": "", "response": "x" * 36}
    assert shown["truncated"] == {"response": {"offset": 64, "total": 100}}


async def test_an_exchange_without_a_response_has_no_status() -> None:
    fake = FakeInterceptor(details={1: exchange(1, status=None, duration_ms=None)})
    shown = await call(get_packet_detail, fake, packet_id=1)
    assert "status" not in shown
    assert shown["timing"] == {"timestamp": "2025-01-15T10:30:00.001Z"}


@pytest.mark.parametrize("packet_id", [999_999, 0, -5, 2**63])
async def test_a_packet_that_is_not_there_is_not_found(packet_id: int) -> None:
    with pytest.raises(PacketNotFound) as refused:
        await call(get_packet_detail, recorded(1), packet_id=packet_id)
    assert refused.value.number == -32003
    assert "get_history" in refused.value.hint


# filter_explain, get_logs


async def test_a_filter_is_explained() -> None:
    shown = await call(filter_explain, recorded(1), filter="method == GET")
    assert shown == {
        "filter": "method == GET",
        "parsed": ["==", "method", "GET"],
        "plan": "index",
    }


async def test_logs_are_masked() -> None:
    entry = {
        "timestamp": "2025-01-15T10:30:00Z",
        "level": "info",
        "message": "sent Authorization: Bearer abcdef0123456789",
        "thread": "main",
        "class": "audit",
    }
    fake = FakeInterceptor(entries=[entry, entry])
    shown = await call(get_logs, fake, limit=1, since="2025-01-15T00:00:00Z", filter="a|b")
    assert fake.asked == [("logs", LogAsk(limit=1, since="2025-01-15T00:00:00Z", filter="a|b"))]
    assert (shown["total_count"], shown["has_more"]) == (2, True)
    (logged,) = shown["logs"]
    assert "abcdef0123456789" not in logged["message"]
    assert {**logged, "message": ""} == {**entry, "message": ""}


async def test_a_level_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidInput) as refused:
        await call(get_logs, FakeInterceptor(), level="fatal")
    assert refused.value.details["expected"] == "one of debug, info, warn, error"

"""Each packet is told once, whatever the batches."""

from __future__ import annotations

from pilothouse.intercept.engine.announce import Announcer
from pilothouse.intercept.model import Exchange, WireMessage


def exchange() -> Exchange:
    return Exchange(
        connection="c", method="GET", url="/", request=WireMessage(time=1), request_id=1
    )


def ids(rows: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(row["id"], row["group"]) for row in rows]


def answered(one: Exchange) -> Exchange:
    one.response, one.response_id, one.status = WireMessage(time=2), 2, 200
    return one


def test_both_packets_of_one_batch_are_told() -> None:
    rows = Announcer().rows([answered(exchange())])
    assert ids(rows) == [(1, 1), (2, 1)]
    assert [row["status"] for row in rows] == [200, 200]


def test_response_that_comes_later_is_told_alone() -> None:
    announcer, one = Announcer(), exchange()
    assert ids(announcer.rows([one])) == [(1, 1)]
    assert ids(announcer.rows([answered(one)])) == [(2, 1)]


def test_exchange_that_ended_in_an_error_is_not_told_again() -> None:
    announcer, one = Announcer(), exchange()
    announcer.rows([one])
    one.error = "connection refused"
    assert announcer.rows([one]) == []


def test_stream_that_goes_on_is_told_once_however_often_it_is_written() -> None:
    announcer, one = Announcer(), answered(exchange())
    event = Exchange(connection="c", kind="SSE", response=WireMessage(time=3), response_id=3)
    assert ids(announcer.rows([one, event])) == [(1, 1), (2, 1), (3, 3)]
    one.duration_ms = 5.0
    assert announcer.rows([one]) == []


def test_message_of_a_server_is_its_own_group() -> None:
    one = Exchange(connection="c", kind="WebSocket", response=WireMessage(time=3), response_id=9)
    assert ids(Announcer().rows([one])) == [(9, 9)]

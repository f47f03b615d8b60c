"""Ids, groups and peers are handed out in the order of the posts."""

from __future__ import annotations

from typing import Any

from pilothouse.intercept.history.rows import (
    AT_ONCE,
    PACKETS,
    REQUEST,
    RESPONSE,
    UPDATED,
    PostedExchange,
    WriteBatch,
    inserting,
    planned,
    storable,
    updating,
)
from pilothouse.intercept.model import Exchange, WireMessage


def exchange(*, request_id: int = 0, response_id: int = 0) -> Exchange:
    return Exchange(
        connection="c",
        request=WireMessage(time=1.0, length=10),
        response=WireMessage(time=2.0, length=20, modified=True),
        status=200,
        request_id=request_id,
        response_id=response_id,
    )


def posted(*calls: tuple[Exchange, int]) -> list[PostedExchange]:
    return [PostedExchange(number, one, sides, 0) for number, (one, sides) in enumerate(calls, 1)]


def columns(batch: WriteBatch, *names: str) -> list[tuple[Any, ...]]:
    places = [PACKETS.index(name) for name in names]
    return [tuple(row[place] for place in places) for row in batch.packets]


def test_ids_follow_the_posts_and_peers_are_known_at_once() -> None:
    one, two = exchange(), exchange()
    both = REQUEST | RESPONSE
    batch = planned(posted((one, REQUEST), (two, REQUEST), (one, both), (two, both)), 100, 0)
    assert columns(batch, "id", "group_id", "is_response", "peer_id", "peer_length") == [
        (101, 101, False, 103, 20),
        (103, 101, True, 101, 10),
        (102, 102, False, 104, 20),
        (104, 102, True, 102, 10),
    ]
    assert batch.updates == []
    assert batch.last_id == 104


def test_a_side_that_was_not_posted_yet_is_no_row() -> None:
    batch = planned(posted((exchange(), REQUEST)), 0, 0)
    assert columns(batch, "id", "peer_id", "peer_time") == [(1, None, None)]


def test_a_row_that_is_there_learns_of_its_peer() -> None:
    batch = planned(posted((exchange(request_id=7), REQUEST | RESPONSE)), 50, 0)
    assert columns(batch, "id", "group_id", "peer_id") == [(51, 7, 7)]
    ((packet_id, *values),) = batch.updates
    assert packet_id == 7
    learned = dict(zip(UPDATED, values, strict=True))
    assert (learned["status"], learned["peer_id"], learned["peer_modified"]) == (200, 51, True)


def test_an_exchange_that_was_evicted_begins_anew() -> None:
    batch = planned(posted((exchange(request_id=7), REQUEST | RESPONSE)), 50, 7)
    assert columns(batch, "id", "group_id", "peer_id") == [(51, 51, 52), (52, 51, 51)]
    assert batch.updates == []


def test_an_exchange_across_the_border_was_not_evicted() -> None:
    kept = exchange(request_id=7, response_id=9)
    batch = planned(posted((kept, REQUEST | RESPONSE)), 50, 8)
    assert batch.packets == []
    assert [row[0] for row in batch.updates] == [7, 9]


def test_rows_are_written_by_few_statements() -> None:
    rows = [(number, number) for number in range(AT_ONCE * 2 + 3)]
    made = list(inserting("t", ["a", "b"], rows))
    assert [len(values) // 2 for _, values in made] == [AT_ONCE, AT_ONCE, 3]
    assert [sql.count("(?,?)") for sql, _ in made] == [AT_ONCE, AT_ONCE, 3]
    assert [value for _, values in made for value in values[::2]] == [row[0] for row in rows]
    assert list(updating([])) == []


def test_what_a_database_does_not_take_is_made_fit() -> None:
    assert storable(("a\udcffb", 1 << 80, -(1 << 80), b"\xff", None, 1.5)) == (
        "a?b", (1 << 63) - 1, -(1 << 63) + 1, b"\xff", None, 1.5,
    )  # fmt: skip

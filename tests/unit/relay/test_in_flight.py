"""What a relay reads of the lines that pass it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.hub.notices import LOST
from pilothouse.relay.in_flight import Flight, WorkerLine, what_is, with_notice


def request(id: str | int, method: str = "tools/call", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def cancel(id: str | int) -> dict[str, Any]:
    params = {"requestId": id}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"id":8}}', WorkerLine(7, is_answer=True)),
        (b'{"jsonrpc":"2.0","id":"a\\"b","error":{}}', WorkerLine('a"b', is_answer=True)),
        (b'{"jsonrpc":"2.0","id":3,"method":"roots/list"}', WorkerLine(3, is_answer=False)),
        (b'{"jsonrpc":"2.0","method":"notifications/progress"}', WorkerLine(None, is_answer=False)),
        (b'{"result": {}, "id": 7, "jsonrpc": "2.0"}', WorkerLine(7, is_answer=True)),
        (b'{"method": "ping", "id": 7, "jsonrpc": "2.0"}', WorkerLine(7, is_answer=False)),
        (b'{"jsonrpc":"2.0","id":null,"error":{}}', WorkerLine(None, is_answer=True)),
        (b"npm warn deprecated", None),
        (b"[1]", None),
        (b"{}", None),
    ],
)
def test_a_line_is_known_by_its_head(line: bytes, what: WorkerLine | None) -> None:
    assert what_is(line) == what


def test_only_the_head_of_an_answer_is_read() -> None:
    assert what_is(b'{"jsonrpc":"2.0","id":1,"result":{"cut off') == WorkerLine(1, is_answer=True)


def test_a_lost_worker_owes_an_answer_to_what_it_neither_answered_nor_was_told_to_drop() -> None:
    flight = Flight()
    for id in (1, 2, "2", 3):
        assert flight.passes(request(id))
    assert flight.answered(WorkerLine(1, is_answer=True)) == "tools/call"
    assert flight.passes(cancel(3))
    lost = [json.loads(line) for line in flight.lost()]
    assert [one["id"] for one in lost] == [2, "2"]
    assert {one["error"]["message"] for one in lost} == {LOST}
    assert flight.lost() == []
    assert len(flight) == 0


def test_answers_to_questions_of_a_worker_that_is_gone_reach_no_other() -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"roots": []}}
    flight = Flight()
    assert not flight.passes(answer)
    assert flight.answered(WorkerLine(1, is_answer=False)) is None
    assert flight.passes(answer)
    assert not flight.passes(answer)
    flight.answered(WorkerLine(2, is_answer=False))
    flight.lost()
    assert not flight.passes({**answer, "id": 2})


def test_the_same_id_both_ways_is_two_questions() -> None:
    flight = Flight()
    flight.passes(request(1))
    flight.answered(WorkerLine(1, is_answer=False))
    assert flight.passes({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert flight.answered(WorkerLine(1, is_answer=True)) == "tools/call"


def test_a_notice_stands_last_and_leaves_the_rest_as_it_was() -> None:
    answer = {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"content": [{"type": "text", "text": "ä"}], "structuredContent": {"a": 1}},
    }
    line = with_notice(json.dumps(answer).encode(), "told")
    changed = json.loads(line)
    assert changed["result"]["content"].pop() == {"type": "text", "text": "told"}
    assert changed == answer
    assert b"\n" not in line


@pytest.mark.parametrize("answer", ['{"id":1,"error":{}}', '{"id":1,"result":{"resultType":"x"}}'])
def test_an_answer_without_content_gets_no_notice(answer: str) -> None:
    assert with_notice(answer.encode(), "told") == answer.encode()

"""Streams of events, however they are cut."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.hub.http.sse import event, message_of, take_event, take_events, with_message

ENDS = st.sampled_from([b"\n\n", b"\r\n\r\n"])
LINES = st.lists(st.sampled_from([b"data: {}", b"id: 1", b": ping", b"event: message"]), min_size=1)
EVENTS = st.lists(
    st.tuples(LINES, ENDS).map(lambda made: made[1][: len(made[1]) // 2].join(made[0]) + made[1])
)


@given(events=EVENTS, rest=st.sampled_from([b"", b"data: {", b"id: 4\r\n"]), cut=st.integers(1, 9))
def test_only_whole_events_are_taken_in_their_order(
    events: list[bytes], rest: bytes, cut: int
) -> None:
    wire = b"".join(events) + rest
    content, taken, together = bytearray(), [], bytearray()
    for piece in itertools.batched(wire, cut, strict=False):
        content += bytes(piece)
        while one := take_event(content):
            taken.append(one)
    assert b"".join(taken) == b"".join(events)
    assert bytes(content) == rest
    together += wire
    assert take_events(together) == b"".join(events)
    assert bytes(together) == rest


@given(st.dictionaries(st.text(), st.text()))
def test_a_message_is_read_back_from_its_event(message: dict[str, str]) -> None:
    written = event(json.dumps(message).encode())
    assert message_of(written) == message
    changed = with_message(b"id: 4\r\n" + written, b'{"a":1}')
    assert message_of(changed) == {"a": 1}
    assert b"id: 4\r\n" in changed


def test_an_event_without_a_message_carries_none() -> None:
    for one in (b": ping\r\n\r\n", b"id: 1\r\ndata: \r\n\r\n", b"data: [1]\n\n", b"data: {\n\n"):
        assert message_of(one) is None
    assert message_of(b'data: {"a":\ndata: 1}\n\n') == {"a": 1}

"""Frames are cut from bytes however they come, and nothing that breaks the protocol passes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.observe.cdp.websocket import Frames, WireError, masked


def frame(opcode: int, payload: bytes, *, final: bool = True, rsv: int = 0) -> bytes:
    head = bytes([(0x80 if final else 0) | rsv | opcode])
    if len(payload) < 126:
        return head + bytes([len(payload)]) + payload
    if len(payload) < 65536:
        return head + b"\x7e" + len(payload).to_bytes(2) + payload
    return head + b"\x7f" + len(payload).to_bytes(8) + payload


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 125, 126, 300, 65_535, 65_536, 70_000]), max_size=6),
    st.lists(st.integers(1, 5_000), min_size=1, max_size=30),
)
def test_messages_are_the_same_however_the_bytes_are_cut(sizes: list[int], cuts: list[int]) -> None:
    messages = [bytes([number]) * size for number, size in enumerate(sizes)]
    data = b"".join(frame(1, message) for message in messages)
    frames = Frames(1 << 20)
    found: list[tuple[int, bytes]] = []
    at = turn = 0
    while at < len(data):
        step = cuts[turn % len(cuts)]
        found += frames.feed(data[at : at + step])
        at, turn = at + step, turn + 1
    assert found == [(1, message) for message in messages]


def test_fragments_are_joined_and_control_frames_may_come_between() -> None:
    frames = Frames(100)
    data = frame(1, b"ab", final=False) + frame(9, b"ping") + frame(0, b"cd")
    assert frames.feed(data) == [(9, b"ping"), (1, b"abcd")]


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x82abcd\x00\x00",
        frame(1, b"x", rsv=0x40),
        frame(1, b"x" * 200),
        frame(0, b"continued from nothing"),
        frame(1, b"a", final=False) + frame(1, b"b"),
        frame(1, b"x" * 60, final=False) + frame(0, b"x" * 60),
        b"\x81\x7f" + (1 << 40).to_bytes(8),
    ],
)
def test_what_breaks_the_protocol_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        Frames(100).feed(data)


@pytest.mark.parametrize("size", [0, 1, 3, 125, 126, 65_535, 65_536, 70_001])
def test_a_masked_frame_unmasks_to_its_payload(size: int) -> None:
    payload = bytes(number % 251 for number in range(size))
    sent = masked(1, payload)
    size = {126: 4, 127: 10}.get(sent[1] & 0x7F, 2)
    mask, body = sent[size : size + 4], sent[size + 4 :]
    assert sent[1] & 0x80
    assert bytes(b ^ mask[i % 4] for i, b in enumerate(body)) == payload

"""The ends of a relay's wires: lines come out whole and go in as far as there is room."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.relay.descriptors import CONGESTED, WIDE, End, Inflow
from tests.support.rounds import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOM = 16


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@settings(max_examples=examples(100))
@given(
    lines=st.lists(st.binary(max_size=70).map(lambda line: line.replace(b"\n", b" ")), max_size=12),
    cuts=st.lists(st.integers(1, 40), min_size=1),
)
def test_lines_are_the_same_however_they_come(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    found: list[bytes] = []
    with ours, theirs:
        inflow = Inflow(theirs.fileno(), ROOM)
        while data:
            for cut in cuts:
                ours.sendall(data[:cut])
                data = data[cut:]
                while inflow.read():
                    found += map(bytes, inflow.lines())
    assert found == [line + b"\n" for line in lines]


def test_nothing_yet_is_not_the_end(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    inflow = Inflow(theirs.fileno())
    assert inflow.read() is None
    ours.sendall(b"half a li")
    assert inflow.read() == 9
    assert list(inflow.lines()) == []
    ours.close()
    assert inflow.read() == 0


def test_room_that_a_long_line_took_is_given_back(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    inflow = Inflow(theirs.fileno(), ROOM)
    ours.sendall(b"x" * 1_000 + b"\nrest")
    while inflow.read():
        for line in inflow.lines():
            assert len(line) == 1_001
    assert len(inflow._room) == ROOM
    ours.sendall(b" of it\n")
    assert inflow.read()
    assert list(map(bytes, inflow.lines())) == [b"rest of it\n"]


def test_what_has_to_wait_is_whole_though_its_buffer_changes() -> None:
    reader, writer = os.pipe()
    try:
        end = End(writer)
        line = bytearray(b"a" * (3 * WIDE) + b"\n")
        end.pass_on(memoryview(line))
        assert end.is_congested
        assert end.waiting > CONGESTED
        line[:] = b"b" * len(line)  # as the next answer would
        end.send(b"next")
        came = bytearray()
        while end.waiting or not came.endswith(b"next\n"):
            came += os.read(reader, WIDE)
            end.flush()
        assert came == b"a" * (3 * WIDE) + b"\nnext\n"
    finally:
        os.close(reader)
        os.close(writer)

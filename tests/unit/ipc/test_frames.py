"""What the hub and its workers say to each other comes out as it went in, in whatever pieces."""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.declare.faults import Fault, Internal, InvalidInput
from pilothouse.intercept.model import BadFilter, ConfigMisfit
from pilothouse.intercept.ports import Detail, Side
from pilothouse.ipc.frames import (
    PIECE,
    Assembler,
    BadFrame,
    packed,
    packed_fault,
    pieces,
    unpacked_fault,
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters())
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=20,
)
messages = st.dictionaries(st.text(), values)


def written(number: int, message: dict[str, Any]) -> bytes:
    return b"".join(pieces(number, packed(message)))


def read(*data: bytes) -> list[dict[str, Any]]:
    assembler = Assembler()
    return [message for piece in data for message in assembler.feed(piece)]


# Messages


@given(messages)
def test_a_message_comes_out_as_it_went_in(message: dict[str, Any]) -> None:
    assert read(written(1, message)) == [message]


@given(st.lists(messages, max_size=4), st.integers(1, 50))
def test_it_does_not_matter_how_the_bytes_are_split(
    several: list[dict[str, Any]], size: int
) -> None:
    data = b"".join(written(number, message) for number, message in enumerate(several))
    assert read(*(data[at : at + size] for at in range(0, len(data), size))) == several


def test_halves_of_characters_pass() -> None:
    assert read(written(1, {"title": "\ud83d", "body": b"x"})) == [
        {"title": "\ud83d", "body": b"x"}
    ]


def test_numbers_that_are_too_large_for_64_bits_pass_the_writer() -> None:
    (message,) = read(written(1, {"n": 2**70}))
    assert message["n"] == 2**70


def test_records_arrive_as_mappings_with_their_bytes() -> None:
    side = Side(id=1, time=2.5, length=3, head=b"GET / HTTP/1.1", body=b"\xff\0", body_length=2)
    (told,) = read(written(1, {"value": Detail(row={"id": 1}, request=side)}))
    detail = told["value"]
    # A tuple arrives as a list.
    assert detail["request"] == {**asdict(side), "chunks": []}
    assert (detail["row"], detail["response"]) == ({"id": 1}, None)


def test_sets_arrive_as_sorted_lists() -> None:
    assert read(written(1, {"keys": frozenset({"b", "a"})})) == [{"keys": ["a", "b"]}]


def test_what_is_no_value_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="object is not sent"):
        packed({"value": object()})


@dataclass
class Odd:
    text: str


def test_a_record_with_half_a_character_passes() -> None:
    assert read(written(1, {"value": Odd("\udc00")})) == [{"value": {"text": "\udc00"}}]


# Pieces


def test_a_large_message_goes_in_pieces_between_which_small_ones_pass() -> None:
    large = {"answer": 1, "value": {"body": bytes(range(256)) * 4096, "name": "large"}}
    small = {"answer": 2, "value": "small"}
    assembler = Assembler()
    first, *others = pieces(1, packed(large))
    assert len(others) >= 8
    assert all(len(piece) <= PIECE + 9 for piece in others)
    assert list(assembler.feed(first)) == []
    assert list(assembler.feed(written(2, small))) == [small]
    assert [message for piece in others for message in assembler.feed(piece)] == [large]


def test_a_message_of_exactly_one_piece_and_one_of_a_byte_more() -> None:
    empty = sum(map(len, packed({"b": ""})))
    for size in (PIECE - empty, PIECE - empty + 1):
        message = {"b": "x" * size}
        assert len(list(pieces(1, packed(message)))) == 1 + (size > PIECE - empty)
        assert read(written(1, message)) == [message]


# Garbage


def piece(data: bytes, *, last: int = 1) -> bytes:
    return struct.pack("!IIB", len(data), 1, last) + data


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!IIB", PIECE + 1, 1, 1),
        piece(b""),
        piece(b"\0\0\0\0"),
        piece(b"\xff\xff\xff\xff"),
        piece(struct.pack("!IQ", 1, 5) + b"{}"),
        piece(struct.pack("!IQ", 1, 2) + b"[]"),
        piece(struct.pack("!IQ", 1, 1) + b"{"),
        piece(struct.pack("!IQQ", 2, 15, 0) + b'{"a":{"\\u0000b'),
        piece(struct.pack("!IQQ", 2, 27, 1) + b'{"a":{"\\u0000beside":  7}}' + b" x"),
    ],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(BadFrame):
        read(data)


# Faults


def carried(fault: Fault) -> Fault:
    ((message,),) = [read(written(1, {"fault": packed_fault(fault)}))]
    return unpacked_fault(message["fault"])


@pytest.mark.parametrize("kind", [InvalidInput, BadFilter, ConfigMisfit])
def test_a_fault_comes_out_as_its_own_class(kind: type[Fault]) -> None:
    fault = carried(kind("no such column", hint="see filter_explain", position=7, near="x"))
    assert type(fault) is kind
    assert (fault.message, fault.hint) == ("no such column", "see filter_explain")
    assert fault.details == {"position": 7, "near": "x"}
    assert str(fault) == "no such column"


class Demanding(Fault):
    """One whose constructor asks for something else."""

    code = "demanding"

    def __init__(self, number: int) -> None:
        super().__init__(f"there is no {number}", hint="count", number=number)


def test_a_fault_with_a_constructor_of_its_own_comes_out_whole() -> None:
    fault = carried(Demanding(3))
    assert type(fault) is Demanding
    assert (fault.message, fault.details) == ("there is no 3", {"number": 3})


@pytest.mark.parametrize(
    "name", ["builtins.SystemExit", "os.system", "pilothouse.core.declare.faults.No"]
)
def test_nothing_but_a_declared_fault_is_made_of_a_name(name: str) -> None:
    told = {"class": name, "message": "m", "hint": "", "details": {}}
    assert type(unpacked_fault(told)) is Internal

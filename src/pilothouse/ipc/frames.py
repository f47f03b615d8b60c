"""Frames of the messages about shared services between the hub and its workers. Pure.

A message is a JSON object. Bytes in it stand beside the JSON as they are, since a body may have
64 MB. It goes over the wire in pieces, so that a large one neither holds up the small ones nor
keeps its writer busy:

    piece     length (4 bytes) · number of its message (4 bytes) · 1 if it is the last · its bytes
    message   count of parts (4 bytes) · their lengths (8 bytes each) · JSON · bytes · bytes …

Faults cross by the name of their class, and come out as that class; nothing else is made of names.
"""

from __future__ import annotations

import json
import struct
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson

from pilothouse.core.declare.faults import Fault, Internal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    type Part = bytes | memoryview

PIECE = 1 << 17
LARGEST = 1 << 30
"""Limit in bytes for all messages together of which only pieces came so far."""
_PIECE_HEAD = struct.Struct("!IIB")
_COUNT = struct.Struct("!I")
_BESIDE = "\0beside"
"""Name that stands in the JSON for bytes: the only member of an object, with their number."""


class BadFrame(ValueError):
    """A frame that this side could never have written."""


def packed(message: Mapping[str, Any]) -> list[Part]:
    """Return the parts of a message: its JSON with a head, then the bytes beside it.

    Raises:
        TypeError: a value is of a kind that is not sent.
    """
    beside: list[bytes] = []

    def default(value: object) -> object:
        if isinstance(value, bytes):
            beside.append(value)
            return {_BESIDE: len(beside) - 1}
        if isinstance(value, set | frozenset):
            return sorted(value)
        if is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in fields(value)}
        raise TypeError(f"{type(value).__name__} is not sent")

    text = _to_json(message, default, beside)
    sizes = [len(text), *map(len, beside)]
    head = _COUNT.pack(len(sizes)) + struct.pack(f"!{len(sizes)}Q", *sizes)
    return [head + text, *beside]


def _to_json(message: Mapping[str, Any], default: Any, beside: list[bytes]) -> bytes:
    try:
        return orjson.dumps(message, default)
    except TypeError:  # halves of characters, which titles may hold, and very large numbers
        beside.clear()
        return json.dumps(message, default=default).encode()


def unpacked(data: bytes | bytearray) -> dict[str, Any]:
    """Return the message that these bytes hold. Raises BadFrame."""
    try:
        (count,) = _COUNT.unpack_from(data)
        sizes = struct.unpack_from(f"!{count}Q", data, _COUNT.size)
    except struct.error:
        raise BadFrame("a message ends within its head") from None
    start = _COUNT.size + 8 * count
    if not sizes or start + sum(sizes) != len(data):
        raise BadFrame("the lengths of a message are wrong")
    view = memoryview(data)
    parts = []
    for size in sizes:
        parts.append(view[start : start + size])
        start += size
    message = _from_json(parts[0])
    return _restored(message, [bytes(part) for part in parts[1:]]) if parts[1:] else message


def checked(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message if it is one of this protocol (rpc.py lists them all).

    Raises:
        BadFrame
    """
    match message:
        case {"answer": int()}:
            is_one = _is_answer(message)
        case {"drop": int()}:
            is_one = True
        case {"tell": str(), "with": dict()}:
            is_one = True
        case {"hold": int(), "do": str(), "with": dict()}:
            is_one = True
        case {"call": int(), "do": str(), "with": dict()}:
            is_one = True
        case _:
            is_one = False
    if not is_one:
        raise BadFrame(f"{', '.join(message)[:100]!a} is not of this protocol")
    return message


def _is_answer(message: Mapping[str, Any]) -> bool:
    """Tell whether an answer has a value, a whole fault, or the text of a defect."""
    match message:
        case {"fault": {"class": str(), "message": str(), "hint": str(), "details": dict()}}:
            return True
        case {"fault": _}:
            return False
        case {"broke": str()} | {"value": _}:
            return True
    return False


def _from_json(text: memoryview) -> dict[str, Any]:
    try:
        try:
            message = orjson.loads(text)
        except orjson.JSONDecodeError:
            message = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"a message is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadFrame("a message is not an object")
    return message


def _restored(value: Any, beside: Sequence[bytes]) -> Any:
    """Return the value with the bytes where they belong."""
    if isinstance(value, list):
        return [_restored(one, beside) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_BESIDE}:
        number = value[_BESIDE]
        if not isinstance(number, int) or not 0 <= number < len(beside):
            raise BadFrame("a message lacks some of its bytes")
        return beside[number]
    return {name: _restored(one, beside) for name, one in value.items()}


def pieces(number: int, parts: Sequence[Part]) -> Iterator[bytes]:
    """Yield a message as it goes over the wire, piece by piece; a small one is one piece."""
    left = sum(map(len, parts))
    cuts = chain.from_iterable(
        (memoryview(part)[at : at + PIECE] for at in range(0, len(part), PIECE)) for part in parts
    )
    if left <= PIECE:
        yield _PIECE_HEAD.pack(left, number, True) + b"".join(parts)
        return
    for cut in cuts:
        left -= len(cut)
        yield _PIECE_HEAD.pack(len(cut), number, not left) + cut


class Assembler:
    """Makes messages of what comes over the wire."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._begun: dict[int, bytearray] = {}
        self._size = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that are whole now.

        Raises:
            BadFrame
        """
        rest = self._rest
        rest += data
        at = 0
        while len(rest) - at >= _PIECE_HEAD.size:
            length, number, is_last = _PIECE_HEAD.unpack_from(rest, at)
            if length > PIECE:
                raise BadFrame("a piece is too long")
            end = at + _PIECE_HEAD.size + length
            if len(rest) < end:
                break
            message = self._take(number, rest[at + _PIECE_HEAD.size : end], is_last)
            at = end
            if message is not None:
                yield message
        del rest[:at]

    def _take(self, number: int, piece: bytearray, is_last: int) -> dict[str, Any] | None:
        begun = self._begun.pop(number, None)
        if begun is not None:
            self._size -= len(begun)
            begun += piece
            piece = begun
        if is_last:
            return unpacked(piece)
        self._begun[number] = piece
        self._size += len(piece)
        if self._size > LARGEST:
            raise BadFrame("the messages are too large")
        return None


def packed_fault(fault: Fault) -> dict[str, Any]:
    """Return a fault as a value that can be sent."""
    return {
        "class": _name(type(fault)),
        "message": fault.message,
        "hint": fault.hint,
        "details": fault.details,
    }


def unpacked_fault(told: Mapping[str, Any]) -> Fault:
    """Return the fault that was sent: of its own class if that is one of ours, else Internal."""
    known = {_name(one): one for one in _declared(Fault)}
    kind = known.get(told["class"], Internal)
    fault = kind.__new__(kind)
    # Its own constructor is left out: it may take other arguments.
    Fault.__init__(fault, told["message"], hint=told["hint"], **told["details"])
    return fault


def _name(kind: type[Fault]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _declared(kind: type[Fault]) -> Iterator[type[Fault]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _declared(below)

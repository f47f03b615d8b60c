"""Cursors: where a page of the history ended, as an opaque word that goes on from there."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import astuple, dataclass
from typing import Any

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.history.schema import ORDERS

BIGGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RowOrder:
    column: str
    descending: bool

    @property
    def name(self) -> str:
        """The column in the file."""
        return "group_id" if self.column == "group" else self.column

    def __str__(self) -> str:
        return f"{self.column} {'desc' if self.descending else 'asc'}"


def read_order(text: str) -> RowOrder:
    """Parse `column direction`; raises InvalidInput."""
    column, direction = (*text.split(), "", "")[:2] if len(text.split()) == 2 else ("", "")
    if column not in ORDERS or direction.lower() not in ("asc", "desc"):
        raise InvalidInput(
            f"order {text[:80]!r} is not a column and a direction",
            hint="for example: time desc",
            field="order",
            expected=f"one of {', '.join(ORDERS)}, then asc or desc",
            received=text[:80],
        )
    return RowOrder(column, direction.lower() == "desc")


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """Position after the last row that was given, with what is left to do with those behind it."""

    key: str | int | float | None = None
    """Value of that row in the column of the order."""
    id: int = 0
    """Id of that row; 0: none yet."""
    skip: int = 0
    """Number of rows of `offset` that were not passed before time was over."""
    low: int = 0
    high: int = 0
    """Ids that were sorted together, for orders without an index; 0: not yet chosen."""


def write_cursor(place: CursorPosition, order: RowOrder, question: tuple[str, str | None]) -> str:
    packed = json.dumps([str(order), _tag(question), *astuple(place)], separators=(",", ":"))
    return base64.urlsafe_b64encode(packed.encode()).decode().rstrip("=")


def read_cursor(text: str, order: RowOrder, question: tuple[str, str | None]) -> CursorPosition:
    """Return the position of a cursor for this filter, order and session; raises InvalidInput."""
    if not text:
        return CursorPosition()
    packed = _unpacked(text)
    if packed is None:
        raise _refused("cursor is not one that an earlier page returned", text)
    if packed[:2] != [str(order), _tag(question)]:
        raise _refused("cursor belongs to another filter or order", text)
    place = CursorPosition(*packed[2:])
    # Only one spelling is ours, whatever base64 and JSON would let through besides.
    if write_cursor(place, order, question) != text:
        raise _refused("cursor is not one that an earlier page returned", text)
    return place


def _unpacked(text: str) -> list[Any] | None:
    try:
        packed = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        return None
    if not isinstance(packed, list) or len(packed) != 7:
        return None
    numbers = all(type(value) is int and 0 <= value <= BIGGEST for value in packed[3:])
    key = packed[2]
    is_key = key is None or type(key) in (str, int, float)
    in_range = not isinstance(key, int) or abs(key) <= BIGGEST
    return packed if numbers and is_key and in_range else None


def _tag(question: tuple[str, str | None]) -> int:
    return zlib.crc32(json.dumps(question).encode())


def _refused(what: str, text: str) -> InvalidInput:
    return InvalidInput(
        what,
        hint="leave cursor out to begin, or pass next_cursor back with the same filter and order",
        field="cursor",
        expected="next_cursor of an earlier page",
        received=text[:80],
    )

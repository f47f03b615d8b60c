"""What the arguments of all intercept tools have in common."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from pilothouse.core.declare.faults import Envelope, InvalidInput
from pilothouse.core.declare.model import SnakeArgs, SnakeResult
from pilothouse.core.declare.tool import Group
from pilothouse.intercept.model import FAULTS, PacketNotFound, ReadOnly

INTERCEPT = Group(
    name="intercept",
    summary="Traffic through the proxy: recorded, queried, modified, mocked and sent again",
    envelope=Envelope.NUMBER,
)

WRITES = (*FAULTS, ReadOnly)
"""Faults that every tool that changes or sends something may answer."""

MOST_ROWS = 1_000
MOST_ID = 2**63 - 1
"""Largest number that SQLite counts with."""


class BadCursor(InvalidInput):
    """The cursor is none of this filter and order."""

    code = "bad_cursor"
    status = 409


class _Absent(str):
    """Token of its own type, empty, so that whoever does not know it refuses it."""

    __slots__ = ()


ABSENT: Final[str] = _Absent()
"""Stands for a token that was not given at all; on stdio a setting may fill it in.
Compare with `is`: an empty token equals it, and is refused."""


class InterceptArgs(SnakeArgs):
    """Arguments of a tool of this group."""

    # Any value may come: each that is not the token is refused alike, whatever its type.
    access_token: Any = Field(
        default=None,
        description="From pilothouse token",
        json_schema_extra={"type": "string"},
    )

    @property
    def token(self) -> str | None:
        """Token for `Interceptor.admit`: `ABSENT` if not given, None if it is no string."""
        if "access_token" not in self.model_fields_set:
            return ABSENT
        return self.access_token if isinstance(self.access_token, str) else None


class ProxyAnswer(SnakeResult, extra="allow"):
    """An answer that the proxy makes; what is declared is always there, more may be."""


def packet(packet_id: int) -> int:
    """Return the id, if it can be one.

    Raises:
        PacketNotFound: no history counts that far.
    """
    if not 0 < packet_id <= MOST_ID:
        raise PacketNotFound(
            f"there is no packet {str(packet_id)[:40]}",
            hint="take an id of get_history",
            packet_id=packet_id if abs(packet_id) <= MOST_ID else None,
        )
    return packet_id

"""A request's body as JSON, for both servers beside MCP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from starlette.requests import ClientDisconnect

from pilothouse.core.declare.faults import Fault

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_BYTES = 4 * 1024 * 1024
_DRAINED = 4
"""Factor of the limit up to which a body is read to its end before it is refused: else a client
that is still sending when the connection closes sees a reset instead of the answer."""


class NotJson(Fault):
    """The body is not JSON."""

    code = "not_json"
    number = -32700
    status = 400


class TooLarge(Fault):
    """The body is larger than any request needs."""

    code = "too_large"
    number = -32600
    status = 413


async def read_json(request: Request, empty: Any = None) -> Any:
    """Read the body of a request; `empty` if there is none.

    Raises:
        NotJson, TooLarge
    """
    data = bytearray()
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size <= MAX_BYTES:
                data += part
            elif size > _DRAINED * MAX_BYTES:
                break
    except ClientDisconnect:  # nobody waits for the answer any more
        raise NotJson("the body breaks off", hint="send the whole body") from None
    if size > MAX_BYTES:
        raise TooLarge(
            f"the body is larger than {MAX_BYTES} bytes", hint="send less at once", most=MAX_BYTES
        )
    if not data and empty is not None:
        return empty
    try:
        return json.loads(bytes(data), parse_constant=_no_constant, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise NotJson(
            f"the body is not JSON: {str(error)[:120]}", hint="send JSON in UTF-8"
        ) from None


def _number(text: str) -> float:
    """Parse a number as JSON has it, of one kind: 1.0 is a whole one."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")

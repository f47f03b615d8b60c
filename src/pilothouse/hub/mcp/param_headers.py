"""Headers that repeat arguments of a tool call, as `x-mcp-header` in its schema asks for. Pure.

Whoever routes by such a header must be able to trust that the body says the same. A worker over
stdio never sees the headers, so that nobody but the hub can compare them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pilothouse.hub.http.replies import error
from pilothouse.hub.mcp.revision_2026 import HEADER_MISMATCH, decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.http.replies import Reply

MARK = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_WHOLE = re.compile(r"(-?[0-9]+)(\.0+)?")
_TYPES = ("string", "integer", "boolean")


class Repeated(NamedTuple):
    """An argument that a header repeats."""

    path: tuple[str, ...]
    """Names, from the outermost object on."""
    header: str
    """Name of the header, in lower case."""
    type: str


def repeated_by_tool(tools: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Repeated, ...]]:
    """Return such arguments by tool, for those tools in a list that have any."""
    found = {str(tool.get("name")): tuple(_repeated(tool.get("inputSchema"))) for tool in tools}
    return {name: repeated for name, repeated in found.items() if repeated}


def _repeated(schema: Any, path: tuple[str, ...] = ()) -> Iterator[Repeated]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, one in properties.items() if isinstance(properties, dict) else ():
        if isinstance(one, dict):
            token, type = one.get(MARK), one.get("type")
            if isinstance(token, str) and _TOKEN.fullmatch(token) and type in _TYPES:
                yield Repeated((*path, name), f"mcp-param-{token.lower()}", type)
            yield from _repeated(one, (*path, name))


def refuse(
    head: RequestHead, message: dict[str, Any], by_tool: Mapping[str, tuple[Repeated, ...]]
) -> Reply | None:
    """Return why a sound request is not taken: its headers say something else than its body."""
    params = message.get("params", {})
    if message.get("method") != "tools/call" or not isinstance(params.get("name"), str):
        return None
    arguments = params.get("arguments", {})
    for one in by_tool.get(params["name"], ()):
        wrong = _wrong(one, head.values.get(one.header, ()), _value(arguments, one.path))
        if wrong:
            why = f"{one.header} header {wrong} the argument {'.'.join(one.path)!r}"
            return error(400, HEADER_MISMATCH, why, message.get("id"))
    return None


def repeating(
    message: dict[str, Any], by_tool: Mapping[str, tuple[Repeated, ...]]
) -> dict[str, str]:
    """Return the headers with which a sound tool call is taken."""
    params = message.get("params", {})
    name, arguments = params.get("name"), params.get("arguments", {})
    values = {
        one.header: _value(arguments, one.path)
        for one in (by_tool.get(name, ()) if isinstance(name, str) else ())
    }
    return {
        header: encoded(json.dumps(value) if isinstance(value, bool) else str(value))
        for header, value in values.items()
        if isinstance(value, str | int | float)
    }


def _value(arguments: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def _wrong(one: Repeated, headers: Iterable[str], value: Any) -> str:
    told = list(headers)
    if len(told) > 1:
        return "appears more than once for"
    if not isinstance(value, str | int | float):
        # No header can repeat an object, and none is needed for nothing.
        return "is present without" if told else ""
    if not told:
        return "is missing for"
    said = decoded(told[0])
    return "" if said is not None and _is_same(one.type, said, value) else "does not match"


def _is_same(type: str, said: str, value: str | float) -> bool:
    if isinstance(value, bool):
        return said == ("true" if value else "false")
    whole = _WHOLE.fullmatch(said)
    if type == "integer" and not isinstance(value, str) and whole:
        return int(whole[1]) == value
    return said == str(value)

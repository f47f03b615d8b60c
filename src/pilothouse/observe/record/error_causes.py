"""What an error was made from: `Error.cause` and the errors of an `AggregateError`.

The browser sends the error alone; what it holds is asked for, and told with the event afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse.observe.normalize.preview import argument_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    type Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
    """Sends a command to the session that the error belongs to."""

MOST = 10
"""Most inner errors that are reported of one."""
MAX_DEPTH = 5
_CAUSED_BY = "\nCaused by: "
_INNER = ("cause", "errors")


def errors_with_more(method: str, params: dict[str, Any]) -> list[str]:
    """Return the objects of an event that are errors made from others."""
    if method == "Runtime.exceptionThrown":
        remotes = [params["exceptionDetails"].get("exception") or {}]
    else:
        remotes = params.get("args") or []
    return [
        remote["objectId"]
        for remote in remotes
        if remote.get("subtype") == "error" and "objectId" in remote and _has_inner(remote)
    ]


def _has_inner(remote: dict[str, Any]) -> bool:
    properties = (remote.get("preview") or {}).get("properties") or ()
    return any(one.get("name") in _INNER for one in properties)


async def inner_errors(object_id: str, ask: Ask, depth: int = 0) -> list[str]:
    """Return the texts of all errors that an error was made from, the nearest first."""
    found: list[str] = []
    for name, value in await _properties(object_id, ask):
        if name == "cause":
            inner = [value]
        elif name == "errors" and value.get("subtype") == "array" and "objectId" in value:
            listed = await _properties(value["objectId"], ask)
            inner = [one for index, one in listed if index.isdecimal()]
        else:
            continue
        for one in inner[:MOST]:
            found.append(argument_text(one))
            if one.get("subtype") == "error" and "objectId" in one and depth < MAX_DEPTH:
                found += await inner_errors(one["objectId"], ask, depth + 1)
    return found[:MOST]


async def _properties(object_id: str, ask: Ask) -> list[tuple[str, dict[str, Any]]]:
    told = await ask("Runtime.getProperties", {"objectId": object_id, "ownProperties": True})
    return [(str(one["name"]), one["value"]) for one in told.get("result", ()) if "value" in one]


def with_causes(event: dict[str, Any], causes: list[str], most: int) -> dict[str, Any]:
    """Return the event with its inner errors, in its text as well."""
    cut = [cause[:most] for cause in causes]
    return {**event, "causes": cut, "text": event["text"] + "".join(_CAUSED_BY + c for c in cut)}

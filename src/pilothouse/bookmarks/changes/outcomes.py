"""What came of each item of a batch, told within bounds: a thousand may fail for one reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse.bookmarks.model import BatchFailed
from pilothouse.core.declare.faults import Envelope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pilothouse.bookmarks.model import Node
    from pilothouse.core.declare.faults import Fault

    type Item = Mapping[str, Any]

WHOLE_NODES = 100
"""Nodes that are shown with all their fields; of further ones the id."""
_ID_CHARACTERS = 80
_ANY = "…"
"""Stands for what differs from item to item."""


def outcomes(items: Sequence[Item], results: Sequence[Fault | Node | None]) -> list[dict[str, Any]]:
    """Return for each item its node, `success` or its error.

    Of equal errors the first is whole, with the numbers and ids of all items that it is about;
    the others name it by `sameAs`.
    """
    told: list[dict[str, Any]] = []
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    for number, (item, result) in enumerate(zip(items, results, strict=True)):
        if result is None:
            told.append({"success": True})
        elif isinstance(result, dict):
            is_whole = number < WHOLE_NODES
            told.append({"node": result if is_whole else {"id": result["id"]}})
        else:
            told.append({"error": _error(groups, number, item, result)})
    return told


def all_failed(told: Sequence[dict[str, Any]]) -> BatchFailed:
    """Return the fault of a batch of which nothing was carried out."""
    errors = [one["error"] for one in told if "sameAs" not in one["error"]]
    reasons = ", ".join(dict.fromkeys(str(error["code"]) for error in errors))
    return BatchFailed(
        f"none of the {len(told)} items was carried out: {reasons}",
        hint="errors has what is wrong with which items; mend them and call again",
        failed=len(told),
        errors=errors,
    )


def _error(
    groups: dict[tuple[str, str, str], dict[str, Any]], number: int, item: Item, fault: Fault
) -> dict[str, Any]:
    key = fault.code, _common(fault.message, number, item), fault.hint
    known = groups.get(key)
    error: dict[str, Any] = fault.render(Envelope.CODE) if known is None else known
    if known is None:
        error |= {"items": []}
        groups[key] = error
    error["items"].append(number)
    if isinstance(item.get("id"), str):
        error.setdefault("ids", []).append(item["id"][:_ID_CHARACTERS])
    if known is None:
        return error
    return {"code": error["code"], "sameAs": error["items"][0]}


def _common(message: str, number: int, item: Item) -> str:
    """Return the message without what is the item's own."""
    values = sorted((value for value in item.values() if isinstance(value, str)), key=len)
    for value in reversed(values):
        for length in (len(value), _ID_CHARACTERS, _ID_CHARACTERS // 2):
            if value[:length]:
                message = message.replace(value[:length], _ANY)
    return message.replace(f"items.{number}.", "")

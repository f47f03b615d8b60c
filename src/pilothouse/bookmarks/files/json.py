"""Bookmarks as JSON: our own exports, and what Chrome and Firefox keep and back up."""

from __future__ import annotations

import json
from typing import Any

from pilothouse.bookmarks.files.node import DEEPEST, Saved, every, too_deep
from pilothouse.core.declare.faults import InvalidInput

FORMAT = "pilothouse-bookmarks"
_CHROME_ROOTS = {"bookmark_bar": "bookmarks-bar", "other": "other", "synced": "mobile"}
_FIREFOX_ROOTS = {"toolbarFolder": "bookmarks-bar", "unfiledBookmarksFolder": "other"}
_EPOCH_OF_WINDOWS_S = 11_644_473_600
"""Chrome's own file counts microseconds from the year 1601."""


def write_json(entries: list[Saved], *, exported_at: str) -> str:
    """Return our own form: titles, addresses and dates, without ids."""
    made = {"format": FORMAT, "version": 1, "exportedAt": exported_at}
    return json.dumps({**made, "nodes": [_node(e) for e in entries]}, ensure_ascii=False, indent=1)


def _node(entry: Saved) -> dict[str, Any]:
    made = {
        "title": entry.title,
        "url": entry.url,
        "dateAdded": entry.added,
        "dateGroupModified": entry.modified,
        "folderType": entry.kind or None,
        "children": [_node(child) for child in entry.children] if entry.url is None else None,
    }
    return {name: value for name, value in made.items() if value is not None}


def read_json(text: str) -> list[Saved]:
    """Read the bookmarks of an export of ours, of nodes as tools answer them, of the file
    `Bookmarks` in Chrome's profile, or of a backup of Firefox.

    Raises:
        InvalidInput: it is none of these.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unknown("it is not JSON") from error
    if isinstance(data, dict) and isinstance(data.get("roots"), dict):
        roots = data["roots"]
        return [
            _read(roots[name], 0, kind) for name, kind in _CHROME_ROOTS.items() if name in roots
        ]
    if isinstance(data, dict):
        data = data.get("nodes") or data.get("children")
    if not isinstance(data, list):
        raise _unknown("it has no list of nodes")
    found = _children(data, 0)
    if found and not any(entry.title or entry.url for entry in every(found)):
        raise _unknown("its items have neither title nor url")
    return found


def _children(items: object, depth: int) -> list[Saved]:
    if depth > DEEPEST:
        raise too_deep()
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _unknown("it has an item that is no bookmark")
    # Firefox keeps separators as items of their own.
    return [_read(item, depth) for item in items if "separator" not in str(item.get("type", ""))]


def _read(item: Any, depth: int, kind: str = "") -> Saved:
    if not isinstance(item, dict):
        raise _unknown("it has an item that is no bookmark")
    url = item.get("url", item.get("uri"))
    return Saved(
        title=str(item.get("title", item.get("name")) or ""),
        url=None if url is None else str(url),
        added=_time(item.get("dateAdded", item.get("date_added")), item),
        modified=_time(item.get("dateGroupModified", item.get("date_modified")), item),
        kind=kind or str(item.get("folderType") or _FIREFOX_ROOTS.get(str(item.get("root")), "")),
        children=_children(item.get("children") or [], depth + 1) if url is None else [],
    )


def _time(value: object, item: dict[str, Any]) -> float | None:
    """Return epoch milliseconds of a number or of digits; Chrome's own file writes those."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    if "date_added" in item:
        number = number / 1_000 - _EPOCH_OF_WINDOWS_S * 1_000
    elif number > 1e14:  # Firefox has microseconds
        number /= 1_000
    return number if 0 < number < 1e14 else None


def _unknown(reason: str) -> InvalidInput:
    return InvalidInput(
        f"the file is no bookmarks file that is known: {reason}",
        hint="give Netscape HTML as browsers export it, or JSON as bookmark_export writes it",
        field="content",
        expected="Netscape HTML, or JSON with nodes",
    )

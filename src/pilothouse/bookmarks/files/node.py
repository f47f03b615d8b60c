"""Bookmarks on their way from or into a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pilothouse.core.declare.faults import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pilothouse.bookmarks.model import Node

DEEPEST = 80
"""Folders in folders: with those above, fewer than Chrome can show (`addresses.DEEPEST`)."""


@dataclass(slots=True)
class Saved:
    """A bookmark or a folder of a file; a bookmark has `url`."""

    title: str
    url: str | None = None
    added: float | None = None
    """Epoch milliseconds."""
    modified: float | None = None
    kind: str = ""
    """bookmarks-bar, other or mobile, for a browser's own folder."""
    children: list[Saved] = field(default_factory=list)


def saved_of(nodes: Sequence[Node]) -> list[Saved]:
    """Return Chrome's nodes as entries."""
    return [
        Saved(
            title=str(node.get("title", "")),
            url=node.get("url"),
            added=node.get("dateAdded"),
            modified=node.get("dateGroupModified"),
            kind=str(node.get("folderType", "")),
            children=saved_of(node.get("children") or ()),
        )
        for node in nodes
    ]


def every(entries: Sequence[Saved]) -> Iterator[Saved]:
    waiting = list(reversed(entries))
    while waiting:
        entry = waiting.pop()
        yield entry
        waiting.extend(reversed(entry.children))


def too_deep() -> InvalidInput:
    return InvalidInput(
        f"the file has folders nested deeper than {DEEPEST}",
        hint="it is no export of a browser; check the file",
        field="content",
        expected="a bookmarks file",
    )

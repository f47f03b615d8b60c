"""Bookmarks that lead to the same page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pilothouse.bookmarks.tree.urls import same_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pilothouse.bookmarks.tree.tree import Found


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Bookmarks of one page, the oldest first."""

    found: list[Found]

    @property
    def extra(self) -> list[str]:
        """The ids of all but the oldest."""
        return [str(node["id"]) for node, _ in self.found[1:]]


def find_duplicates(found: Iterable[Found], *, strict: bool = False) -> list[Duplicates]:
    """Group what `urls.SAME` or `urls.SAME_STRICTLY` calls the same, the largest group first."""
    pages: dict[str, list[Found]] = {}
    for node, path in found:
        if "url" in node:
            pages.setdefault(same_key(node["url"], strict=strict), []).append((node, path))
    groups = [Duplicates(sorted(same, key=_age)) for same in pages.values() if len(same) > 1]
    return sorted(groups, key=lambda group: -len(group.found))


def _age(found: Found) -> tuple[float, int]:
    node, path = found
    return float(node.get("dateAdded") or 0), len(path)

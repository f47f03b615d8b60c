"""Trees of bookmarks: walked with their paths, and cut by depth when they are large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.bookmarks.tree.paths import ROOT, root_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pilothouse.bookmarks.model import Node

MOST_NODES = 1_000
"""Shown at once, unless all are asked for."""


type Found = tuple[Node, tuple[str, ...]]
"""A node with its path, as titles; the root has none."""


def walk(nodes: Sequence[Node], above: tuple[str, ...] = ()) -> Iterator[Found]:
    """Yield every node in the order of the tree; `above` is the path of the first ones' folder."""
    waiting: list[Found] = [(node, _own(node, above)) for node in nodes[::-1]]
    while waiting:
        node, path = waiting.pop()
        yield node, path
        below = reversed(node.get("children") or ())
        waiting.extend((child, _own(child, path)) for child in below)


def _own(node: Node, above: tuple[str, ...]) -> tuple[str, ...]:
    if node["id"] == ROOT:
        return ()
    return (*above, root_name(node) if node.get("parentId") == ROOT else str(node["title"]))


def flat(nodes: Sequence[Node]) -> list[Node]:
    """Return every node, level by level."""
    found = list(nodes)
    for node in found:  # grows meanwhile
        found.extend(node.get("children") or ())
    return found


def cut(nodes: list[Node], depth: int | None = None, most: int | None = MOST_NODES) -> list[Node]:
    """Cut a tree to a depth, and less deep where more than `most` nodes would be shown.

    A folder whose children are not all shown counts what is left out under it. The first node
    says how to read on. Where not even the first level fits, its beginning is shown.
    """
    if depth is None and most is None:
        return nodes
    levels = _levels(nodes, depth)
    shown = len(levels)
    if most is not None:
        while shown > 1 and sum(map(len, levels[:shown])) > most:
            shown -= 1
    whole = not any(node.get("children") for node in levels[shown - 1])
    if whole:
        return nodes
    room = most - len(nodes) if most is not None and shown == 1 and depth != 0 else 0
    made = [_shortened(node, shown - 1, max(0, room)) for node in nodes]
    made[0] = {**made[0], "readOn": _read_on(cut_for_room=shown < len(levels) or bool(room))}
    return made


def _levels(nodes: list[Node], depth: int | None) -> list[list[Node]]:
    levels = [nodes]
    while depth is None or len(levels) <= depth:
        below = [child for node in levels[-1] for child in node.get("children") or ()]
        if not below:
            break
        levels.append(below)
    return levels


def _shortened(node: Node, deeper: int, room: int) -> Node:
    children = node.get("children")
    if not children:
        return node
    if deeper:
        return {**node, "children": [_shortened(child, deeper - 1, 0) for child in children]}
    kept = [_shortened(child, 0, 0) for child in children[:room]]
    short = {name: value for name, value in node.items() if name != "children"}
    if kept:
        short["children"] = kept
    return {**short, "leftOut": counts(children[room:])}


def counts(nodes: Sequence[Node]) -> dict[str, int]:
    """Count bookmarks and folders, these and all below them."""
    everything = flat(nodes)
    bookmarks = sum("url" in node for node in everything)
    return {"bookmarks": bookmarks, "folders": len(everything) - bookmarks}


def _read_on(*, cut_for_room: bool) -> str:
    how = "read one on by its id as folderId"
    more = "; all: true shows everything" if cut_for_room else " or with a greater depth"
    return f"folders with leftOut are not shown whole: {how}{more}"


def part(nodes: Sequence[Node], folder_id: str) -> list[Found]:
    """Return a node of the tree with all that is in it; empty if there is none of this id."""
    for node, path in walk(nodes):
        if node["id"] == folder_id:
            return list(walk([node], path[:-1]))
    return []

"""What a list of changes would do to the bookmarks, and what it takes for granted of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.bookmarks.changes.change import (
    Create,
    Move,
    Remove,
    RemoveTree,
    Update,
    apply,
    numbered,
    reference,
)
from pilothouse.bookmarks.changes.draft import Draft
from pilothouse.core.declare.faults import Fault, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pilothouse.bookmarks.changes.change import Change
    from pilothouse.bookmarks.model import Node

type Mark = dict[str, Any]
"""What a plan relies on of one node: some of `title`, `url`, `parentId`, `children` (ids)."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a list of changes on the bookmarks, all of it together."""

    added: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    changed: list[dict[str, Any]]
    moved: list[dict[str, Any]]
    expected: dict[str, Mark]
    """Facts that the plan relies on, by id: they must still hold when it is carried out."""


def dry_run(nodes: Sequence[Node], changes: Sequence[Change]) -> Preview:
    """Return what a list of changes would do to a tree, as Chrome's `getTree` gives it.

    Raises:
        BookmarkNotFound, RootFolder, FolderNotEmpty, InvalidInput: it cannot be carried out; the
            message says which change is wrong.
    """
    before, after = Draft(nodes), Draft(nodes)
    expected: dict[str, Mark] = {}
    for number, change in enumerate(changes, 1):
        try:
            _check_references(change, number, changes)
            _rely(before, change, expected)
            apply(after, change, f"${number}")
        except Fault as fault:
            raise numbered(fault, number, len(changes)) from None
    return Preview(
        added=[_added(after, id) for id in after.ids if id not in before],
        removed=_removed(before, after),
        changed=_changed(before, after),
        moved=_moved(before, after, changes),
        expected=expected,
    )


def differing(nodes: Sequence[Node], expected: Mapping[str, Mark]) -> list[dict[str, Any]]:
    """List where a tree is not as planned: `id`, `title`, `what`, `planned` and `now`."""
    draft = Draft(nodes)
    found: list[dict[str, Any]] = []
    for id, mark in expected.items():
        if id not in draft:
            gone = {"id": id, "title": mark.get("title", ""), "what": "gone"}
            found.append(gone)
            continue
        now = _mark(draft, id, mark)
        found.extend(
            {"id": id, "title": now["title"], "what": what, "planned": then, "now": now[what]}
            for what, then in mark.items()
            if now[what] != then
        )
    return found


def _check_references(change: Change, number: int, changes: Sequence[Change]) -> None:
    """Refuse a reference unless it names an earlier change that makes something."""
    ids = (getattr(change, name, None) for name in ("id", "parent_id"))
    for id in ids:
        target = reference(id) if id else None
        if target is None:
            continue
        if target >= number or not isinstance(changes[target - 1], Create):
            raise InvalidInput(
                f"{id} is not made by a change before this one",
                hint="$1 is the node that the first change creates",
                field="changes",
                received=id,
            )


def _rely(draft: Draft, change: Change, expected: dict[str, Mark]) -> None:
    """Note what a change takes for granted of nodes that are there before the plan begins."""
    match change:
        case Create(parent_id=parent, index=index):
            _note(draft, parent, expected, "title", *(("children",) if index is not None else ()))
        case Update(id=id):
            _note(draft, id, expected, "title", "url", "parentId")
        case Move(id=id, parent_id=parent, index=index):
            _note(draft, id, expected, "title", "url", "parentId")
            _note(draft, parent, expected, "title", *(("children",) if index is not None else ()))
        case Remove(id=id) | RemoveTree(id=id):
            for inner in draft.inside(id) if id in draft else ():
                _note(draft, inner, expected, "title", "url", "parentId", "children")


def _note(draft: Draft, id: str | None, expected: dict[str, Mark], *what: str) -> None:
    if id is not None and id in draft:
        expected.setdefault(id, {}).update(_mark(draft, id, what))


def _mark(draft: Draft, id: str, what: Sequence[str] | Mapping[str, Any]) -> Mark:
    item = draft[id]
    whole = {
        "title": item.title,
        "url": item.url,
        "parentId": item.parent,
        "children": list(item.children),
    }
    return {name: whole[name] for name in ("title", *what)}


def _added(after: Draft, id: str) -> dict[str, Any]:
    item = after[id]
    return {"ref": id, "title": item.title, "url": item.url, "in": after.path(item.parent)}


def _removed(before: Draft, after: Draft) -> list[dict[str, Any]]:
    """List the topmost of what goes, with the number of what goes with it."""
    top = [id for id in before.ids if id not in after and before[id].parent in after]
    return [
        {
            "id": id,
            "title": before[id].title,
            "url": before[id].url,
            "in": before.path(before[id].parent),
            "with": sum(inner not in after for inner in before.inside(id)) - 1,
        }
        for id in top
    ]


def _changed(before: Draft, after: Draft) -> list[dict[str, Any]]:
    found = []
    for id in before.ids:
        if id not in after:
            continue
        old, new = before[id], after[id]
        was = {
            name: getattr(old, name)
            for name in ("title", "url")
            if getattr(old, name) != getattr(new, name)
        }
        if was:
            now = {name: getattr(new, name) for name in was}
            found.append({"id": id, "was": was, "now": now, "in": after.path(new.parent)})
    return found


def _moved(before: Draft, after: Draft, changes: Sequence[Change]) -> list[dict[str, Any]]:
    """List only what is moved on purpose: a place also shifts when a neighbour goes."""
    ids = dict.fromkeys(change.id for change in changes if isinstance(change, Move))
    found = []
    for id in ids:
        if id not in before or id not in after:
            continue
        old, new = (before[id].parent, before.place(id)), (after[id].parent, after.place(id))
        if old != new:
            found.append(
                {
                    "id": id,
                    "title": after[id].title,
                    "from": before.path(old[0]),
                    "fromIndex": old[1],
                    "to": after.path(new[0]),
                    "toIndex": new[1],
                }
            )
    return found

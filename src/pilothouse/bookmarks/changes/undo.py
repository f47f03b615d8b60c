"""The way back from what was done: which changes undo it, and whether they still fit.

The steps are taken back in memory first, last one first. So each is judged by the tree as it was
right after it, and places and folders are right whatever came later in the same entry.
"""

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
    renamed,
)
from pilothouse.bookmarks.changes.draft import Draft, clean_title
from pilothouse.bookmarks.tree.urls import same_key
from pilothouse.core.declare.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pilothouse.bookmarks.changes.change import Change
    from pilothouse.bookmarks.changes.journal_entry import ChromeCall, JournalEntry
    from pilothouse.bookmarks.model import Node

type Naming = Callable[[str], str]
"""A function from the id that a node had then to the one that it has now."""

SLACK_MS = 5_000.0
"""Milliseconds that the clocks of Chrome and of this process may be apart."""


@dataclass(frozen=True, slots=True)
class Differing:
    """A difference that somebody else made to what a step left behind."""

    id: str
    title: str
    what: str
    left: Any = None
    """Value as the step left it."""
    now: Any = None
    blocks: bool = False
    """The step cannot be taken back at all."""

    @property
    def reported(self) -> dict[str, Any]:
        told = {"id": self.id, "title": self.title, "what": self.what}
        return told if self.blocks else {**told, "left": self.left, "now": self.now}

    def __str__(self) -> str:
        if self.blocks:
            return f"{self.title!r} ({self.id}) {self.what}"
        return f"{self.title!r} ({self.id}) has another {self.what}"


@dataclass(frozen=True, slots=True)
class UndoStep:
    """The changes that take one step back."""

    number: int
    """Number of the step."""
    changes: tuple[Change, ...]
    differing: tuple[Differing, ...]


def way_back(
    draft: Draft, entry: JournalEntry, now: Naming, *, force: bool = True
) -> list[UndoStep]:
    """Return how to take back what is done of an entry and not taken back yet, in this order.

    The draft is the tree as it is, and as it will be afterwards. Steps that somebody else's
    changes block are not in it; without `force`, nor are those that would overwrite such changes.
    """
    turns = []
    taken_back = entry.taken_back
    for number, step in reversed(entry.done):
        already = taken_back.get(number, 0)
        if already is None:
            continue
        differing = () if already else tuple(_differing(draft, step, now))
        is_free = not differing or (force and not any(one.blocks for one in differing))
        changes: list[Change] = []
        if is_free:
            try:
                for change in _inverse(draft, step, now)[already:]:
                    fitted = _fitted(draft, change)
                    apply(draft, fitted)
                    changes.append(fitted)
            except Fault as fault:
                node = step.was or step.made
                title = str(node.get("title", ""))
                differing += (
                    Differing(str(node["id"]), title, f"stays: {fault.message}", blocks=True),
                )
                changes = []
        if changes or differing:
            turns.append(UndoStep(number, tuple(changes), differing))
    return turns


def gathered(tree: Sequence[Node], changes: Sequence[Change]) -> list[Change]:
    """Gather removals, if there is nothing else, into one call for a folder and all in it.

    Undoing an import of thousands would otherwise take as long as the import.
    """
    if not all(isinstance(change, Remove) for change in changes):
        return list(changes)
    draft = Draft(tree)
    ids = {change.id for change in changes if isinstance(change, Remove)}
    top = [id for id in draft.ids if id in ids and draft[id].parent not in ids]
    return [RemoveTree(id) if draft[id].children else Remove(id) for id in reversed(top)]


def _inverse(draft: Draft, step: ChromeCall, now: Naming) -> list[Change]:
    """Return the changes that undo a step, with the ids of now."""
    was = step.was or {}
    match step.change:
        case Create():
            return [Remove(now(step.made["id"]))]
        case Update(id=id, title=title, url=url):
            return [
                Update(
                    now(id),
                    was["title"] if title is not None else None,
                    was.get("url") if url is not None else None,
                )
            ]
        case Move(id=id):
            return [_placing(draft, now(id), now(was["parentId"]), was["index"])]
        case Remove() | RemoveTree():
            return [renamed(change, now) for change in _restoring(was)]


def _restoring(was: Node) -> list[Change]:
    """Return creations of a removed node and all that was in it, folders before their content."""
    changes: list[Change] = []
    waiting = [was]
    while waiting:
        node = waiting.pop()
        changes.append(
            Create(
                node["parentId"],
                node["title"],
                node.get("url"),
                was["index"] if node is was else None,
                restores=node["id"],
            )
        )
        waiting.extend(reversed(node.get("children", ())))
    return changes


def _placing(draft: Draft, id: str, parent_id: str, place: int) -> Move:
    """Return the move that puts a node at a place, or at the end if there are too few now."""
    others = [child for child in draft[parent_id].children if child != id]
    place = min(place, len(others))
    if draft[id].parent == parent_id and place > draft.place(id):
        place += 1
    return Move(id, parent_id, place)


def _fitted(draft: Draft, change: Change) -> Change:
    """Return the same change with a place that there is: a neighbour may have gone."""
    if not isinstance(change, Create) or change.index is None or change.parent_id is None:
        return change
    count = len(draft[change.parent_id].children)
    if change.index <= count:
        return change
    return Create(change.parent_id, change.title, change.url, count, change.restores)


def _differing(draft: Draft, step: ChromeCall, now: Naming) -> list[Differing]:
    """Return where the tree is not as a step left it, so far as taking back depends on it."""
    was, made = step.was or {}, step.made
    match step.change:
        case Create():
            id = now(made["id"])
            found = _unlike(draft, id, made, now, "title", "url", "parentId")
            if id in draft and draft[id].children:
                title = draft[id].title
                found.append(Differing(id, title, "has something in it now", blocks=True))
            return found
        case Update(id=id, title=title, url=url):
            fields = [name for name, new in (("title", title), ("url", url)) if new is not None]
            return _unlike(draft, now(id), made, now, *fields)
        case Move(id=id):
            return [
                *_unlike(draft, now(id), made, now, "parentId"),
                *_missing(draft, now(was["parentId"]), was),
            ]
        case Remove() | RemoveTree():
            return _missing(draft, now(was["parentId"]), was)


def _unlike(draft: Draft, id: str, made: Node, now: Naming, *fields: str) -> list[Differing]:
    if id not in draft:
        return [Differing(id, str(made.get("title", "")), "is gone", blocks=True)]
    item = draft[id]
    found = []
    for name in fields:
        left = now(made[name]) if name == "parentId" else made.get(name)
        here = item.parent if name == "parentId" else getattr(item, name)
        if left != here:
            found.append(Differing(id, item.title, name, left, here))
    return found


def _missing(draft: Draft, parent_id: str, was: Node) -> list[Differing]:
    if parent_id in draft:
        return []
    return [Differing(parent_id, str(was.get("title", "")), "has lost its folder", blocks=True)]


def found_done(draft: Draft, step: ChromeCall, is_known: Callable[[str], bool]) -> Node | None:
    """Return the node if a step that was begun was carried out, by the tree of now; else None.

    `is_known` tells of a node whether another step is known to have made it.
    """
    match step.change:
        case Create() as change:
            return _twin(draft, step, change, is_known)
        case Update(id=id, title=title, url=url):
            if id not in draft:
                return None
            was, item = step.was or {}, draft[id]
            as_asked = (title is None or item.title == clean_title(title)) and (
                url is None or same_key(item.url or "") == same_key(url)
            )
            is_as_before = (item.title, item.url) == (was.get("title"), was.get("url"))
            return draft.node(id) if as_asked or not is_as_before else None
        case Move(id=id):
            if id not in draft:
                return None
            node, was = draft.node(id), step.was or {}
            same = all(node.get(name) == was.get(name) for name in ("parentId", "index"))
            return None if same else node
        case Remove(id=id) | RemoveTree(id=id):
            return None if id in draft else {"id": id}


def _twin(
    draft: Draft, step: ChromeCall, change: Create, is_known: Callable[[str], bool]
) -> Node | None:
    """Return the node that looks like the one that was to be made, and is as young."""
    parent = change.parent_id if change.parent_id is not None else draft.other
    children: Iterable[str] = draft[parent].children if parent in draft else ()
    twins = [
        id
        for id in children
        if draft[id].title == clean_title(change.title)
        and (draft[id].url is None) == (change.url is None)
        and same_key(draft[id].url or "") == same_key(change.url or "")
        and draft[id].added >= step.at - SLACK_MS
        and not is_known(id)
    ]
    # Chrome counts its ids upwards, so that the last made has the highest.
    newest = max(twins, key=lambda id: (len(id), id), default=None)
    return None if newest is None else draft.node(newest)

"""Changes of bookmarks as values: what one is, and which call of Chrome's makes it.

Later changes of one list may name a node that an earlier one makes: `$1` is what the first made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pilothouse.bookmarks.changes.draft import Draft
    from pilothouse.core.declare.faults import Fault


@dataclass(frozen=True, slots=True)
class Create:
    """A new bookmark, or a new folder if it has no URL."""

    parent_id: str | None
    """Id of the folder; None: Chrome's folder for other bookmarks."""
    title: str
    url: str | None = None
    index: int | None = None
    """Place in the folder; None: at the end."""
    restores: str = ""
    """Id of the removed node that it brings back: Chrome never gives an id twice."""


@dataclass(frozen=True, slots=True)
class Update:
    id: str
    title: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    id: str
    parent_id: str
    index: int | None = None
    """Counted as Chrome does: before the node is taken out of the folder that it stays in."""


@dataclass(frozen=True, slots=True)
class Remove:
    """A removal of a bookmark, or of a folder with nothing in it."""

    id: str


@dataclass(frozen=True, slots=True)
class RemoveTree:
    """A removal of a folder with all that is in it."""

    id: str


type Change = Create | Update | Move | Remove | RemoveTree

_KINDS: dict[str, type[Change]] = {
    "create": Create,
    "update": Update,
    "move": Move,
    "remove": Remove,
    "removeTree": RemoveTree,
}
_METHODS = {kind: method for method, kind in _KINDS.items()}
_NAMES = {"parent_id": "parentId"}
_REFERENCE = re.compile(r"\$([1-9][0-9]{0,5})")


def method_of(change: Change) -> str:
    """Return the function of `chrome.bookmarks` that makes it."""
    return _METHODS[type(change)]


def params_of(change: Change) -> dict[str, Any]:
    """Return the arguments of that function; absent ones are left out."""
    fields = ((name, getattr(change, name)) for name in type(change).__slots__)
    return {
        _NAMES.get(name, name): value
        for name, value in fields
        if value is not None and name != "restores"
    }


def to_json(change: Change) -> dict[str, Any]:
    restored = {"restores": change.restores} if isinstance(change, Create) else {}
    return {
        "do": method_of(change),
        **params_of(change),
        **{name: value for name, value in restored.items() if value},
    }


def from_json(data: Mapping[str, Any]) -> Change:
    """Make a change of its JSON. Raises KeyError, TypeError: it is none."""
    given = {("parent_id" if name == "parentId" else name): data[name] for name in data}
    kind = _KINDS[given.pop("do")]
    if kind is Create:
        given.setdefault("parent_id", None)
    return kind(**given)


def renamed(change: Change, name: Callable[[str], str]) -> Change:
    """Return the same change of nodes with other ids."""
    match change:
        case Create(parent_id=None):
            return change
        case Create(parent_id=parent):
            assert parent is not None
            return replace(change, parent_id=name(parent))
        case Move():
            return replace(change, id=name(change.id), parent_id=name(change.parent_id))
        case _:
            return replace(change, id=name(change.id))


def reference(id: str) -> int | None:
    """Return the number, from 1, of the change whose node an id such as `$1` stands for."""
    found = _REFERENCE.fullmatch(id)
    return int(found[1]) if found else None


def apply(draft: Draft, change: Change, new_id: str = "") -> None:
    """Make a change in memory, as Chrome would; what it creates gets the id that it restores.

    Raises:
        BookmarkNotFound, RootFolder, FolderNotEmpty, InvalidInput: Chrome would not do it either.
    """
    match change:
        case Create(parent, title, url, index, restores):
            draft.create(restores or new_id, parent, title, url, index)
        case Update():
            draft.update(change.id, change.title, change.url)
        case Move():
            draft.move(change.id, change.parent_id, change.index)
        case Remove():
            draft.remove(change.id)
        case RemoveTree():
            draft.remove(change.id, whole=True)


def numbered(fault: Fault, number: int, of: int, beside: str = "", **details: object) -> Fault:
    """Return the same fault, saying which change of a list it is about."""
    if of < 2:
        return fault
    message = f"change {number} of {of}: {fault.message}{beside}"
    return type(fault)(message, hint=fault.hint, **fault.details, change=number, **details)

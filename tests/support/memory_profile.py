"""A profile with its bookmarks in memory, with a connection that can be lost at any write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import anyio

from pilothouse.bookmarks.changes.change import Create, Move, Remove, RemoveTree, Update, apply
from pilothouse.bookmarks.changes.draft import Draft
from pilothouse.bookmarks.model import ConnectionLost
from pilothouse.core.declare.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pilothouse.bookmarks.changes.change import Change
    from pilothouse.bookmarks.changes.journal import Journal
    from pilothouse.bookmarks.ports import Peer

WRITES = ("create", "update", "move", "remove", "removeTree")
type Roll = tuple[int, int, int, int]


class MemoryProfile:
    """One profile, as the tools get it."""

    def __init__(self, peer: Peer, journal: Journal) -> None:
        self.peer = peer
        self.journal = journal
        self._lock = anyio.Lock()

    def writing(self) -> Any:
        return self._lock


class Breaking:
    """A peer whose connection is lost at one write, counted from 1, before it is made or after."""

    id = "profile-1"
    name = "Test"

    def __init__(self, chrome: Peer, at: int, when: Literal["before", "after"]) -> None:
        self._chrome = chrome
        self._at = at
        self._when = when
        self._count = 0
        self.is_lost = False

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        if self.is_lost:
            raise ConnectionLost("the connection was lost")
        self._count += method in WRITES
        if self._count < self._at:
            return await self._chrome.ask(method, params)
        if self._when == "after":
            await self._chrome.ask(method, params)
        self.is_lost = True
        raise ConnectionLost(f"the connection was lost {self._when} {method}")


def possible_changes(tree: Sequence[dict[str, Any]], rolls: Sequence[Roll]) -> list[Change]:
    """Changes that Chrome would make of this tree one after the other, chosen by numbers."""
    draft = Draft(tree)
    changes: list[Change] = []
    for kind, which, where, index in rolls:
        ids = draft.ids
        id, parent = ids[which % len(ids)], ids[where % len(ids)]
        place = None if index % 4 == 0 else index % 5
        url = f"https://example.com/{index}" if index % 3 else None
        change: Change = (
            Create(parent, f"new {index}", url, place),
            Update(id, f"renamed {index}", url),
            Move(id, parent, place),
            Move(id, parent, place),
            Remove(id),
            RemoveTree(id),
        )[kind % 6]
        try:
            apply(draft, change, f"${len(changes) + 1}")
        except Fault:
            continue
        changes.append(change)
    return changes

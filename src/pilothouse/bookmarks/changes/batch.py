"""One write or a batch of them, as one entry of the journal.

A batch is tried on a copy of the tree first: what Chrome would refuse is told with its item, and
all the rest is carried out together, so that one undo takes it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pilothouse.bookmarks.changes.apply import carry_out
from pilothouse.bookmarks.changes.change import Create, apply
from pilothouse.bookmarks.changes.draft import Draft
from pilothouse.bookmarks.changes.outcomes import all_failed, outcomes
from pilothouse.bookmarks.model import CONNECTION
from pilothouse.bookmarks.tree.mask import masked
from pilothouse.bookmarks.tree.paths import find, locate
from pilothouse.core.declare.faults import Fault, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pydantic import BaseModel

    from pilothouse.bookmarks.changes.change import Change
    from pilothouse.bookmarks.model import Node
    from pilothouse.bookmarks.ports import Bookmarks, Peer, Profile

MOST_ITEMS = 1_000


@dataclass(slots=True)
class ChangeList:
    """A list of changes in the making, with the folders that they need made before them."""

    peer: Peer
    makes_folders: bool = False
    made: list[Change] = field(default_factory=list)
    _folders: dict[tuple[str, str], int] = field(default_factory=dict)
    """Parent and title → the number of the change that makes the folder, from 1."""

    async def node(self, address: str) -> str:
        """Return the id that an address leads to."""
        return await find(self.peer, address)

    async def folder(self, address: str, *, makes: bool | None = None) -> str:
        """Return the id of a folder, or the reference to one that an earlier change makes.

        `makes` is what the item itself says of folders that are missing.
        """
        if not (self.makes_folders if makes is None else makes):
            return await find(self.peer, address, field="parentId", folder=True)
        place = await locate(self.peer, address, field="parentId")
        parent = place.id
        for title in place.missing:
            key = parent, title
            if key not in self._folders:
                self.made.append(Create(parent, title))
                self._folders[key] = len(self.made)
            parent = f"${self._folders[key]}"
        return parent

    def back_to(self, length: int) -> None:
        """Forget the changes from there on, and the folders among them."""
        del self.made[length:]
        self._folders = {key: made for key, made in self._folders.items() if made <= length}


type Make[T] = Callable[[T, ChangeList], Awaitable[Change]]
"""From the arguments of one item to its change."""


@dataclass(slots=True)
class ProfileWriter:
    """The writes of one call of a tool to one profile."""

    tool: str
    bookmarks: Bookmarks
    profile: Profile
    changes: ChangeList

    async def one[T](self, item: T, make: Make[T]) -> Node | None:
        """Carry out one change; return the node as it is now, masked, None if it is removed."""
        self.changes.made.append(await make(item, self.changes))
        node = (await self._carry_out())[-1]
        return node and masked(node, self.bookmarks.redactor)

    async def many[T: BaseModel](
        self, items: Sequence[dict[str, Any]], kind: type[T], make: Make[T]
    ) -> dict[str, Any]:
        """Carry out those of the items that can be, and tell of each what came of it."""
        _check_number(items)
        made = self.changes.made
        draft = Draft(await self.profile.peer.ask("getTree"))
        results: list[int | Fault] = []
        for number, item in enumerate(items):
            start = len(made)
            try:
                made.append(await make(_read(kind, item, number), self.changes))
                _try(draft, made, start)
                results.append(len(made) - 1)
            except Fault as fault:
                if isinstance(fault, CONNECTION):
                    raise
                self.changes.back_to(start)
                results.append(fault)
        nodes = await self._carry_out() if made else []
        redactor = self.bookmarks.redactor
        came = [result if isinstance(result, Fault) else nodes[result] for result in results]
        told = outcomes(
            items, [masked(one, redactor) if isinstance(one, dict) else one for one in came]
        )
        told = [redactor.texts(one) if "error" in one else one for one in told]
        failed = sum("error" in one for one in told)
        if failed == len(told):
            raise all_failed(told)
        return {"results": told, "done": len(told) - failed, "failed": failed}

    async def _carry_out(self) -> list[Node | None]:
        session = self.bookmarks.session
        return (await carry_out(self.profile, self.tool, session, self.changes.made)).nodes


def writer(
    tool: str, bookmarks: Bookmarks, profile_name: str | None, *, makes_folders: bool | None = None
) -> ProfileWriter:
    profile = bookmarks.profile(profile_name)
    return ProfileWriter(tool, bookmarks, profile, ChangeList(profile.peer, bool(makes_folders)))


def _check_number(items: Sequence[object]) -> None:
    if not 0 < len(items) <= MOST_ITEMS:
        raise InvalidInput(
            f"items: {len(items)} were given",
            hint="split them over several calls" if items else "give at least one",
            field="items",
            expected=f"a list of 1 to {MOST_ITEMS} objects",
        )


def _read[T: BaseModel](kind: type[T], item: dict[str, Any], number: int) -> T:
    try:
        return kind.model_validate(item)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = ".".join(map(str, problem["loc"]))
        raise InvalidInput(
            f"{name}: {problem['msg'].lower()}",
            hint=f"an item takes {', '.join(f.alias or n for n, f in kind.model_fields.items())}",
            field=f"items.{number}.{name}",
        ) from None


def _try(draft: Draft, changes: Sequence[Change], start: int) -> None:
    """Make the changes from `start` on in the draft, all or none of them.

    Raises:
        Fault: Chrome would refuse one.
    """
    done: list[str] = []
    try:
        for place, change in enumerate(changes[start:], start):
            apply(draft, change, f"${place + 1}")
            done.append(f"${place + 1}")
    except Fault:
        # Only folders can have been made before: the item's own change is the last.
        for id in reversed(done):
            draft.remove(id)
        raise

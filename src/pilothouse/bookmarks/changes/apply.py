"""Changing bookmarks, all or nothing: every tool that writes does it here.

Chrome has no transactions. So each step is written into the journal before it is made, with the
node as it was; when one fails, those before it are taken back in reverse. Where the connection or
the process is lost meanwhile, the entry stays open, and is settled as soon as the profile is there
again: the bookmarks themselves tell whether the step in flight was carried out.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.bookmarks.changes.change import (
    Create,
    RemoveTree,
    method_of,
    numbered,
    params_of,
    reference,
    renamed,
)
from pilothouse.bookmarks.changes.draft import Draft
from pilothouse.bookmarks.changes.journal_entry import summary
from pilothouse.bookmarks.changes.preview import differing
from pilothouse.bookmarks.changes.undo import found_done, gathered, way_back
from pilothouse.bookmarks.model import (
    CONNECTION,
    BookmarkNotFound,
    ChangedMeanwhile,
    ConnectionLost,
    ExtensionNotConnected,
    ExtensionTimeout,
    FolderNotEmpty,
    InvalidUrl,
    RootFolder,
)
from pilothouse.core.declare.faults import Fault, NotAvailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from pilothouse.bookmarks.changes.change import Change
    from pilothouse.bookmarks.changes.journal_entry import JournalEntry, Outcome
    from pilothouse.bookmarks.changes.preview import Mark
    from pilothouse.bookmarks.model import Node
    from pilothouse.bookmarks.ports import Profile

    type Tell = Callable[[int, int], Awaitable[None]]

CHANGING: tuple[type[Fault], ...] = (
    *CONNECTION,
    BookmarkNotFound,
    InvalidUrl,
    RootFolder,
    FolderNotEmpty,
    ChangedMeanwhile,
    NotAvailable,
)
"""Faults that every tool that writes may answer."""

_BROKEN = (ConnectionLost, ExtensionTimeout, ExtensionNotConnected)
"""Faults after which nobody knows whether the step in flight was carried out."""
_PLAN_ANEW = "call bookmark_plan again: it shows what the changes would do now"
_FORCE = "force: true overwrites that; bookmark_get shows how it is now"
_STAYS = (
    "as it is now it cannot be undone, not even with force; bookmark_journal lists earlier changes:"
    " pass the entry of one"
)
_SHOWN = 10
"""Most differences that a fault names."""


@dataclass(frozen=True, slots=True)
class AppliedChanges:
    """The changes that were carried out."""

    entry: str
    """Entry of the journal; bookmark_undo takes it. Empty if there was nothing to do."""
    nodes: list[Node | None]
    """Nodes as they are now, one for each change; None for one that is removed."""
    id_map: dict[str, str] = field(default_factory=dict)
    """Ids of removed nodes → of those that were made in their place."""
    undoes: str = ""
    left: list[str] = field(default_factory=list)
    """Parts that an undo could not bring back, and why."""
    did: list[str] = field(default_factory=list)
    """Summary of what an undo took back."""
    by: str = ""
    """The session that had done that."""


async def carry_out(
    profile: Profile,
    tool: str,
    session: str,
    changes: Sequence[Change],
    *,
    expected: Mapping[str, Mark] | None = None,
    tell: Tell | None = None,
) -> AppliedChanges:
    """Make all of the changes, or none; `$1` is the node that the first of them makes.

    `tell` is called after each with how many are made, and of how many.

    Raises:
        ChangedMeanwhile: the bookmarks are not as `expected`; nothing was done.
        Fault: of `CHANGING`. What was done before it has been taken back, or the message says
            that this is still to come.
    """
    async with _writing(profile):
        if expected:
            _must_be_same(differing(await profile.peer.ask("getTree"), expected))
        entry = profile.journal.begin(tool, session, len(changes))
        return await _carry_out(profile, entry, changes, tell)


async def undo(
    profile: Profile,
    entry_id: str | None = None,
    *,
    session: str = "",
    tool: str = "bookmark_undo",
    force: bool = False,
) -> AppliedChanges:
    """Take back what an entry did; without one, what the session did last.

    It is an entry itself: undone, it is done again. `force` overwrites what others changed since;
    it never removes what they added.

    Raises:
        NothingToUndo: there is no such entry, or it was undone.
        ChangedMeanwhile: others changed it since; nothing was done.
        Fault: of `CHANGING`, as for `carry_out`.
    """
    async with _writing(profile):
        journal = profile.journal
        undone = journal.undoable(entry_id, session)
        tree = await profile.peer.ask("getTree")
        turns = way_back(Draft(tree), undone, journal.current, force=True)
        found = [one for turn in turns for one in turn.differing]
        if not force:
            can_force = any(turn.changes for turn in turns)
            _must_be_same([one.reported for one in found], _FORCE if can_force else _STAYS)
        changes = gathered(tree, [change for turn in turns for change in turn.changes])
        entry = journal.begin(tool, session, len(changes), undone.id)
        done = await _carry_out(profile, entry, changes)
        left = [str(one) for one in found if one.blocks]
        return AppliedChanges(
            done.entry, done.nodes, done.id_map, undone.id, left, summary(undone), undone.session
        )


async def recover(profile: Profile) -> list[JournalEntry]:
    """Settle what an earlier connection or process left open; what could be settled.

    Losing the connection again is no failure: it is tried once more with the next one, and
    before the next change.
    """
    waiting: list[JournalEntry] = []
    with suppress(Fault):
        profile.journal.catch_up()
        waiting = profile.journal.open_entries
        if waiting:
            async with _writing(profile):
                pass
    return [entry for entry in waiting if entry.outcome]


@asynccontextmanager
async def _writing(profile: Profile) -> AsyncIterator[None]:
    """Hold the bookmarks for one change alone, with nothing left open by an earlier one."""
    async with profile.writing():
        # Whoever gives up waiting must not leave half of it behind.
        with anyio.CancelScope(shield=True):
            profile.journal.catch_up()
            for entry in profile.journal.open_entries:
                await _settle(profile, entry)
            yield


async def _carry_out(
    profile: Profile, entry: JournalEntry, changes: Sequence[Change], tell: Tell | None = None
) -> AppliedChanges:
    if not changes:
        return AppliedChanges("", [])
    nodes: list[Node | None] = []
    for number, change in enumerate(changes, 1):
        named = renamed(change, lambda id: _named(profile, entry, id, nodes))
        try:
            is_last = number == len(changes)
            nodes.append(await _step(profile, entry, named, ends="done" if is_last else ""))
        except _BROKEN as fault:
            raise _unsettled(fault, entry, number) from fault
        except Fault as fault:
            raise await _given_up(profile, entry, fault, number) from None
        if tell is not None:
            await tell(number, len(changes))
    return AppliedChanges(entry.id, nodes, entry.id_map)


def _named(profile: Profile, entry: JournalEntry, id: str, nodes: Sequence[Node | None]) -> str:
    """Return the real id of a node that an earlier change made or brought back."""
    number = reference(id)
    made = nodes[number - 1] if number is not None and number <= len(nodes) else None
    if made is not None:
        return str(made["id"])
    return profile.journal.current(id) if entry.undoes else id


async def _step(
    profile: Profile,
    entry: JournalEntry,
    change: Change,
    *,
    back: int | None = None,
    ends: Outcome = "",
) -> Node | None:
    """Make one call of Chrome's: record what it touches, make it, record what came of it."""
    peer, journal = profile.peer, profile.journal
    was = await _before(profile, change)
    number = journal.step(entry, change, was, back)
    try:
        made: Node | None = await peer.ask(method_of(change), params_of(change))
    except _BROKEN:
        raise
    except Fault:
        journal.refused(entry, number)
        raise
    journal.did(entry, number, made, ends)
    return made


async def _before(profile: Profile, change: Change) -> Node | None:
    """Return what has to be known of a node to take the change back; of a new one nothing."""
    if isinstance(change, Create):
        return None
    try:
        if isinstance(change, RemoveTree):
            nodes = await profile.peer.ask("getSubTree", {"id": change.id})
        else:
            nodes = await profile.peer.ask("get", {"ids": [change.id]})
    except BookmarkNotFound as fault:
        fault.details.setdefault("id", change.id)
        raise
    node: Node = nodes[0]
    return node


async def _given_up(profile: Profile, entry: JournalEntry, fault: Fault, number: int) -> Fault:
    """Take back what was done before a change failed; return the fault that says so."""
    count = len(entry.done)
    if entry.id in profile.journal:
        try:
            await _take_back(profile, entry)
        except Fault as lost:
            return _unsettled(lost, entry, number, f"{fault.message}; then ")
    if not count:
        return numbered(fault, number, entry.of, "; nothing was changed")
    beside = "; what was done before it has been taken back"
    if entry.left:
        beside += f", but not all: {'; '.join(entry.left[:_SHOWN])}"
    return numbered(fault, number, entry.of, beside, idMap=entry.id_map or None)


def _unsettled(fault: Fault, entry: JournalEntry, number: int, before: str = "") -> Fault:
    """Return the fault of a call whose entry stays open."""
    if not entry.steps:
        return fault
    which = f"change {number} of {entry.of}: " if entry.of > 1 else ""
    return type(fault)(
        f"{which}{before}{fault.message}; entry {entry.id} of the journal is settled as soon as"
        " Chrome answers again: it stands if all of it was carried out, else all is taken back",
        hint=f"call bookmark_journal later: it lists {entry.id}, unless nothing of it was done;"
        f" {fault.hint}",
        **fault.details,
        entry=entry.id,
    )


async def _settle(profile: Profile, entry: JournalEntry) -> None:
    """Close an entry that was left open: it stands if all of it was done, else all goes back."""
    journal, number = profile.journal, entry.in_flight
    if number is not None:
        draft = Draft(await profile.peer.ask("getTree"))
        made = found_done(draft, entry.steps[number], journal.has_made)
        if made is None:
            journal.refused(entry, number)
        else:
            journal.did(entry, number, made)
    if entry.is_whole:
        journal.end(entry, "done")
    else:
        await _take_back(profile, entry)


async def _take_back(profile: Profile, entry: JournalEntry) -> None:
    """Undo what is done of an entry; what others changed meanwhile is left to them."""
    journal = profile.journal
    turns = []
    if entry.done:
        draft = Draft(await profile.peer.ask("getTree"))
        turns = way_back(draft, entry, journal.current, force=False)
    for turn in turns:
        if turn.differing:
            journal.leave(entry, turn.number, "; ".join(map(str, turn.differing)))
        for change in turn.changes:
            named = renamed(change, journal.current)
            try:
                await _step(profile, entry, named, back=turn.number)
            except (*_BROKEN, NotAvailable):
                raise
            except Fault as fault:
                journal.leave(entry, turn.number, f"{method_of(named)}: {fault.message}")
                break
    journal.end(entry, "partly taken back" if entry.left else "taken back")


def _must_be_same(found: list[dict[str, Any]], hint: str = _PLAN_ANEW) -> None:
    if not found:
        return
    titles = ", ".join(dict.fromkeys(f"{one['title']!r} ({one['what']})" for one in found[:_SHOWN]))
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise ChangedMeanwhile(
        f"somebody else changed {titles}{more} since; nothing was done",
        hint=hint,
        changed=found[:_SHOWN],
        count=len(found),
    )

"""Tools that change many bookmarks at once or not at all, and that take back what was done."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, PrivateAttr

from pilothouse.bookmarks.changes.apply import CHANGING, carry_out, undo
from pilothouse.bookmarks.changes.change import (
    Change,
    Create,
    Move,
    Remove,
    RemoveTree,
    Update,
    numbered,
    reference,
)
from pilothouse.bookmarks.changes.journal_entry import summary
from pilothouse.bookmarks.changes.plans import PlanNotFound
from pilothouse.bookmarks.changes.preview import dry_run
from pilothouse.bookmarks.model import (
    ConnectionLost,
    ExtensionTimeout,
    FolderNotEmpty,
    InvalidUrl,
    NothingToUndo,
    RootFolder,
)
from pilothouse.bookmarks.ports import Bookmarks
from pilothouse.bookmarks.tools.shared import ADDRESSED, BOOKMARKS, BookmarkArgs
from pilothouse.bookmarks.tree.mask import masked
from pilothouse.bookmarks.tree.paths import find
from pilothouse.bookmarks.tree.urls import check_url, is_masked
from pilothouse.core.declare.faults import Fault, InvalidInput, NotAvailable
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.tool import Example, tool
from pilothouse.core.timeline.clock import iso

if TYPE_CHECKING:
    from pilothouse.bookmarks.changes.journal_entry import JournalEntry
    from pilothouse.bookmarks.ports import Peer, Profile
    from pilothouse.core.declare.fence import Story

MOST_CHANGES = 1_000
SHOWN = 100
"""Most that are shown of each kind of difference; the counts are of all."""


class PlannedChange(Args):
    do: Literal["create", "update", "move", "remove", "removeTree"] = Field(description="What")
    id: str | None = Field(default=None, description="Id or path; $1: made by change 1")
    parent_id: str | None = Field(default=None, description="Folder, likewise")
    title: str | None = Field(default=None, description="Title")
    url: str | None = Field(default=None, description="Without: a folder")
    index: int | None = Field(default=None, ge=0, description="Place in it")


class BookmarkPlan(BookmarkArgs):
    changes: list[PlannedChange] = Field(
        min_length=1, max_length=MOST_CHANGES, description="In this order"
    )


class Planned(Result):
    plan_id: str = Field(description="For bookmark_apply")
    adds: int = Field(description="How many nodes it makes")
    removes: int = Field(description="How many it removes, with all that is in them")
    changes: int = Field(description="How many get another title or URL")
    moves: int = Field(description="How many it moves")
    added: list[dict[str, Any]] = Field(description="New nodes; ref is what the plan calls them")
    removed: list[dict[str, Any]] = Field(description="With: how many more go with it")
    changed: list[dict[str, Any]] = Field(description="Each as it was and as it will be")
    moved: list[dict[str, Any]] = Field(description="From where to where")

    def tell(self, story: Story) -> None:
        story.say(
            f"Plan {self.plan_id}: adds {self.adds}, removes {self.removes}, changes"
            f" {self.changes}, moves {self.moves}. Nothing was changed yet."
        )
        story.say(f"Next: bookmark_apply with planId {self.plan_id}.")
        for label in ("added", "removed", "changed", "moved"):
            if found := getattr(self, label):
                story.quote(label if len(found) < SHOWN else f"{label}, the first {SHOWN}", found)


@tool(
    BOOKMARKS,
    effect="read",
    own=True,
    raises=(*ADDRESSED, InvalidUrl, RootFolder, FolderNotEmpty, NotAvailable),
    examples=(
        Example(
            title="A new folder with something in it",
            args={
                "changes": [
                    {"do": "create", "parentId": "Bar", "title": "Later"},
                    {"do": "move", "id": "42", "parentId": "$1"},
                ]
            },
        ),
    ),
)
async def bookmark_plan(args: BookmarkPlan, bookmarks: Bookmarks) -> Planned:
    """Show what changes would do, without making them; bookmark_apply makes all or none."""
    profile = bookmarks.profile(args.profile)
    changes = []
    for number, asked in enumerate(args.changes, 1):
        try:
            changes.append(await _change(asked, profile.peer))
        except Fault as fault:
            raise numbered(fault, number, len(args.changes)) from None
    preview = dry_run(await profile.peer.ask("getTree"), changes)
    plan = profile.journal.plans.add(bookmarks.session, changes, preview.expected)
    lists = {
        name: bookmarks.redactor.texts(getattr(preview, name)[:SHOWN])
        for name in ("added", "removed", "changed", "moved")
    }
    return Planned(
        plan_id=plan.id,
        adds=len(preview.added),
        removes=sum(1 + one["with"] for one in preview.removed),
        changes=len(preview.changed),
        moves=len(preview.moved),
        **lists,
    )


class BookmarkApply(Args):
    plan_id: str = Field(description="Of bookmark_plan")


class Applied(Result):
    entry: str = Field(description="For bookmark_undo")
    nodes: list[dict[str, Any] | None] = Field(description="Of each change; null if removed")

    def tell(self, story: Story) -> None:
        story.say(
            f"All {len(self.nodes)} changes were made. bookmark_undo {self.entry} undoes them."
        )
        made = [{"change": n, **node} for n, node in enumerate(self.nodes, 1) if node]
        if made:
            story.quote("nodes", made[:SHOWN])


@tool(
    BOOKMARKS,
    effect="destroy",
    own=True,
    raises=(*CHANGING, PlanNotFound),
    examples=(Example(title="Carry it out", args={"planId": "p-12ab34cd"}),),
)
async def bookmark_apply(args: BookmarkApply, bookmarks: Bookmarks) -> Applied:
    """Carry out a plan: all of it, or nothing if the bookmarks changed since or a change fails."""
    for profile in bookmarks.profiles or [bookmarks.profile(None)]:
        plans = profile.journal.plans
        if plan := plans.find(args.plan_id, bookmarks.session):
            break
    else:
        raise PlanNotFound(
            f"there is no plan {args.plan_id[:40]}",
            hint="it was applied, is older than an hour, or its Chrome is not connected:"
            " call bookmark_plan again",
        )
    try:
        done = await carry_out(
            profile, "bookmark_apply", bookmarks.session, plan.changes, expected=plan.expected
        )
    except (ConnectionLost, ExtensionTimeout) as fault:
        if "entry" in fault.details:
            plans.drop(plan)  # it may come to stand yet, and must not be carried out twice
        raise
    plans.drop(plan)
    nodes = [node and masked(node, bookmarks.redactor) for node in done.nodes]
    return Applied(entry=done.entry, nodes=nodes)


class BookmarkUndo(BookmarkArgs):
    entry: str | None = Field(default=None, description="Default: your last change")
    force: bool = Field(default=False, description="Overwrite what others changed since")


class Undone(Result):
    entry: str = Field(description="Of this undo: undone itself, it is done again")
    undone: str = Field(description="What was undone")
    id_map: dict[str, str] = Field(description="Old ids of what was brought back → new ones")
    left: list[str] = Field(description="What could not be brought back, and why")
    _did: list[str] = PrivateAttr(default_factory=list)
    _is_others: bool = PrivateAttr(default=False)

    def tell(self, story: Story) -> None:
        if self.entry:
            story.say(f"{self.undone} is undone. bookmark_undo {self.entry} does it again.")
            # A session that did nothing itself undoes the last of all, whoever that was.
            if self._is_others:
                story.say("It was the change of another session.")
            story.quote("what is undone", self._did)
        else:
            story.say(f"Nothing of {self.undone} could be undone.")
        if self.id_map:
            story.say(f"{len(self.id_map)} were brought back under new ids.")
            story.quote("idMap", dict(list(self.id_map.items())[:SHOWN]))
        if self.left:
            story.quote("left as it is", self.left[:SHOWN])


@tool(
    BOOKMARKS,
    effect="destroy",
    own=True,
    raises=(*CHANGING, NothingToUndo),
    examples=(
        Example(title="The last change"),
        Example(title="A certain one", args={"entry": "12-9af3"}),
    ),
)
async def bookmark_undo(args: BookmarkUndo, bookmarks: Bookmarks) -> Undone:
    """Undo a change, a batch or a plan; what was removed comes back with new ids and dates."""
    profile = _profile_of(args, bookmarks)
    done = await undo(profile, args.entry, session=bookmarks.session, force=args.force)
    undone = Undone(
        entry=done.entry,
        undone=done.undoes,
        id_map=done.id_map,
        left=bookmarks.redactor.texts(done.left),
    )
    undone._did = bookmarks.redactor.texts(done.did)
    undone._is_others = done.by != bookmarks.session
    return undone


class BookmarkJournal(BookmarkArgs):
    limit: int = Field(default=20, ge=1, le=SHOWN, description="Newest at most")


class JournalShown(Result):
    entries: list[dict[str, Any]] = Field(description="Newest first")
    total: int = Field(description="How many there are")

    def tell(self, story: Story) -> None:
        story.say(f"{len(self.entries)} of {self.total} entries, newest first.")
        if self.entries:
            story.quote("entries", self.entries)


@tool(
    BOOKMARKS,
    effect="read",
    own=True,
    raises=(*ADDRESSED, NotAvailable),
    examples=(Example(title="The last"),),
)
async def bookmark_journal(args: BookmarkJournal, bookmarks: Bookmarks) -> JournalShown:
    """List what tools changed, and what of it can be undone."""
    entries = bookmarks.profile(args.profile).journal.entries
    found = [entry for entry in entries if entry.done or not entry.outcome]
    shown = [_reported(entry, bookmarks.session) for entry in found[: -args.limit - 1 : -1]]
    return JournalShown(entries=bookmarks.redactor.texts(shown), total=len(found))


def _reported(entry: JournalEntry, session: str) -> dict[str, Any]:
    told = {
        "entry": entry.id,
        "at": iso(entry.at),
        "tool": entry.tool,
        "yours": entry.session == session,
        "did": summary(entry),
        "outcome": entry.outcome or "open",
        "undoable": entry.is_undoable,
    }
    beside = {"undoes": entry.undoes, "undoneBy": entry.undone_by, "left": entry.left}
    return {**told, **{name: value for name, value in beside.items() if value}}


def _profile_of(args: BookmarkUndo, bookmarks: Bookmarks) -> Profile:
    """Return the profile of the entry, which without one is the last change of any profile."""
    profiles = bookmarks.profiles
    if args.profile is not None or len(profiles) < 2:
        return bookmarks.profile(args.profile)
    if args.entry is not None:
        holding = [profile for profile in profiles if args.entry in profile.journal]
        return holding[0] if holding else bookmarks.profile(None)
    last: list[tuple[bool, float, int]] = []
    for place, profile in enumerate(profiles):
        with suppress(NothingToUndo):
            entry = profile.journal.undoable(None, bookmarks.session)
            last.append((entry.session == bookmarks.session, entry.at, place))
    if not last:
        raise NothingToUndo(
            "there is nothing to undo in any profile",
            hint="bookmark_journal lists what was done, by whom",
        )
    return profiles[max(last)[2]]


async def _change(asked: PlannedChange, peer: Peer) -> Change:
    """Return one change, with ids for paths."""
    if asked.url is not None:
        check_url(asked.url)
    if asked.title is not None and is_masked(asked.title):
        raise InvalidInput("the title holds a mask in place of a secret", hint="leave title out")
    match asked.do:
        case "create":
            given, title = asked.parent_id, asked.title
            parent = None if given is None else await _id(peer, given, "parentId")
            if title is None:
                raise _missing("title", asked.do)
            return Create(parent, title, asked.url, asked.index)
        case "update":
            return Update(await _id(peer, asked.id, "id", asked.do), asked.title, asked.url)
        case "move":
            return Move(
                await _id(peer, asked.id, "id", asked.do),
                await _id(peer, asked.parent_id, "parentId", asked.do),
                asked.index,
            )
        case "remove":
            return Remove(await _id(peer, asked.id, "id", asked.do))
        case "removeTree":
            return RemoveTree(await _id(peer, asked.id, "id", asked.do))


async def _id(peer: Peer, address: str | None, field: str, do: str = "") -> str:
    if address is None:
        raise _missing(field, do)
    if reference(address):
        return address
    return await find(peer, address, field=field, folder=field == "parentId")


def _missing(field: str, do: str) -> InvalidInput:
    return InvalidInput(
        f"{field} is required for {do}", hint=f"give {field}", field=field, expected="a text"
    )


TOOLS = (bookmark_plan, bookmark_apply, bookmark_undo, bookmark_journal)

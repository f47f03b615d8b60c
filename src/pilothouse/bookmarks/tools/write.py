"""Tools that change bookmarks. Every change stands in the journal, for bookmark_undo."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from pilothouse.bookmarks.changes.apply import CHANGING
from pilothouse.bookmarks.changes.batch import ChangeList, Make, writer
from pilothouse.bookmarks.changes.change import Change, Create, Move, Remove, RemoveTree, Update
from pilothouse.bookmarks.model import AmbiguousPath, BatchFailed
from pilothouse.bookmarks.ports import Bookmarks
from pilothouse.bookmarks.tools.shared import BOOKMARKS, BookmarkArgs, ShownBookmark
from pilothouse.bookmarks.tree.urls import check_url, is_masked
from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.tool import Example, tool

WRITES = (*CHANGING, AmbiguousPath)
"""Faults that every tool may answer that changes bookmarks by their addresses."""

Items = Annotated[
    list[dict[str, Any]], WithJsonSchema({"type": "array", "items": {"type": "object"}})
]


class AddItem(Args):
    parent_id: str | None = Field(default=None, description="Id or path")
    title: str | None = Field(default=None, description="Title")
    url: str | None = Field(default=None, description="URL")
    index: int | None = Field(default=None, ge=0, description="Place")
    create_folders: bool | None = Field(default=None, description="Make it")


class Add(BookmarkArgs):
    parent_id: str | None = Field(default=None, description="Id or path")
    title: str = Field(description="Title")
    url: str = Field(description="URL")
    index: int | None = Field(default=None, ge=0, description="Place")
    create_folders: bool | None = Field(default=None, description="Make it")


@tool(
    BOOKMARKS,
    effect="write",
    profile="default",
    raises=WRITES,
    examples=(
        Example(
            title="Into a folder that need not be there yet",
            args={
                "parentId": "Bar > Tech > AI",
                "title": "Example",
                "url": "https://example.com/",
                "createFolders": True,
            },
        ),
    ),
)
async def bookmark_add(args: Add, bookmarks: Bookmarks) -> ShownBookmark:
    """Add a bookmark. Paths are like Bar > Tech."""
    writes = writer("bookmark_add", bookmarks, args.profile, makes_folders=args.create_folders)
    return ShownBookmark.model_validate(await writes.one(args, _add))


async def _add(item: Add | AddItem, changes: ChangeList) -> Change:
    title, url = _needed(item.title, "title"), check_url(_needed(item.url, "url"))
    parent = item.parent_id
    if parent is not None:
        parent = await changes.folder(parent, makes=item.create_folders)
    return Create(parent, title, url, item.index)


class CreateFolder(BookmarkArgs):
    parent_id: str | None = Field(default=None, description="Id or path")
    title: str = Field(description="Title")


@tool(
    BOOKMARKS,
    effect="write",
    profile="default",
    raises=WRITES,
    examples=(Example(title="On the bar", args={"parentId": "Bar", "title": "Tech"}),),
)
async def bookmark_create_folder(args: CreateFolder, bookmarks: Bookmarks) -> ShownBookmark:
    """Create a folder, and its parents."""
    writes = writer("bookmark_create_folder", bookmarks, args.profile, makes_folders=True)
    return ShownBookmark.model_validate(await writes.one(args, _folder))


async def _folder(item: CreateFolder, changes: ChangeList) -> Change:
    parent = None if item.parent_id is None else await changes.folder(item.parent_id)
    return Create(parent, item.title)


class UpdateItem(Args):
    id: str | None = Field(default=None, description="Id or path")
    title: str | None = Field(default=None, description="Title")
    url: str | None = Field(default=None, description="URL")


class UpdateBookmark(BookmarkArgs):
    id: str = Field(description="Id or path")
    title: str | None = Field(default=None, description="Title")
    url: str | None = Field(default=None, description="URL")


@tool(
    BOOKMARKS,
    effect="destroy",
    idempotent=True,
    profile="default",
    raises=WRITES,
    examples=(Example(title="Rename", args={"id": "42", "title": "A better title"}),),
)
async def bookmark_update(args: UpdateBookmark, bookmarks: Bookmarks) -> ShownBookmark:
    """Change title or URL."""
    writes = writer("bookmark_update", bookmarks, args.profile)
    return ShownBookmark.model_validate(await writes.one(args, _update))


async def _update(item: UpdateBookmark | UpdateItem, changes: ChangeList) -> Change:
    address = _needed(item.id, "id")
    if item.title is None and item.url is None:
        raise InvalidInput(
            "there is nothing to change",
            hint="give title, url or both",
            field="title",
            expected="title or url",
        )
    if item.title is not None and is_masked(item.title):
        raise InvalidInput(
            "the title holds a mask in place of a secret, and would be stored like that",
            hint="leave title out to keep it",
            field="title",
        )
    url = None if item.url is None else check_url(item.url)
    return Update(await changes.node(address), item.title, url)


class MoveItem(Args):
    id: str | None = Field(default=None, description="Id or path")
    parent_id: str | None = Field(default=None, description="Id or path")
    index: int | None = Field(default=None, ge=0, description="Place")
    create_folders: bool | None = Field(default=None, description="Make it")


class MoveBookmark(BookmarkArgs):
    id: str = Field(description="Id or path")
    parent_id: str = Field(description="Id or path")
    index: int | None = Field(default=None, ge=0, description="Place")
    create_folders: bool | None = Field(default=None, description="Make it")


@tool(
    BOOKMARKS,
    effect="write",
    idempotent=True,
    profile="default",
    raises=WRITES,
    examples=(
        Example(title="To the front of the bar", args={"id": "42", "parentId": "Bar", "index": 0}),
    ),
)
async def bookmark_move(args: MoveBookmark, bookmarks: Bookmarks) -> ShownBookmark:
    """Move it."""
    writes = writer("bookmark_move", bookmarks, args.profile, makes_folders=args.create_folders)
    return ShownBookmark.model_validate(await writes.one(args, _move))


async def _move(item: MoveBookmark | MoveItem, changes: ChangeList) -> Change:
    address, target = _needed(item.id, "id"), _needed(item.parent_id, "parentId")
    folder = await changes.folder(target, makes=item.create_folders)
    return Move(await changes.node(address), folder, item.index)


class RemoveItem(Args):
    id: str | None = Field(default=None, description="Id or path")


class RemoveBookmark(BookmarkArgs):
    id: str = Field(description="Id or path")


class Removed(Result):
    success: bool = Field(description="Always true")


@tool(
    BOOKMARKS,
    effect="destroy",
    profile="default",
    raises=WRITES,
    examples=(Example(title="One", args={"id": "42"}),),
)
async def bookmark_remove(args: RemoveBookmark, bookmarks: Bookmarks) -> Removed:
    """Remove a bookmark or empty folder."""
    await writer("bookmark_remove", bookmarks, args.profile).one(args, _remove)
    return Removed(success=True)


async def _remove(item: RemoveBookmark | RemoveItem, changes: ChangeList) -> Change:
    return Remove(await changes.node(_needed(item.id, "id")))


class RemoveFolder(BookmarkArgs):
    id: str = Field(description="Id or path")


@tool(
    BOOKMARKS,
    effect="destroy",
    profile="default",
    raises=WRITES,
    examples=(Example(title="A folder", args={"id": "Other > Old links"}),),
)
async def bookmark_remove_tree(args: RemoveFolder, bookmarks: Bookmarks) -> Removed:
    """Remove a folder and all in it."""
    await writer("bookmark_remove_tree", bookmarks, args.profile).one(args, _remove_tree)
    return Removed(success=True)


async def _remove_tree(item: RemoveFolder, changes: ChangeList) -> Change:
    return RemoveTree(await changes.node(item.id))


type Do = Literal["add", "update", "move", "remove"]
_KINDS: dict[Do, tuple[type[Args], Make[Any]]] = {
    "add": (AddItem, _add),
    "update": (UpdateItem, _update),
    "move": (MoveItem, _move),
    "remove": (RemoveItem, _remove),
}


class BookmarkBatch(BookmarkArgs):
    do: Do = Field(description="What is done with each item")
    items: Items = Field(description="Each with what one alone takes")
    create_folders: bool | None = Field(default=None, description="Make folders that are missing")


class WrittenItems(Result):
    """What came of each item."""

    results: list[dict[str, Any]] = Field(
        description="Each with its node or success, or the error; sameAs: as there"
    )
    done: int = Field(description="Items that were carried out, together")
    failed: int = Field(description="Items that were not")


@tool(
    BOOKMARKS,
    effect="destroy",
    raises=(*WRITES, BatchFailed),
    examples=(
        Example(
            title="Add two",
            args={
                "do": "add",
                "items": [
                    {"title": "One", "url": "https://example.com/1"},
                    {"title": "Two", "url": "https://example.com/2", "parentId": "Bar"},
                ],
            },
        ),
        Example(
            title="Remove two", args={"do": "remove", "items": [{"id": "42"}, {"id": "Bar > Old"}]}
        ),
    ),
)
async def bookmark_batch(args: BookmarkBatch, bookmarks: Bookmarks) -> WrittenItems:
    """Add, update, move or remove many bookmarks: what can be done, as one entry to undo."""
    kind, make = _KINDS[args.do]
    tool = f"bookmark_{args.do}"
    writes = writer(tool, bookmarks, args.profile, makes_folders=args.create_folders)
    return WrittenItems.model_validate(await writes.many(args.items, kind, make))


def _needed(value: str | None, name: str) -> str:
    if value is None:
        raise InvalidInput(
            f"{name} is required", hint=f"give {name}", field=name, expected="string"
        )
    return value


TOOLS = (
    bookmark_add,
    bookmark_update,
    bookmark_remove,
    bookmark_remove_tree,
    bookmark_create_folder,
    bookmark_move,
    bookmark_batch,
)

"""Tools that change bookmarks. Every change stands in the journal, for bookmark_undo."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from pilothouse.bookmarks.applying import CHANGING
from pilothouse.bookmarks.asking import BOOKMARKS, Asking, Shown
from pilothouse.bookmarks.changes import Change, Create, Move, Remove, RemoveTree, Update
from pilothouse.bookmarks.model import AmbiguousPath, BatchFailed
from pilothouse.bookmarks.ports import Bookmarks
from pilothouse.bookmarks.urls import check_url, is_masked
from pilothouse.bookmarks.writing import Changes, writer
from pilothouse.core.faults import InvalidInput
from pilothouse.core.model import Args, Result
from pilothouse.core.tool import Example, tool

WRITES = (*CHANGING, AmbiguousPath, BatchFailed)
"""What every tool may answer that changes bookmarks by their addresses."""

Items = Annotated[
    list[dict[str, Any]], WithJsonSchema({"type": "array", "items": {"type": "object"}})
]


class Written(Shown):
    """The node, or of a batch what came of each item."""

    results: list[dict[str, Any]] | None = Field(
        default=None, description="Of items: each with its node, or the error; sameAs: as there"
    )
    done: int | None = Field(default=None, description="Items that were carried out, together")
    failed: int | None = Field(default=None, description="Items that were not")


class _Batched(Asking):
    items: Items | None = Field(default=None, description="Batch")


class AddItem(Args):
    parent_id: str | None = Field(default=None, description="Id or path")
    title: str | None = Field(default=None, description="Title")
    url: str | None = Field(default=None, description="URL")
    index: int | None = Field(default=None, ge=0, description="Place")
    create_folders: bool | None = Field(default=None, description="Make it")


class Add(AddItem, _Batched):
    pass


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
        Example(
            title="Two at once",
            args={
                "items": [
                    {"title": "One", "url": "https://example.com/1"},
                    {"title": "Two", "url": "https://example.com/2", "parentId": "Bar"},
                ]
            },
        ),
    ),
)
async def bookmark_add(args: Add, bookmarks: Bookmarks) -> Written:
    """Add a bookmark. Paths are like Bar > Tech."""
    writes = writer("bookmark_add", bookmarks, args.profile, makes_folders=args.create_folders)
    if args.items is not None:
        return Written.model_validate(await writes.many(_items(args, AddItem), AddItem, _add))
    return Written.model_validate(await writes.one(args, _add))


async def _add(item: AddItem, changes: Changes) -> Change:
    title, url = _needed(item.title, "title"), check_url(_needed(item.url, "url"))
    parent = item.parent_id
    if parent is not None:
        parent = await changes.folder(parent, makes=item.create_folders)
    return Create(parent, title, url, item.index)


class CreateFolder(Asking):
    parent_id: str | None = Field(default=None, description="Id or path")
    title: str = Field(description="Title")


@tool(
    BOOKMARKS,
    effect="write",
    profile="default",
    raises=WRITES,
    examples=(Example(title="On the bar", args={"parentId": "Bar", "title": "Tech"}),),
)
async def bookmark_create_folder(args: CreateFolder, bookmarks: Bookmarks) -> Shown:
    """Create a folder, and its parents."""
    writes = writer("bookmark_create_folder", bookmarks, args.profile, makes_folders=True)
    return Shown.model_validate(await writes.one(args, _folder))


async def _folder(item: CreateFolder, changes: Changes) -> Change:
    parent = None if item.parent_id is None else await changes.folder(item.parent_id)
    return Create(parent, item.title)


class UpdateItem(Args):
    id: str | None = Field(default=None, description="Id or path")
    title: str | None = Field(default=None, description="Title")
    url: str | None = Field(default=None, description="URL")


class UpdateBookmark(UpdateItem, _Batched):
    pass


@tool(
    BOOKMARKS,
    effect="destroy",
    idempotent=True,
    profile="default",
    raises=WRITES,
    examples=(Example(title="Rename", args={"id": "42", "title": "A better title"}),),
)
async def bookmark_update(args: UpdateBookmark, bookmarks: Bookmarks) -> Written:
    """Change title or URL."""
    writes = writer("bookmark_update", bookmarks, args.profile)
    if args.items is not None:
        return Written.model_validate(
            await writes.many(_items(args, UpdateItem), UpdateItem, _update)
        )
    return Written.model_validate(await writes.one(args, _update))


async def _update(item: UpdateItem, changes: Changes) -> Change:
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


class MoveBookmark(MoveItem, _Batched):
    pass


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
async def bookmark_move(args: MoveBookmark, bookmarks: Bookmarks) -> Written:
    """Move it."""
    writes = writer("bookmark_move", bookmarks, args.profile, makes_folders=args.create_folders)
    if args.items is not None:
        return Written.model_validate(await writes.many(_items(args, MoveItem), MoveItem, _move))
    return Written.model_validate(await writes.one(args, _move))


async def _move(item: MoveItem, changes: Changes) -> Change:
    address, target = _needed(item.id, "id"), _needed(item.parent_id, "parentId")
    folder = await changes.folder(target, makes=item.create_folders)
    return Move(await changes.node(address), folder, item.index)


class RemoveItem(Args):
    id: str | None = Field(default=None, description="Id or path")


class RemoveBookmark(RemoveItem, _Batched):
    items: Items | None = Field(default=None, description="Batch")


class Removed(Result):
    success: bool = Field(description="Whether all of it was removed")
    results: list[dict[str, Any]] | None = Field(
        default=None, description="Of items: each with success, or the error"
    )
    done: int | None = Field(default=None, description="Items that were removed, together")
    failed: int | None = Field(default=None, description="Items that were not")


@tool(
    BOOKMARKS,
    effect="destroy",
    profile="default",
    raises=WRITES,
    examples=(
        Example(title="One", args={"id": "42"}),
        Example(title="Two", args={"items": [{"id": "42"}, {"id": "Bar > Old"}]}),
    ),
)
async def bookmark_remove(args: RemoveBookmark, bookmarks: Bookmarks) -> Removed:
    """Remove a bookmark or empty folder."""
    writes = writer("bookmark_remove", bookmarks, args.profile)
    if args.items is not None:
        told = await writes.many(_items(args, RemoveItem), RemoveItem, _remove)
        return Removed.model_validate({**told, "success": not told["failed"]})
    await writes.one(args, _remove)
    return Removed(success=True)


async def _remove(item: RemoveItem, changes: Changes) -> Change:
    return Remove(await changes.node(_needed(item.id, "id")))


class RemoveFolder(Asking):
    id: str = Field(description="Id or path")


class TreeRemoved(Result):
    success: bool = Field(description="Always true")


@tool(
    BOOKMARKS,
    effect="destroy",
    profile="default",
    raises=WRITES,
    examples=(Example(title="A folder", args={"id": "Other > Old links"}),),
)
async def bookmark_remove_tree(args: RemoveFolder, bookmarks: Bookmarks) -> TreeRemoved:
    """Remove a folder and all in it."""
    await writer("bookmark_remove_tree", bookmarks, args.profile).one(args, _remove_tree)
    return TreeRemoved(success=True)


async def _remove_tree(item: RemoveFolder, changes: Changes) -> Change:
    return RemoveTree(await changes.node(item.id))


def _items(args: _Batched, kind: type[Args]) -> list[dict[str, Any]]:
    """The items of a batch, beside which nothing of one item may stand."""
    own = [name for name in kind.model_fields if name != "create_folders"]  # that holds for all
    both = [name for name in own if getattr(args, name) is not None]
    if both:
        raise InvalidInput(
            f"{both[0]} was given beside items",
            hint="give items alone: each has its own",
            field="items",
            expected="items, or the arguments of one",
        )
    return args.items or []


def _needed(value: str | None, name: str) -> str:
    if value is None:
        raise InvalidInput(
            f"{name} is required", hint=f"give {name}, or items", field=name, expected="string"
        )
    return value


TOOLS = (
    bookmark_add,
    bookmark_update,
    bookmark_remove,
    bookmark_remove_tree,
    bookmark_create_folder,
    bookmark_move,
)

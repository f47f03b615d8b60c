"""What the arguments and answers of all bookmark tools have in common."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pilothouse.bookmarks.model import CONNECTION, AmbiguousPath, BookmarkNotFound
from pilothouse.core.declare.faults import Envelope
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.tool import Group

BOOKMARKS = Group(
    name="bookmarks",
    summary="The user's own Chrome bookmarks: found, changed, planned, undone",
    envelope=Envelope.CODE,
)

ADDRESSED = (*CONNECTION, BookmarkNotFound, AmbiguousPath)
"""Faults that a tool may answer that takes an id or a path."""


class BookmarkArgs(Args):
    """Arguments of a tool of this group."""

    profile: str | None = Field(default=None, description="Profile")


class ShownBookmark(Result, extra="allow"):
    """A bookmark or folder, as Chrome gives it."""

    id: str | None = Field(default=None, description="Its id")
    parent_id: str | None = Field(default=None, description="Folder that it is in")
    index: int | None = Field(default=None, description="Place in that folder, from 0")
    title: str | None = Field(default=None, description="Title")
    url: str | None = Field(default=None, description="Address; a folder has none")
    date_added: int | float | None = Field(default=None, description="Epoch ms")
    date_group_modified: int | float | None = Field(default=None, description="Epoch ms")
    date_last_used: int | float | None = Field(default=None, description="Epoch ms")
    folder_type: str | None = Field(
        default=None, description="bookmarks-bar, other, mobile or managed, of Chrome's own folders"
    )
    syncing: bool | None = Field(default=None, description="Whether the account has it, too")
    unmodifiable: str | None = Field(default=None, description="managed: nobody can change it")
    children: list[dict[str, Any]] | None = Field(default=None, description="Of a folder")


class Nodes(Result):
    """Bookmarks and folders, as Chrome gives them."""

    nodes: list[dict[str, Any]] = Field(description="Each a BookmarkTreeNode")

    def dump(self) -> dict[str, Any]:
        # Passed on as it came: copying a tree of thousands takes as long as fetching it.
        return {"nodes": self.nodes}

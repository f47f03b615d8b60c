"""Tools that show bookmarks, and the tree as a resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from pilothouse.bookmarks.model import CONNECTION, TREE_URI
from pilothouse.bookmarks.ports import Bookmarks
from pilothouse.bookmarks.tools.shared import ADDRESSED, BOOKMARKS, BookmarkArgs, Nodes
from pilothouse.bookmarks.tree.mask import mask
from pilothouse.bookmarks.tree.paths import find
from pilothouse.bookmarks.tree.tree import MOST_NODES, cut
from pilothouse.core.declare.fence import visible_json
from pilothouse.core.declare.resource import resource
from pilothouse.core.declare.tool import Example, tool

if TYPE_CHECKING:
    from pilothouse.bookmarks.model import Node
    from pilothouse.core.secrets.redactor import Redactor


class Get(BookmarkArgs):
    id: str = Field(description="Id or path")


@tool(
    BOOKMARKS,
    effect="read",
    profile="default",
    bare="nodes",
    raises=ADDRESSED,
    examples=(
        Example(title="By id", args={"id": "42"}),
        Example(title="By path", args={"id": "Bar > Tech"}),
    ),
)
async def bookmark_get(args: Get, bookmarks: Bookmarks) -> Nodes:
    """Get a bookmark or folder."""
    peer = bookmarks.profile(args.profile).peer
    found = await peer.ask("get", {"ids": [await find(peer, args.id)]})
    return _shown(found, bookmarks.redactor)


class GetTree(BookmarkArgs):
    folder_id: str | None = Field(default=None, description="Id or path")
    depth: int | None = Field(default=None, description="Levels")
    all: bool | None = Field(default=None, description="Past 1000")


@tool(
    BOOKMARKS,
    effect="read",
    profile="default",
    bare="nodes",
    raises=ADDRESSED,
    examples=(
        Example(title="All of it, cut by depth if it is large"),
        Example(title="The bar with its folders", args={"folderId": "Bar", "depth": 1}),
    ),
)
async def bookmark_get_tree(args: GetTree, bookmarks: Bookmarks) -> Nodes:
    """Get the tree."""
    peer = bookmarks.profile(args.profile).peer
    if args.folder_id is None:
        nodes = await peer.ask("getTree")
    else:
        id = await find(peer, args.folder_id, field="folderId")
        nodes = await peer.ask("getSubTree", {"id": id})
    depth = None if args.depth is None else max(0, args.depth)
    shown = cut(nodes, depth, None if args.all else MOST_NODES)
    return _shown(shown, bookmarks.redactor)


class Search(BookmarkArgs):
    query: str = Field(description="Words")
    limit: int = Field(default=MOST_NODES, ge=1, le=MOST_NODES, description="At most")
    offset: int = Field(default=0, ge=0, description="First, to go on")


class FoundNodes(Nodes):
    """A page of what was found."""

    total: int = Field(description="All that were found")
    next: int | None = Field(default=None, description="offset of the next ones; absent at the end")

    def dump(self) -> dict[str, Any]:
        more = {} if self.next is None else {"next": self.next}
        return {**super().dump(), "total": self.total, **more}


@tool(
    BOOKMARKS,
    effect="read",
    profile="default",
    bare="nodes",
    raises=CONNECTION,
    examples=(Example(title="By words", args={"query": "python asyncio"}),),
)
async def bookmark_search(args: Search, bookmarks: Bookmarks) -> FoundNodes:
    """Find bookmarks."""
    peer = bookmarks.profile(args.profile).peer
    found: list[Node] = await peer.ask("search", {"query": args.query})
    shown, end = found[args.offset : args.offset + args.limit], args.offset + args.limit
    is_rest = end >= len(found)
    if shown and not is_rest:
        said = f"{len(found)} were found; offset {end} has the next ones"
        shown[-1] = {**shown[-1], "readOn": said}
    mask(shown, bookmarks.redactor)  # they came for this call alone
    return FoundNodes.model_construct(nodes=shown, total=len(found), next=None if is_rest else end)


def _shown(nodes: list[Node], redactor: Redactor) -> Nodes:
    mask(nodes, redactor)  # they came for this call alone
    return Nodes.model_construct(nodes=nodes)


@resource(BOOKMARKS, TREE_URI)
async def bookmark_tree(bookmarks: Bookmarks) -> str:
    """The bookmarks of every connected profile; subscribe to hear of changes."""
    profiles = bookmarks.profiles or [bookmarks.profile(None)]
    trees: list[dict[str, Any]] = []
    for profile in profiles:
        nodes = cut(await profile.peer.ask("getTree"))
        mask(nodes, bookmarks.redactor)
        trees.append({"profile": profile.peer.name, "profileId": profile.peer.id, "nodes": nodes})
    return visible_json({"profiles": trees})


TOOLS = (bookmark_get, bookmark_get_tree, bookmark_search)
RESOURCES = (bookmark_tree,)

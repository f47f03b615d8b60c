"""Bookmarks in memory that change as Chrome's do, for dry runs and for finding the way back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilothouse.bookmarks.model import BookmarkNotFound, FolderNotEmpty, RootFolder
from pilothouse.bookmarks.tree.paths import (
    DEEPEST,
    folder_type,
    format_path,
    root_name,
    too_deep,
)
from pilothouse.core.declare.faults import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pilothouse.bookmarks.model import Node

_BLANKS = str.maketrans(dict.fromkeys("\n\r\t\u2028\u2029", " "))


def clean_title(title: str) -> str:
    """Return a title as Chrome keeps it: on one line."""
    return title.translate(_BLANKS)


@dataclass(slots=True)
class DraftNode:
    """One node."""

    id: str
    parent: str
    """Id of the folder that it is in; empty for the root."""
    title: str
    url: str | None = None
    added: float = 0.0
    """Epoch ms."""
    is_fixed: bool = False
    """Chrome's own, or set by an administrator: nobody changes it."""
    kind: str = ""
    """Type of Chrome's own folder that it is, empty for any other node."""
    alias: str = ""
    """Name in paths of one of Chrome's own folders, whose title is in the user's language."""
    children: list[str] = field(default_factory=list)


class Draft:
    """A tree as Chrome's `getTree` gave it, and what became of it since."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._items: dict[str, DraftNode] = {}
        self._root = str(nodes[0]["id"]) if nodes else ""
        waiting = [(node, "") for node in reversed(nodes)]
        while waiting:
            node, parent = waiting.pop()
            item = _item(node, parent, self._root)
            self._items[item.id] = item
            waiting.extend((child, item.id) for child in reversed(node.get("children") or ()))

    def __contains__(self, id: object) -> bool:
        return id in self._items

    def __getitem__(self, id: str) -> DraftNode:
        """Return the node of an id. Raises BookmarkNotFound."""
        try:
            return self._items[id]
        except KeyError:
            raise BookmarkNotFound(
                f"there is no bookmark or folder {id[:40]}",
                hint="ids come from bookmark_search and bookmark_get_tree",
                id=id[:40],
            ) from None

    @property
    def ids(self) -> list[str]:
        return list(self._items)

    def inside(self, id: str) -> Iterator[str]:
        """Yield the node itself and all that is below it, each folder before what is in it."""
        waiting = [id]
        while waiting:
            current = waiting.pop()
            yield current
            waiting.extend(reversed(self._items[current].children))

    def place(self, id: str) -> int:
        """Return the index in its folder."""
        item = self[id]
        return _place(self._items[item.parent].children, id) if item.parent else 0

    def path(self, id: str) -> str:
        """Return the path of a folder, as tools take it."""
        titles: list[str] = []
        while id and id != self._root:
            item = self[id]
            titles.append(item.alias or item.title)
            id = item.parent
        return format_path(reversed(titles))

    def node(self, id: str) -> Node:
        """Return a node as Chrome gives it, without what is in it."""
        item = self[id]
        node: dict[str, Any] = {"id": id, "parentId": item.parent, "title": item.title}
        if item.parent:
            node["index"] = self.place(id)
        if item.url is not None:
            node["url"] = item.url
        return node

    def create(
        self, id: str, parent_id: str | None, title: str, url: str | None, index: int | None
    ) -> None:
        parent = self._target(parent_id if parent_id is not None else self.other)
        self._must_fit_below(parent.id)
        place = self._fitting(parent, index)
        self._items[id] = DraftNode(id, parent.id, clean_title(title), url)
        parent.children.insert(place, id)

    def update(self, id: str, title: str | None, url: str | None) -> None:
        item = self._changeable(id)
        if title is None and url is None:
            raise InvalidInput("an update needs a title or a url", hint="say what is to change")
        if url is not None and item.url is None:
            raise InvalidInput(f"{id} is a folder: it has no url", hint="change its title alone")
        item.title = item.title if title is None else clean_title(title)
        item.url = item.url if url is None else url

    def move(self, id: str, parent_id: str, index: int | None) -> None:
        item, parent = self._changeable(id), self._target(parent_id)
        if is_inside(self, parent_id, id):
            raise InvalidInput(
                f"folder {id} cannot be moved into itself", hint="choose a folder outside of it"
            )
        self._must_fit_below(parent_id, max(map(self._depth, self.inside(id))) - self._depth(id))
        place = self._fitting(parent, index)
        if item.parent == parent_id and place > self.place(id):
            # Chrome counts the place before the node is taken out.
            place -= 1
        del self._items[item.parent].children[self.place(id)]
        parent.children.insert(place, id)
        item.parent = parent_id

    def remove(self, id: str, *, whole: bool = False) -> None:
        item = self._changeable(id)
        if item.children and not whole:
            raise FolderNotEmpty(
                f"folder {id} has {len(item.children)} things in it",
                hint="remove it with all of them (bookmark_remove_tree), or them first",
                id=id,
            )
        del self._items[item.parent].children[self.place(id)]
        for inner in list(self.inside(id)):
            del self._items[inner]

    def _changeable(self, id: str) -> DraftNode:
        item = self[id]
        if item.is_fixed:
            raise RootFolder(
                f"{id} is one of Chrome's own folders, which cannot be changed",
                hint="change what is in it instead",
                id=id,
            )
        return item

    def _target(self, id: str) -> DraftNode:
        item = self[id]
        if item.url is not None:
            raise InvalidInput(
                f"{id} is a bookmark, not a folder", hint="give the id of a folder", received=id
            )
        if id == self._root:
            raise RootFolder(
                "nothing can be put beside Chrome's own folders",
                hint="use one of them, such as the bookmarks bar, or a folder in it",
                id=id,
            )
        return item

    def _depth(self, id: str) -> int:
        """Return in how many folders it lies, the root among them."""
        depth = 0
        while id := self[id].parent:
            depth += 1
        return depth

    def _must_fit_below(self, parent_id: str, levels: int = 0) -> None:
        if self._depth(parent_id) + 1 + levels > DEEPEST:
            raise too_deep("parentId")

    @property
    def other(self) -> str:
        """The folder into which goes what has no other place."""
        return next((item.id for item in self._items.values() if item.kind == "other"), "2")

    def _fitting(self, parent: DraftNode, index: int | None) -> int:
        count = len(parent.children)
        if index is None:
            return count
        if not 0 <= index <= count:
            raise InvalidInput(
                f"index {index} is out of bounds: folder {parent.id} has {count} things in it",
                hint="leave index out to put it at the end",
                field="index",
                expected=f"0 to {count}",
                received=index,
            )
        return index


def _place(children: list[str], id: str) -> int:
    # What was made last is taken back first, and stands at the end.
    return len(children) - 1 if children[-1] == id else children.index(id)


def is_inside(draft: Draft, id: str, folder: str) -> bool:
    """Tell whether a node is a folder or somewhere in it."""
    while id:
        if id == folder:
            return True
        id = draft[id].parent
    return False


def _item(node: Node, parent: str, root: str) -> DraftNode:
    is_own = bool(parent) and parent == root
    return DraftNode(
        id=str(node["id"]),
        parent=parent,
        title=node.get("title", ""),
        url=node.get("url"),
        added=float(node.get("dateAdded") or 0.0),
        is_fixed=not parent or is_own or "unmodifiable" in node,
        kind=folder_type(node) if is_own else "",
        alias=root_name(node) if is_own else "",
        children=[str(child["id"]) for child in node.get("children") or ()],
    )

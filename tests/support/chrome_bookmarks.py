"""Bookmarks in memory that answer as those of a real Chrome do, error messages included.

Written apart from the product's own model of the bookmarks, so that a mistake in one shows.
"""

from __future__ import annotations

import time
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit, urlunsplit

from pilothouse.bookmarks.extension.chrome_errors import fault_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

type Node = dict[str, Any]

ROOT, BAR, OTHER = "0", "1", "2"
NO_NODE = "Can't find bookmark for id."
NO_PARENT = "Can't find parent bookmark for id."
NOT_EMPTY = "Can't remove non-empty folder (use recursive to force)."
BAD_INDEX = "Index out of bounds."
NO_FOLDER = "Parameter 'parentId' does not specify a folder."
INTO_ITSELF = "Can't move a folder to itself or its descendant."
BAD_URL = "Invalid URL."
FIXED = "Can't modify the root bookmark folders."
FOLDER_URL = "Can't set URL of a bookmark folder."


class Refused(Exception):
    """Chrome's own message."""


class ChromeBookmarks:
    """`chrome.bookmarks` of one profile, and a `Peer` that asks it."""

    id = "profile-1"
    name = "Test"

    def __init__(self, tree: Sequence[Node] = ()) -> None:
        """`tree` is what is on the bar: `{"title", "url"}` or `{"title", "children"}`."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._last_id = 3
        self._nodes: dict[str, Node] = {ROOT: {"id": ROOT, "title": "", "children": []}}
        for id, title, kind in (
            (BAR, "Lesezeichenleiste", "bookmarks-bar"),
            (OTHER, "Weitere Lesezeichen", "other"),
        ):
            made = self._put(ROOT, id, title, None, None)
            made["folderType"] = kind
        self.fill(BAR, tree)

    def fill(self, parent_id: str, tree: Sequence[Node]) -> None:
        """Make what a test begins with."""
        for node in tree:
            made = self.create({"parentId": parent_id, "title": node["title"], **_url(node)})
            self.fill(made["id"], node.get("children", ()))

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        given = dict(params or {})
        try:
            return self.do(method, given)
        except Refused as refused:
            raise fault_of({"code": -32000, "message": str(refused)}, method, given) from None

    def do(self, method: str, params: Mapping[str, Any]) -> Any:
        """Raises Refused, with Chrome's own message."""
        self.calls.append((method, dict(params)))
        return deepcopy(getattr(self, _METHODS[method])(params))

    def writes(self) -> list[str]:
        return [method for method, _ in self.calls if not method.startswith(("get", "search"))]

    def shape(self, id: str = ROOT) -> Any:
        """The tree below a node without what changes when something is made again."""
        node = self._nodes[id]
        if "url" in node:
            return [node["title"], node["url"]]
        return [node["title"], [self.shape(child) for child in node["children"]]]

    def of_one_moment(self) -> Self:
        """As if all of it had been made at once."""
        for node in self._nodes.values():
            node["dateAdded"] = 1_700_000_000_000
        return self

    def ids(self) -> list[str]:
        return list(self._nodes)

    def find(self, title: str) -> str:
        return next(id for id, node in self._nodes.items() if node["title"] == title)

    # What Chrome has

    def get(self, params: Mapping[str, Any]) -> list[Node]:
        return [self._shown(self._node(id)["id"]) for id in params["ids"]]

    def get_children(self, params: Mapping[str, Any]) -> list[Node]:
        return [self._shown(child) for child in self._node(params["id"]).get("children", ())]

    def get_sub_tree(self, params: Mapping[str, Any]) -> list[Node]:
        return [self._whole(self._node(params["id"])["id"])]

    def get_tree(self, params: Mapping[str, Any]) -> list[Node]:
        return [self._whole(ROOT)]

    def get_recent(self, params: Mapping[str, Any]) -> list[Node]:
        marks = [id for id, node in self._nodes.items() if "url" in node]
        marks.sort(key=lambda id: (self._nodes[id]["dateAdded"], int(id)), reverse=True)
        return [self._shown(id) for id in marks[: params["number"]]]

    def search(self, params: Mapping[str, Any]) -> list[Node]:
        query = params["query"]
        asked = {"query": query} if isinstance(query, str) else query
        return [
            self._shown(id)
            for id, node in self._nodes.items()
            if id not in (ROOT, BAR, OTHER) and _matches(node, asked)
        ]

    def create(self, params: Mapping[str, Any]) -> Node:
        parent = self._parent(params.get("parentId", OTHER))
        index = self._index(parent, params.get("index"))
        url = _normal(params["url"]) if params.get("url") else None
        self._last_id += 1
        title = params.get("title", "")
        made = self._put(parent["id"], str(self._last_id), title, url, index)
        return self._shown(made["id"])

    def update(self, params: Mapping[str, Any]) -> Node:
        if params["id"] not in self._nodes:
            raise Refused(NO_PARENT)  # so it says, although it is not about the parent
        node = self._changeable(params["id"])
        if "url" in params and "url" not in node:
            raise Refused(FOLDER_URL)
        url = _normal(params["url"]) if "url" in params else None
        if "title" in params:
            node["title"] = _one_line(params["title"])
        if url is not None:
            node["url"] = url
        return self._shown(node["id"])

    def move(self, params: Mapping[str, Any]) -> Node:
        node = self._changeable(params["id"])
        parent = self._parent(params.get("parentId", node["parentId"]))
        above: Node | None = parent
        while above is not None:
            if above["id"] == node["id"]:
                raise Refused(INTO_ITSELF)
            above = self._nodes.get(above.get("parentId", ""))
        index = self._index(parent, params.get("index"))
        siblings = self._nodes[node["parentId"]]["children"]
        # Chrome puts a mark at the index first and then takes the node out of its old place.
        parent["children"].insert(index, None)
        siblings.remove(node["id"])
        parent["children"][parent["children"].index(None)] = node["id"]
        node["parentId"] = parent["id"]
        return self._shown(node["id"])

    def remove(self, params: Mapping[str, Any]) -> None:
        node = self._changeable(params["id"])
        if node.get("children"):
            raise Refused(NOT_EMPTY)
        self._drop(node)

    def remove_tree(self, params: Mapping[str, Any]) -> None:
        self._drop(self._changeable(params["id"]))

    def _drop(self, node: Node) -> None:
        self._nodes[node["parentId"]]["children"].remove(node["id"])
        waiting = [node["id"]]
        while waiting:
            waiting.extend(self._nodes.pop(waiting.pop()).get("children", ()))

    def _node(self, id: str) -> Node:
        try:
            return self._nodes[id]
        except KeyError:
            raise Refused(NO_NODE) from None

    def _changeable(self, id: str) -> Node:
        node = self._node(id)
        if id in (ROOT, BAR, OTHER):
            raise Refused(FIXED)
        return node

    def _parent(self, id: str) -> Node:
        if id not in self._nodes:
            raise Refused(NO_PARENT)
        if id == ROOT:
            raise Refused(FIXED)
        if "url" in self._nodes[id]:
            raise Refused(NO_FOLDER)
        return self._nodes[id]

    def _index(self, parent: Node, index: int | None) -> int:
        count = len(parent["children"])
        if index is None:
            return count
        if not 0 <= index <= count:
            raise Refused(BAD_INDEX)
        return index

    def _put(self, parent_id: str, id: str, title: str, url: str | None, index: int | None) -> Node:
        node: Node = {"id": id, "parentId": parent_id, "title": _one_line(title)}
        node |= {"dateAdded": int(time.time() * 1000), "syncing": False}
        node["children" if url is None else "url"] = [] if url is None else url
        children = self._nodes[parent_id]["children"]
        children.insert(len(children) if index is None else index, id)
        self._nodes[id] = node
        return node

    def _shown(self, id: str) -> Node:
        node = self._nodes[id]
        shown = {name: value for name, value in node.items() if name != "children"}
        if "parentId" in node:
            shown["index"] = self._nodes[node["parentId"]]["children"].index(id)
        return shown

    def _whole(self, id: str) -> Node:
        shown = self._shown(id)
        if "children" in self._nodes[id]:
            shown["children"] = [self._whole(child) for child in self._nodes[id]["children"]]
        return shown


_METHODS = {
    "get": "get",
    "getChildren": "get_children",
    "getSubTree": "get_sub_tree",
    "getTree": "get_tree",
    "getRecent": "get_recent",
    "search": "search",
    "create": "create",
    "update": "update",
    "move": "move",
    "remove": "remove",
    "removeTree": "remove_tree",
}


def _url(node: Node) -> Node:
    return {"url": node["url"]} if "url" in node else {}


def _one_line(title: str) -> str:
    return title.translate(dict.fromkeys(map(ord, "\n\r\t\u2028\u2029"), " "))


def _normal(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise Refused(BAD_URL) from None
    if not parts.scheme or (parts.scheme in ("http", "https") and not parts.hostname):
        raise Refused(BAD_URL)
    if parts.scheme not in ("http", "https"):
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.lower(), path=parts.path or "/"))


def _matches(node: Node, asked: Mapping[str, str]) -> bool:
    words = asked.get("query", "").lower().split()
    text = f"{node['title']} {node.get('url', '')}".lower()
    return (
        all(word in text for word in words)
        and ("title" not in asked or node["title"] == asked["title"])
        and ("url" not in asked or node.get("url") == _normal(asked["url"]))
    )

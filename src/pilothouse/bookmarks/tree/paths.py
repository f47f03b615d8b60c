"""Paths as addresses: `Bar > Tech > AI` wherever an id is taken.

A path begins with one of Chrome's own folders, which is known by its type: its title is in the
user's language. A title with a `>` in it, or with blanks at its ends, stands in quotes.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pilothouse.bookmarks.model import AmbiguousPath, BookmarkNotFound
from pilothouse.core.declare.faults import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pilothouse.bookmarks.model import Node
    from pilothouse.bookmarks.ports import Peer

ROOT = "0"
"""The folder that holds Chrome's own folders."""
DEEPEST = 98
"""Folders around a node, the root among them. Past that Chrome cannot hand its tree to an extension
any more: the call never ends, and Chrome ends the extension's worker."""
_ALIASES = {"bookmarks-bar": "Bar", "other": "Other", "mobile": "Mobile", "managed": "Managed"}
_TYPES = {
    **{alias.lower(): kind for kind, alias in _ALIASES.items()},
    "bookmarks bar": "bookmarks-bar",
    "other bookmarks": "other",
    "mobile bookmarks": "mobile",
    "managed bookmarks": "managed",
}
# Before it reported the types of its folders, Chrome already gave them these ids.
_TYPES_BY_ID = {"1": "bookmarks-bar", "2": "other", "3": "mobile"}

_SEGMENT = re.compile(
    r'\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"\s*+|(?P<bare>[^>"\s][^>]*+))(?P<end>>|\Z)', re.S
)
_ESCAPED = re.compile(r"\\(.)", re.S)


def is_id(address: str) -> bool:
    return address.isascii() and address.isdigit()


def _as_chrome_has_it(id: str) -> str:
    """Normalize an id: Chrome reads 05 as 5; what is kept under 05 would not be found again."""
    return id.lstrip("0") or ROOT


def parse_path(text: str, field: str = "path") -> list[str]:
    """Return the titles of a path, the outermost first; `field` is the argument it came in.

    Raises:
        InvalidInput: a title is missing or its quotes do not close.
    """
    titles: list[str] = []
    at = 0
    while True:
        found = _SEGMENT.match(text, at)
        if found is None:
            raise InvalidInput(
                f"the path cannot be read from character {at + 1} on",
                hint="write titles with > between them, as in Bar > Tech > AI; quote an empty one "
                'or one with > or " in it, as in Bar > "a > b"',
                field=field,
                expected="an id or a path",
                received=text[:200],
            )
        quoted = found["quoted"]
        title = found["bare"].rstrip() if quoted is None else _ESCAPED.sub(r"\1", quoted)
        titles.append(title)
        at = found.end()
        if not found["end"]:
            return titles


def too_deep(field: str) -> InvalidInput:
    return InvalidInput(
        f"Chrome cannot show bookmarks that lie in more than {DEEPEST} folders",
        hint="choose a folder further up",
        field=field,
    )


def format_path(titles: Iterable[str]) -> str:
    """Return the path that `parse_path` reads as these titles."""
    return " > ".join(map(_quoted, titles))


def _quoted(title: str) -> str:
    if title and title == title.strip() and ">" not in title and not title.startswith('"'):
        return title
    return '"' + title.replace("\\", "\\\\").replace('"', '\\"') + '"'


def folder_type(node: Node) -> str:
    """Return the type of Chrome's own folder that a child of the root is; empty for none."""
    return str(node.get("folderType") or _TYPES_BY_ID.get(node["id"], ""))


def root_name(node: Node) -> str:
    """Return what a path calls a child of the root."""
    return _ALIASES.get(folder_type(node)) or str(node["title"])


@dataclass(frozen=True, slots=True)
class PathTarget:
    """The target of an address: a node that is there, and titles below it that are not."""

    id: str
    missing: tuple[str, ...] = ()


async def find(peer: Peer, address: str, *, field: str = "id", folder: bool = False) -> str:
    """Return the id of an address. An id is not looked up: Chrome says itself if there is none.

    Raises:
        InvalidInput, BookmarkNotFound, AmbiguousPath.
    """
    if is_id(address):
        return _as_chrome_has_it(address)
    place = await locate(peer, address, field=field, folder=folder)
    if place.missing:
        raise await _not_found(peer, address, place, field)
    return place.id


async def locate(peer: Peer, address: str, *, field: str, folder: bool = True) -> PathTarget:
    """Return how far a path exists; `folder` wants a folder at its end.

    Raises:
        InvalidInput, BookmarkNotFound (of its first title), AmbiguousPath.
    """
    if is_id(address):
        return PathTarget(_as_chrome_has_it(address))
    first, *titles = parse_path(address, field)
    if folder and len(titles) + 1 >= DEEPEST:  # what is put into it lies one deeper
        raise too_deep(field)
    place = await _root(peer, first, address, field)
    for at, title in enumerate(titles):
        is_last = at == len(titles) - 1
        found = [
            child
            for child in await peer.ask("getChildren", {"id": place})
            if child["title"] == title and ("url" not in child or (is_last and not folder))
        ]
        if not found:
            return PathTarget(place, tuple(titles[at:]))
        place = _only(found, address, field)
    return PathTarget(place)


async def _root(peer: Peer, first: str, address: str, field: str) -> str:
    roots: list[Node] = await peer.ask("getChildren", {"id": ROOT})
    kind = _TYPES.get(first.lower())
    found = [root for root in roots if kind and folder_type(root) == kind]
    if not found:
        there = ", ".join(dict.fromkeys(map(root_name, roots)))
        raise BookmarkNotFound(
            f"{address[:200]} begins with none of Chrome's own folders",
            hint=f"an address is an id, or a path that begins with one of: {there}; "
            "bookmark_search finds ids by title",
            field=field,
            expected="an id or a path such as Bar > Tech",
        )
    return _only(found, address, field)


def _only(found: Sequence[Node], address: str, field: str) -> str:
    if len(found) > 1:
        raise AmbiguousPath(
            f"{len(found)} have the path {address[:200]}",
            hint="give one of the ids instead",
            field=field,
            ids=[str(one["id"]) for one in found],
        )
    return str(found[0]["id"])


async def _not_found(peer: Peer, address: str, place: PathTarget, field: str) -> BookmarkNotFound:
    children: list[Node] = await peer.ask("getChildren", {"id": place.id})
    wanted = place.missing[0]
    if page := next((child for child in children if child["title"] == wanted), None):
        return BookmarkNotFound(
            f"{_quoted(wanted)[:200]} on the way of {address[:200]} is a bookmark, not a folder",
            hint="name the folder that it is in, or another",
            field=field,
            lastFound=place.id,
            id=page["id"],
        )
    near = difflib.get_close_matches(wanted, [str(child["title"]) for child in children], n=3)
    return BookmarkNotFound(
        f"there is no {_quoted(wanted)[:200]} on the way of {address[:200]}",
        hint=f"bookmark_get_tree with folderId {place.id} shows what is in the last folder found",
        field=field,
        lastFound=place.id,
        nearest=near or None,
    )

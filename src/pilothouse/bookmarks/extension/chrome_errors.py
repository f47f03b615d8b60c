"""Chrome's own messages as faults: each with what to do about it.

Chrome knows a handful of sentences and no codes. One that is not in the table is passed on as it
is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse.bookmarks.model import (
    BookmarkNotFound,
    ChromeRefused,
    FolderNotEmpty,
    InvalidUrl,
    RootFolder,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse.core.declare.faults import Fault

NO_SUCH_METHOD = -32601
BAD_PARAMS = -32602

_FIND = "bookmark_search or bookmark_get_tree has the ids of what is there"
_KNOWN: tuple[tuple[str, type[Fault], str], ...] = (
    ("Can't find bookmark for id", BookmarkNotFound, _FIND),
    ("Can't find parent bookmark for id", BookmarkNotFound, f"of the folder: {_FIND}"),
    ("Bookmark id is invalid", BookmarkNotFound, f"an id is a number as text; {_FIND}"),
    (
        "Invalid URL",
        InvalidUrl,
        "give the whole address with its scheme, such as https://example.org/",
    ),
    (
        "Can't modify the root bookmark folders",
        RootFolder,
        "Chrome's own folders stay as they are; change what is in them",
    ),
    (
        "Can't remove non-empty folder",
        FolderNotEmpty,
        "bookmark_remove_tree removes a folder with all that is in it",
    ),
    (
        "Index out of bounds",
        ChromeRefused,
        "index is at most the number of items in the folder; left out, it is the end",
    ),
    (
        "does not specify a folder",
        ChromeRefused,
        "parentId must be the id of a folder, which has no url",
    ),
    (
        "Can't move a folder to itself or its descendant",
        ChromeRefused,
        "choose a folder outside of the one that is moved",
    ),
    ("Can't set URL of a bookmark folder", ChromeRefused, "a folder has only a title"),
    (
        "Can't modify managed bookmarks",
        ChromeRefused,
        "an administrator's policy put it there; only they can change it",
    ),
    (
        "Bookmark editing is disabled",
        ChromeRefused,
        "the policy EditBookmarksEnabled of this Chrome forbids changes; reading works",
    ),
)


def fault_of(error: Mapping[str, Any], method: str, params: Mapping[str, Any]) -> Fault:
    """Return the fault that a tool answers for an error of the extension."""
    said = str(error.get("message") or "no reason was given")
    about = {name: params[name] for name in ("id", "ids", "parentId") if name in params}
    code = error.get("code")
    if code in (NO_SUCH_METHOD, BAD_PARAMS):
        hint = (
            "the extension is of another version than the server: load the folder that"
            " `pilothouse pair` names again at chrome://extensions"
        )
        return ChromeRefused(f"the extension refused {method}: {said}", hint=hint, **about)
    for sentence, kind, hint in _KNOWN:
        if sentence in said:
            return kind(said, hint=hint, **about)
    return ChromeRefused(said, hint=f"chrome.bookmarks.{method} said so", **about)


def after_silence(method: str) -> str:
    """Return what a caller must know of a call that was sent and never answered."""
    if method == "search" or method.startswith("get"):
        return f"{method} only reads: nothing was changed by it"
    return "it may have been done or not: look before you repeat it"

"""Records of the bookmarks group, and what its tools may answer instead of a result.

A node is what Chrome calls a BookmarkTreeNode, as it came from there: a bookmark has `url`, a
folder has not. Nodes stay plain mappings: a tree of 10,000 is passed on, not rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pilothouse.core.declare.faults import Fault
from pilothouse.core.timeline.events import Event

EXTENSION_ID = "ampnaceinapbblmlkfembdggeggofphe"
"""Follows from the `key` of the extension's manifest, so that it is the same everywhere."""

TREE_URI = "bookmarks://tree"
"""The resource that changes whenever a bookmark does."""

type Node = dict[str, Any]


class ExtensionNotConnected(Fault):
    """No Chrome is connected; the hint says how to install, load and pair the extension."""

    code = "extension_not_connected"
    status = 503


class ConnectionLost(Fault):
    """The extension went away during the call, which may or may not have been carried out."""

    code = "connection_lost"
    status = 503


class ExtensionTimeout(Fault):
    """The extension did not answer in time."""

    code = "timeout"
    status = 504


class ProfileNotFound(Fault):
    """No connected Chrome profile has this name or id."""

    code = "profile_not_found"
    status = 404


class ProfileRequired(Fault):
    """Several Chrome profiles are connected: say which one is meant."""

    code = "profile_required"
    status = 400


class BookmarkNotFound(Fault):
    """There is no bookmark or folder of this id or path."""

    code = "bookmark_not_found"
    status = 404


class AmbiguousPath(Fault):
    """Several folders have this path: use an id."""

    code = "ambiguous_path"
    status = 409


class InvalidUrl(Fault):
    """Not an address that Chrome takes, or one that would run as a script."""

    code = "invalid_url"
    status = 400


class RootFolder(Fault):
    """Chrome's own folders cannot be changed."""

    code = "root_folder"
    status = 403


class FolderNotEmpty(Fault):
    """A folder with something in it is removed by bookmark_remove_tree alone."""

    code = "folder_not_empty"
    status = 409


class ChangedMeanwhile(Fault):
    """Somebody else changed the bookmarks that the call is about; nothing was done."""

    code = "changed_meanwhile"
    status = 409


class NothingToUndo(Fault):
    """The journal has no such entry, or it was undone already."""

    code = "nothing_to_undo"
    status = 404


class BatchFailed(Fault):
    """None of the items of a batch was carried out; `errors` says why, equal ones once."""

    code = "batch_failed"
    status = 400


class ChromeRefused(Fault):
    """Chrome did not do it; the message is Chrome's own."""

    code = "chrome_error"
    status = 502


CONNECTION: tuple[type[Fault], ...] = (
    ExtensionNotConnected,
    ConnectionLost,
    ExtensionTimeout,
    ProfileNotFound,
    ProfileRequired,
    ChromeRefused,
)
"""Faults that every tool of the group may answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarksChanged(Event):
    """Something happened to the bookmarks of a profile, as Chrome told it."""

    source: ClassVar[str] = "bookmarks"

    change: str
    """created, changed, removed, moved, reordered, import_began or import_ended."""
    profile: str
    id: str = ""
    title: str = ""
    url: str = ""
    own: bool = False
    """Caused by a tool of ours, not by a person or by sync."""

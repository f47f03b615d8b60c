"""What the bookmark tools ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pilothouse.bookmarks.changes.journal import Journal
    from pilothouse.bookmarks.model import BookmarksChanged, ExtensionNotConnected
    from pilothouse.core.net.url_policy import Policy
    from pilothouse.core.secrets.redactor import Redactor


class Peer(Protocol):
    """One connected Chrome profile."""

    id: str
    name: str

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Have the extension call `chrome.bookmarks`, once, and return what Chrome returned.

        Methods and their params: get {ids}, getChildren {id}, getSubTree {id}, getTree {},
        getRecent {number}, search {query} (a string or {query, url, title}),
        create {parentId, index, title, url}, update {id, title, url}, move {id, parentId, index},
        remove {id}, removeTree {id}. Absent ones are left out.

        Raises ConnectionLost, ExtensionTimeout, BookmarkNotFound, InvalidUrl, RootFolder,
        FolderNotEmpty, ChromeRefused.
        """


class Profile(Protocol):
    """The bookmarks of one connected profile."""

    @property
    def peer(self) -> Peer: ...

    @property
    def journal(self) -> Journal: ...

    def writing(self) -> Any:
        """Open an async context: one change at a time, so that a plan sees none half-way."""


class ChangeListener(Protocol):
    """A receiver of what happens to the bookmarks."""

    @property
    def changed(self) -> Callable[[str], None]:
        """Callback that takes the URI of a resource that has changed."""

    def tell(self, event: BookmarksChanged) -> None: ...


class Profiles(Protocol):
    """The way to all connected profiles: this process's own link, or the hub's."""

    @property
    def profiles(self) -> Sequence[Profile]: ...

    def not_connected(self) -> ExtensionNotConnected:
        """Return what a call answers that finds no profile."""

    def view(self, view: ChangeListener) -> AbstractContextManager[None]:
        """Send an agent's view what happens for as long as the block lasts."""


class Bookmarks(Protocol):
    """The connected profiles, as one agent sees them."""

    redactor: Redactor
    session: str
    export_folder: Callable[[], Path]
    """Private folder to which exports are written."""
    file_roots: Callable[[], Sequence[Path]]
    """Folders from which files are imported, beside the one for exports."""
    policy: Callable[[], Policy]
    """Policy for where links may be followed to."""

    def profile(self, wanted: str | None) -> Profile:
        """Return the profile with this id or name; with one connected, none need be named.

        Raises ExtensionNotConnected, ProfileNotFound, ProfileRequired.
        """

    @property
    def profiles(self) -> list[Profile]:
        """All profiles that are connected."""

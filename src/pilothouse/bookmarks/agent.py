"""The connected profiles as one agent sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pilothouse.bookmarks.model import TREE_URI, ProfileNotFound, ProfileRequired
from pilothouse.core.net.url_policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pilothouse.bookmarks.model import BookmarksChanged
    from pilothouse.bookmarks.ports import Profiles, Shelf
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.timeline.timeline import Timeline


@dataclass(eq=False)
class View:
    """Implements `Bookmarks` for one agent."""

    link: Profiles
    session: str
    redactor: Redactor
    timeline: Timeline
    changed: Callable[[str], None]
    """Tells subscribers that the resource of this URI has changed."""
    export_folder: Callable[[], Path]
    file_roots: Callable[[], Sequence[Path]] = tuple
    policy: Callable[[], Policy] = Policy

    @property
    def shelves(self) -> list[Shelf]:
        return [*self.link.shelves]

    def shelf(self, profile: str | None) -> Shelf:
        shelves = self.shelves
        if not shelves:
            raise self.link.not_connected()
        named = [shelf for shelf in shelves if profile in (None, shelf.peer.id)]
        if not named:
            named = [shelf for shelf in shelves if shelf.peer.name == profile]
        if len(named) == 1:
            return named[0]
        known = [{"id": shelf.peer.id, "name": shelf.peer.name} for shelf in shelves]
        names = ", ".join(f"{one['name']!r} ({one['id']})" for one in known)
        if named:
            which = "are connected" if profile is None else f"are called {profile!r}"
            raise ProfileRequired(
                f"{len(named)} Chrome profiles {which}",
                hint=f"pass profile with the name or id of one: {names}",
                profiles=known,
            )
        raise ProfileNotFound(
            f"no connected Chrome profile has the name or id {profile!r}",
            hint=f"connected: {names}",
            profiles=known,
        )

    def tell(self, event: BookmarksChanged) -> None:
        """Put what happened on the agent's timeline, masked, and call its subscribers."""
        mask = self.redactor
        self.timeline.emit(replace(event, title=mask.text(event.title), url=mask.url(event.url)))
        self.changed(TREE_URI)

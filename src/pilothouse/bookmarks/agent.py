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
    from pilothouse.bookmarks.ports import Profile, Profiles
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.timeline.timeline import Timeline


@dataclass(eq=False)
class AgentBookmarks:
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
    def profiles(self) -> list[Profile]:
        return [*self.link.profiles]

    def profile(self, wanted: str | None) -> Profile:
        profiles = self.profiles
        if not profiles:
            raise self.link.not_connected()
        named = [profile for profile in profiles if wanted in (None, profile.peer.id)]
        if not named:
            named = [profile for profile in profiles if profile.peer.name == wanted]
        if len(named) == 1:
            return named[0]
        known = [{"id": profile.peer.id, "name": profile.peer.name} for profile in profiles]
        names = ", ".join(f"{one['name']!r} ({one['id']})" for one in known)
        if named:
            which = "are connected" if wanted is None else f"are called {wanted!r}"
            raise ProfileRequired(
                f"{len(named)} Chrome profiles {which}",
                hint=f"pass profile with the name or id of one: {names}",
                profiles=known,
            )
        raise ProfileNotFound(
            f"no connected Chrome profile has the name or id {wanted!r}",
            hint=f"connected: {names}",
            profiles=known,
        )

    def tell(self, event: BookmarksChanged) -> None:
        """Put what happened on the agent's timeline, masked, and call its subscribers."""
        mask = self.redactor
        self.timeline.emit(replace(event, title=mask.text(event.title), url=mask.url(event.url)))
        self.changed(TREE_URI)

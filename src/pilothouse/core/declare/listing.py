"""What a client is told of a tool before it calls it, and which tools it is told of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pilothouse.core.settings import GROUPS

if TYPE_CHECKING:
    from collections.abc import Collection

    from pilothouse.core.settings import Settings

type Profile = Literal["default", "full"]

BOOKMARKS = "bookmarks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One entry of `tools/list`, and what decides whether it is there."""

    name: str
    group: str
    profile: Profile
    description: str
    annotations: dict[str, bool]
    input_schema: dict[str, Any]

    @property
    def summary(self) -> str:
        return self.description.split("\n", 1)[0]


@dataclass(frozen=True, slots=True)
class Selection:
    """The tools that a user asked for."""

    groups: tuple[str, ...]
    profile: Profile
    unpaired: bool = False
    """Bookmark tools are left out: nobody named them, and no Chrome was ever paired."""

    @classmethod
    def of(cls, settings: Settings, *, paired: bool) -> Selection:
        """Return what the settings ask for, in a home where an extension was paired or not."""
        profile: Profile = "full" if settings.profile == "full" else "default"
        is_usual = profile == "default" and not settings.tools
        return cls(settings.tools or GROUPS, profile, unpaired=is_usual and not paired)

    def serves(self, listing: Listing) -> bool:
        return self.includes(listing.group, listing.profile)

    def includes(self, group: str, profile: Profile) -> bool:
        """Return whether tools of this group and profile are served."""
        if self.unpaired and group == BOOKMARKS:
            return False
        return is_served(group, profile, self.groups, self.profile)

    def way_to(self, listing: Listing) -> str:
        """Say how a tool that is not served gets served."""
        if self.unpaired and listing.group == BOOKMARKS:
            unpaired = "no Chrome is paired yet: `pilothouse pair` says how that is done"
            if listing.profile == "default":
                return f"{unpaired}; `pilothouse --tools {BOOKMARKS}` serves it without"
            return f"{unpaired}, and `pilothouse --profile full` serves it"
        flags = []
        if listing.group not in self.groups:
            wanted = [group for group in GROUPS if group in (*self.groups, listing.group)]
            flags.append(f"--tools {','.join(wanted)}")
        if listing.profile == "full" and self.profile != "full":
            flags.append("--profile full")
        return f"`pilothouse {' '.join(flags)}` serves it"


def is_served(group: str, profile: Profile, groups: Collection[str], asked: Profile) -> bool:
    """Return whether a user asked for a tool of this group; Pilothouse's own are always there."""
    wanted = group in groups or group == "house"
    return wanted and (asked == "full" or profile == "default")

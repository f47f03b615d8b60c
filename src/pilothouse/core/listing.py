"""What a client is told of a tool before it calls it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Collection

type Profile = Literal["default", "full"]


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


def is_served(group: str, profile: Profile, groups: Collection[str], asked: Profile) -> bool:
    """Whether a user asked for a tool of this group; those of our own house are always there."""
    wanted = group in groups or group == "house"
    return wanted and (asked == "full" or profile == "default")

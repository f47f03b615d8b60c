"""What of the files that were kept has to go: by its age, and so that all together fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

type Reason = Literal["age", "size"]

YOUNG_S = 3600
"""Seconds for which what was written stays. Whoever makes a folder needs a moment to mark it as
used, and another version of ours may not mark it at all."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A file or a folder that may be removed as a whole."""

    kind: str
    name: str
    """Name within its kind."""
    age_s: float
    """Seconds since anything in it was written."""
    size: int
    """Bytes."""
    in_use: bool = False
    """Use by a process that lives, or another reason not to remove it."""


@dataclass(frozen=True, slots=True)
class Removal:
    """An entry that has to go, and the reason."""

    kept: Kept
    reason: Reason


def plan(kept: Iterable[Kept], *, max_age_s: float, max_bytes: int) -> list[Removal]:
    """Return what to remove, oldest first: what is too old, then as much as does not fit.

    A limit of 0 is none. What is in use counts as taken, and stays.
    """
    entries = sorted(kept, key=lambda one: (-one.age_s, one.kind, one.name))
    left = sum(one.size for one in entries)
    removals: list[Removal] = []
    for one in entries:
        if one.in_use or one.age_s < YOUNG_S:
            continue
        if max_age_s and one.age_s > max_age_s:
            removals.append(Removal(one, "age"))
        # An empty one makes no room.
        elif max_bytes and left > max_bytes and one.size:
            removals.append(Removal(one, "size"))
        else:
            continue
        left -= one.size
    return removals

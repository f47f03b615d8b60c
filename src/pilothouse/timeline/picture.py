"""The picture of a timeline: a window round a key, joined, with the chain of that key whole."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio import to_thread

from pilothouse.core.timeline.lanes import counted_by_several, key_of, lane_of
from pilothouse.timeline.items import items_of
from pilothouse.timeline.links import links_of
from pilothouse.timeline.relations import Relation, relations_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from pilothouse.core.timeline.lanes import Lane, MomentKey
    from pilothouse.core.timeline.timeline import Moment, Timeline
    from pilothouse.timeline.model import ItemLink, TimelineItem
    from pilothouse.timeline.ports import Scope

BEFORE_MS = 60_000.0
AFTER_MS = 10_000.0
"""Milliseconds round the window in which moments are read, for what an item belongs to."""
NEWEST = 2_000
"""Moments that are looked at when only the newest are asked for."""
NEAR_MS = 10_000.0
NEAREST = 2_000
"""Milliseconds and moments each side that are looked at for what belongs to one moment."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Items of a part of a timeline, and what joins them."""

    items: list[TimelineItem]
    links: list[ItemLink]

    def find(self, key: str) -> TimelineItem | None:
        found = [item for item in self.items if key == item.key or key in item.aliases]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class Picture:
    """Items to be shown, in the order in which they happened."""

    items: list[TimelineItem]
    links: list[ItemLink]
    """All links that begin or end in these items."""
    at: float
    """Epoch milliseconds from which times are counted."""
    around: TimelineItem | None
    left_out: dict[Lane, int]
    """Items of the window for which there was no room, by lane."""


def moment_of(timeline: Timeline, key: MomentKey, scope: Scope | None) -> Moment | None:
    """Return the newest moment that a key means."""
    found = None
    for moment in timeline:
        mine = key_of(moment)
        same = mine.kind == key.kind and mine.id == key.id
        if same and mine.owner.startswith(key.owner) and _is_in(moment, scope):
            found = moment
    return found


def _is_in(moment: Moment, scope: Scope | None) -> bool:
    return scope is None or scope.has(moment)


async def joined(
    timeline: Timeline, scope: Scope | None, at: float | None, window: float
) -> Joined:
    """Return the items round a time, or the newest ones; wider than the window, so that what
    belongs to an item in it is there too."""
    if at is None:
        moments = timeline.tail(NEWEST).moments
    else:
        moments = timeline.around(at, before=window + BEFORE_MS, after=window + AFTER_MS)
    kept = [moment for moment in moments if _is_in(moment, scope)]
    # Joining thousands of moments takes a while; the event loop goes on meanwhile.
    return await to_thread.run_sync(_join, kept, counted_by_several(timeline))


def _join(moments: list[Moment], several: frozenset[str]) -> Joined:
    items = items_of(moments, several)
    return Joined(items, links_of(items))


async def relatives(
    timeline: Timeline, moment: Moment
) -> list[tuple[Moment, TimelineItem, Relation]]:
    """Return what led to a moment and what came of it, in order: first moments of items."""
    event = moment.event
    took = event.facts().get("duration_ms") or 0.0 if lane_of(event.name) == "steps" else 0.0
    near = timeline.around(event.at, before=took + NEAR_MS, after=NEAR_MS)
    place = next((n for n, one in enumerate(near) if one.key == moment.key), 0)
    near = near[max(0, place - NEAREST) : place + NEAREST]
    whole = await to_thread.run_sync(_join, near, counted_by_several(timeline))
    by_name = {name: item for item in whole.items for name in (item.key, *item.aliases)}
    asked = by_name.get(str(key_of(moment)))
    if asked is None:
        return []
    waiting = relations_of(asked, whole.items, whole.links)
    del waiting[asked.key]
    found = []
    for one in near:
        item = by_name.get(str(key_of(one)))
        if item is not None and (relation := waiting.pop(item.key, None)) is not None:
            found.append((one, item, relation))
    return found


def picture(
    whole: Joined, around: TimelineItem | None, window: float, lanes: Collection[str], limit: int
) -> Picture:
    """Return the items of a window in these lanes; without `around`, the newest. Where there are
    too many, what belongs to `around` stays, then what went wrong, then what is nearest."""
    items = [item for item in whole.items if _is_wanted(item, lanes, around)]
    if around is None:
        at = max((_reported_until(item) for item in items), default=0.0)
        chain: set[str] = set()
        inside = items
    else:
        at = around.at
        chain = set(relations_of(around, whole.items, whole.links))
        inside = [
            item
            for item in items
            if item.key in chain or (item.at <= at + window and item.ended >= at - window)
        ]
    ranked = sorted(inside, key=lambda item: _rank(item, at, chain))
    chosen = {item.key for item in ranked[:limit]}
    shown = [item for item in inside if item.key in chosen]
    left_out = Counter(item.lane for item in inside if item.key not in chosen)
    links = [link for link in whole.links if link.cause in chosen or link.effect in chosen]
    return Picture(shown, links, at, around, dict(left_out))


def _is_wanted(item: TimelineItem, lanes: Collection[str], around: TimelineItem | None) -> bool:
    """Return whether to show it; calls only when asked for: an agent has read their answers."""
    return item.lane in lanes if lanes else item is around or item.kind not in ("call", "session")


def _reported_until(item: TimelineItem) -> float:
    return item.ended if item.ended < math.inf else item.at


def _rank(item: TimelineItem, at: float, chain: Collection[str]) -> tuple[bool, bool, float]:
    is_minor = bool(chain) and item.level != "error"  # of the newest, only their age counts
    return item.key not in chain, is_minor, abs(item.at - at)

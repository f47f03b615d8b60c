"""Causes of an item, traced back to where it began. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilothouse.timeline.model import ItemLink, TimelineItem

NEAR_MS = 2_000.0
MOST_NEAR = 10


@dataclass(frozen=True, slots=True)
class Chain:
    """Chain of items that led to one, causes before their effects."""

    items: list[TimelineItem]
    links: list[ItemLink]
    """Links between these items alone."""
    near: list[TimelineItem]
    """Items that went wrong shortly before, with nothing but the time to join them."""


def causes_of(
    item: TimelineItem, items: list[TimelineItem], links: list[ItemLink], depth: int
) -> Chain:
    """Return the chain of causes of an item, at most `depth` links back.

    A request that failed comes with its packet and with the errors that its server wrote, which are
    what it led to and at the same time why it failed.
    """
    by_key = {one.key: one for one in items}
    found = {item.key: item}
    edge = [item.key]
    for _ in range(depth):
        edge = [
            link.cause
            for link in links
            if link.effect in edge and link.cause in by_key and link.cause not in found
        ]
        found |= {key: by_key[key] for key in edge}
    found |= _explaining(found, by_key, links)
    told = [link for link in links if link.cause in found and link.effect in found]
    return Chain(_in_order(item, found, told), told, _near(item, items, found))


def _in_order(
    item: TimelineItem, found: dict[str, TimelineItem], links: list[ItemLink]
) -> list[TimelineItem]:
    """Return all by time, but never an effect before its cause, nor what is asked about before what
    explains it: browser, proxy and server have clocks of their own, and a busy machine dates late
    what reaches it late. Lines of the server's log have one clock."""
    waiting = sorted(found.values(), key=lambda one: (one.at, one.key))
    causes: dict[str, set[str]] = {one.key: set() for one in waiting}
    for link in links:
        causes[link.effect].add(link.cause)
    if item.lane != "server":
        causes[item.key] |= found.keys() - _effects_of(item.key, links) - {item.key}
    ordered: dict[str, TimelineItem] = {}
    while waiting:
        free = (item for item in waiting if causes[item.key] <= ordered.keys())
        first = next(free, waiting[0])  # should two ever be each other's cause
        ordered[first.key] = first
        waiting.remove(first)
    return list(ordered.values())


def _effects_of(key: str, links: list[ItemLink]) -> set[str]:
    """Return the keys of all that an item led to, over however many links."""
    effects: set[str] = set()
    edge = {key}
    while edge:
        edge = {link.effect for link in links if link.cause in edge} - effects
        effects |= edge
    return effects


def _explaining(
    found: dict[str, TimelineItem], by_key: dict[str, TimelineItem], links: list[ItemLink]
) -> dict[str, TimelineItem]:
    """Return packets and error lines of the requests that failed."""
    failed = {
        key for key, one in found.items() if one.lane in ("network", "packets") and one.failed
    }
    packets = {
        link.effect
        for link in links
        if link.cause in failed and by_key[link.effect].lane == "packets"
    }
    lines = {
        link.effect
        for link in links
        if link.cause in failed | packets
        and by_key[link.effect].lane == "server"
        and by_key[link.effect].failed
    }
    return {key: by_key[key] for key in packets | lines}


def _near(
    item: TimelineItem, items: list[TimelineItem], found: dict[str, TimelineItem]
) -> list[TimelineItem]:
    near = [
        one
        for one in items
        if one.key not in found
        and one.level in ("error", "warn")
        and one.kind != "call"
        and item.at - NEAR_MS <= one.at <= item.ended
    ]
    return near[-MOST_NEAR:]

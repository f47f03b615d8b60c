"""Relations of one item: what led to it, what came of it, and how sure that is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pilothouse.timeline.model import ItemLink, TimelineItem

DEPTH = 8
"""Links that are followed each way."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Relation of an item to the one that was asked for."""

    guess: bool
    """True if any link on the way is a guess."""
    why: str
    """Reason to take them as joined."""


def relations_of(
    item: TimelineItem, items: Iterable[TimelineItem], links: Iterable[ItemLink]
) -> dict[str, Relation]:
    """Return what led to an item, what came of it, and what else came of the requests among these;
    by key, with the item itself."""
    lanes = {one.key: one.lane for one in items}
    back = _walked({item.key: Relation(False, "")}, [(one.effect, one.cause, one) for one in links])
    roots = {
        key: relation
        for key, relation in back.items()
        if key == item.key or lanes.get(key) in ("network", "packets")
    }
    return _walked(roots, [(one.cause, one.effect, one) for one in links]) | back


def _walked(
    roots: Mapping[str, Relation], ways: Iterable[tuple[str, str, ItemLink]]
) -> dict[str, Relation]:
    """Return all that is reached from some keys, over ways from one key to another."""
    ways_from: dict[str, list[tuple[str, ItemLink]]] = {}
    for here, there, link in ways:
        ways_from.setdefault(here, []).append((there, link))
    found, edge = dict(roots), dict(roots)
    for _ in range(DEPTH):
        reached: dict[str, Relation] = {}
        for here, relation in edge.items():
            for there, link in ways_from.get(here, ()):
                known = reached.get(there)
                if there not in found and (known is None or known.guess):
                    reached[there] = _further(here, relation, link)
        found |= reached
        edge = reached
    return found


def _further(here: str, relation: Relation, link: ItemLink) -> Relation:
    """Return the relation one link on from an item that is reached already."""
    if relation.guess and not link.is_guess:
        return Relation(True, f"joined by an id with {here}, itself a guess")
    return Relation(link.is_guess, link.why)

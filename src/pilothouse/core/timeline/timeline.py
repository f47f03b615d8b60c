"""A session's timeline: the merge of its rings on one clock.

Producers only append; readers hold a cursor (one seq per source) and are told what they missed.
A listener is called after each event and must be cheap: it sets a flag, it does not send.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from pilothouse.core.timeline.ring import Ring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pilothouse.core.timeline.events import Event, Occurrence

DEFAULT_CAPACITY = 2_000


@dataclass(frozen=True, slots=True)
class Moment:
    """An event with its place: the source's ring and the seq in it."""

    source: str
    seq: int
    event: Occurrence

    @property
    def key(self) -> str:
        """The name by which other tools refer to it, such as `console:123`."""
        return f"{self.source}:{self.seq}"


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """A page for a reader: moments in order, where to go on, and what it missed by source."""

    moments: list[Moment]
    cursor: dict[str, int]
    missed: dict[str, int] = field(default_factory=dict)


def _moments(source: str, events: Iterable[tuple[int, Occurrence]]) -> Iterator[Moment]:
    return (Moment(source, seq, event) for seq, event in events)


def _merged(sources: Mapping[str, Iterable[tuple[int, Occurrence]]]) -> Iterator[Moment]:
    streams = [_moments(source, events) for source, events in sources.items()]
    return heapq.merge(*streams, key=lambda moment: moment.event.at)


class Timeline:
    """The rings of one session."""

    def __init__(self, capacities: Mapping[str, int] | None = None) -> None:
        self._capacities = dict(capacities or {})
        self._rings: dict[str, Ring[Any]] = {}
        self._listeners: dict[object, Callable[[Event], None]] = {}
        self._waiting: list[Callable[[], None]] = []

    def ring(self, source: str) -> Ring[Any]:
        """Return the ring of a source, made on first use."""
        ring = self._rings.get(source)
        if ring is None:
            ring = Ring(self._capacities.get(source, DEFAULT_CAPACITY))
            self._rings[source] = ring
            for wake in self._waiting:
                ring.wait(wake)
        return ring

    def adopt(self, source: str, ring: Ring[Any]) -> None:
        """Make a group's own ring part of the timeline; its items are occurrences."""
        self._rings[source] = ring
        for wake in self._waiting:
            ring.wait(wake)
            wake()  # it may have items already

    def abandon(self, ring: Ring[Any]) -> None:
        """Forget a ring that a group has dropped."""
        for source in [name for name, held in self._rings.items() if held is ring]:
            del self._rings[source]

    def emit(self, event: Event) -> int:
        """Keep an event and return its seq in its source's ring."""
        seq = self.ring(event.source).append(event, event.at)
        for listener in tuple(self._listeners.values()):
            listener(event)
        return seq

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` after each event, until the returned function is called."""
        # Its own token, so that one function may listen twice and each stops by itself.
        token = object()
        self._listeners[token] = listener

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    def wait(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when something is added to any ring, those of groups included, until the
        returned function is called. A ring calls it once, and not for what comes after that."""
        self._waiting.append(wake)
        for ring in self._rings.values():
            ring.wait(wake)

        def stop() -> None:
            self._waiting.remove(wake)
            for ring in self._rings.values():
                ring.wait_no_more(wake)

        return stop

    def find(self, source: str, seq: int) -> Moment | None:
        """Return one moment by its place, None if it is not kept any more."""
        ring = self._rings.get(source)
        found = ring.read(seq, 1).items if ring is not None and seq >= ring.first_seq else []
        return Moment(source, *found[0]) if found else None

    def __iter__(self) -> Iterator[Moment]:
        """Yield everything kept, in the order in which it happened."""
        return _merged(self._rings)

    def read(self, cursor: Mapping[str, int], limit: int) -> TimelinePage:
        """Return the next moments after a cursor. An empty one starts at the oldest kept."""
        slices = {s: ring.read(cursor.get(s, 0), limit) for s, ring in self._rings.items()}
        merged = _merged({source: part.items for source, part in slices.items()})
        moments = list(islice(merged, limit))
        after = {s: max(cursor.get(s, 0), self._rings[s].first_seq) for s in slices}
        for moment in moments:
            after[moment.source] = moment.seq + 1
        return TimelinePage(moments, after, {s: p.missed for s, p in slices.items() if p.missed})

    def tail(self, limit: int) -> TimelinePage:
        """Return the newest moments, and the cursor that follows them."""
        newest = _merged({source: ring.tail(limit).items for source, ring in self._rings.items()})
        moments = list(deque(newest, maxlen=limit))
        return TimelinePage(
            moments, {source: ring.next_seq for source, ring in self._rings.items()}
        )

    def kept(self) -> dict[str, int]:
        """Count the events that each source has."""
        return {source: len(ring) for source, ring in self._rings.items()}

    def dropped(self) -> dict[str, int]:
        """Count the events that each source has lost to newer ones."""
        return {source: ring.dropped for source, ring in self._rings.items() if ring.dropped}

    def related(self, keys: Iterable[str]) -> list[Moment]:
        """Return all moments that share a key, directly or through another moment."""
        by_key: dict[str, list[Moment]] = {}
        for moment in self:
            for key in {*moment.event.keys, moment.key}:
                by_key.setdefault(key, []).append(moment)
        reached: set[str] = set()
        found: dict[str, Moment] = {}
        open_keys = list(keys)
        while open_keys:
            key = open_keys.pop()
            if key in reached:
                continue
            reached.add(key)
            for moment in by_key.get(key, ()):
                found[moment.key] = moment
                open_keys.extend(moment.event.keys)
        return sorted(found.values(), key=lambda moment: (moment.event.at, moment.key))

    def around(self, at: float, *, before: float, after: float) -> list[Moment]:
        """Return what happened within a window of milliseconds round a time."""
        return [m for m in self if at - before <= m.event.at <= at + after]

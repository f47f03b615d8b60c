"""A bounded buffer of one source: it never blocks its producer and always says what it lost.

Every item has a 0-based `seq` that never falls or repeats, also not over `clear`. Readers hold
a seq as their cursor; one that fell behind is told how many items it missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NOBODY: frozenset[Callable[[], None]] = frozenset()


@dataclass(frozen=True, slots=True)
class Slice[T]:
    """One page out of a ring."""

    items: list[tuple[int, T]]
    """`(seq, item)` in order."""
    next_seq: int
    """The cursor for the next page."""
    missed: int
    """Items from the asked cursor on that made room for newer ones; cleared ones do not count."""
    matched: int
    """Number of kept items from the cursor on that match, on this page and after it."""


class Ring[T]:
    """A circular list of the newest `capacity` items."""

    __slots__ = (
        "_base",
        "_capacity",
        "_cleared",
        "_first",
        "_items",
        "_last_at",
        "_next",
        "_ttl",
        "_waiting",
        "evicted",
    )

    def __init__(self, capacity: int, *, ttl: float | None = None, start: int = 0) -> None:
        """Begin at the seq `start`; `ttl` is in the unit of the clock that `append` is given."""
        if capacity < 1:
            raise ValueError(f"a ring holds at least one item, not {capacity}")
        self._capacity = capacity
        self._ttl = ttl
        # Grows up to the capacity, so that many small rings cost little; then it wraps round.
        self._items: list[T] = []
        self._base = start  # seq of the item that was the first in the list
        self._cleared = start  # seq before which the reader itself threw everything away
        self._first = start
        self._next = start
        self.evicted = 0
        """Number of items that made room for newer ones, ever."""
        self._last_at: float | None = None
        self._waiting = _NOBODY

    def __len__(self) -> int:
        return self._next - self._first

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def first_seq(self) -> int:
        """Seq of the oldest item kept; everything before it was dropped or cleared."""
        return self._first

    @property
    def cleared(self) -> int:
        """Seq before which everything was thrown away by `clear`."""
        return self._cleared

    @property
    def dropped(self) -> int:
        """Number of items that made room for newer ones since the last `clear`."""
        return self._first - self._cleared

    @property
    def next_seq(self) -> int:
        """Seq that the next item gets."""
        return self._next

    def append(self, item: T, at: float = 0.0) -> int:
        """Add an item and return its seq; the oldest one makes room."""
        seq = self._next
        if len(self._items) < self._capacity:
            self._items.append(item)
        else:
            self._items[(seq - self._base) % self._capacity] = item
            self._first += 1
            self.evicted += 1
        self._next = seq + 1
        self._last_at = at
        if self._waiting:
            self._wake()
        return seq

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` with the next item, and not again: a flood costs its reader one call."""
        self._waiting |= {wake}

    def wait_no_more(self, wake: Callable[[], None]) -> None:
        self._waiting -= {wake}

    @property
    def waiting(self) -> int:
        """Number of those who wait for the next item."""
        return len(self._waiting)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, _NOBODY
        for wake in waiting:
            wake()

    def _at(self, seq: int) -> T:
        return self._items[(seq - self._base) % self._capacity]

    def get(self, seq: int) -> T | None:
        """Return the item of a seq; None if it was dropped, cleared or never there."""
        return self._at(seq) if self._first <= seq < self._next else None

    def __iter__(self) -> Iterator[tuple[int, T]]:
        """Yield all kept items, oldest first."""
        for seq in range(self._first, self._next):
            yield seq, self._at(seq)

    def read(self, cursor: int, limit: int, match: Callable[[T], bool] | None = None) -> Slice[T]:
        """Return up to `limit` items from `cursor` on; the filter applies before the cut."""
        start = max(cursor, self._first)
        missed = max(0, self._first - max(cursor, self._cleared))
        if match is None:
            stop = max(start, min(start + limit, self._next))
            items = [(seq, self._at(seq)) for seq in range(start, stop)]
            return Slice(items, stop, missed, max(0, self._next - start))
        page: list[tuple[int, T]] = []
        matched = 0
        after_page = self._next
        for seq in range(start, self._next):
            item = self._at(seq)
            if not match(item):
                continue
            matched += 1
            if len(page) < limit:
                page.append((seq, item))
            elif matched == limit + 1:
                after_page = seq
        return Slice(page, max(start, after_page), missed, matched)

    def tail(self, limit: int) -> Slice[T]:
        """Return the newest items, at most `limit`."""
        start = max(self._first, self._next - limit)
        items = [(seq, self._at(seq)) for seq in range(start, self._next)]
        return Slice(items, self._next, 0, len(items))

    def clear(self) -> int:
        """Forget all items and return how many; seq goes on from where it was."""
        cleared = len(self)
        self._items.clear()
        self._base = self._first = self._cleared = self._next
        return cleared

    def resize(self, capacity: int, ttl: float | None) -> None:
        """Hold so many items so long from now on; when they are fewer, the oldest make room."""
        kept = [self._at(seq) for seq in range(max(self._first, self._next - capacity), self._next)]
        gone = len(self) - len(kept)
        self._first += gone
        self.evicted += gone
        self._items, self._base, self._capacity, self._ttl = kept, self._first, capacity, ttl

    def expired(self, now: float) -> bool:
        """Tell whether nothing was added for longer than the ring's time to live."""
        return (
            self._ttl is not None and self._last_at is not None and now - self._last_at > self._ttl
        )

"""Stops trying what keeps failing, for a while. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

FAILURES = 3
"""Failures in a row before nothing is tried for a while."""
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 30.0
"""A pause is twice as long as the one before, up to this: a fault that goes away is noticed."""
KEPT = 1_000


class Breaker:
    """A breaker for many things, each known by a name of its own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failed: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()
        """Number of failures in a row, and the time until which nothing is tried."""

    def wait(self, name: Hashable) -> float:
        """Return the seconds until it may be tried again, 0 if it may be now."""
        _, until = self._failed.get(name, (0, 0.0))
        return max(0.0, until - self._clock())

    def failed(self, name: Hashable) -> None:
        times = self._failed.pop(name, (0, 0.0))[0] + 1
        pause = 0.0
        if times >= FAILURES:
            pause = min(FIRST_PAUSE_S * 2 ** (times - FAILURES), LONGEST_PAUSE_S)
        self._failed[name] = (times, self._clock() + pause)
        if len(self._failed) > KEPT:
            self._failed.popitem(last=False)

    def went_well(self, name: Hashable) -> None:
        self._failed.pop(name, None)

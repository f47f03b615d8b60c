"""How often one principal may do one thing: an exact sliding window over a bounded table."""

import math
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

_LONGEST_PLAIN_KEY = 64


class RateLimit:
    """A limit to `limit` admissions per key in any `per_seconds`, whatever the phase.

    The window is a log of admissions, not a bucket: the call that would exceed it passes again at
    the very moment the oldest admission leaves. Refused calls do not count against the key.

    Memory stays below about `max_keys` x (300 + 8 x `limit`) bytes however many keys come by.
    A table that is full first forgets keys seen once, the oldest first, and only without any of
    those the key idle for longest. So a flood of new names displaces the flood's own names, and a
    key that is being counted towards its limit is not reset by it; refusing unknown keys instead
    would lock every newcomer out for as long as the flood lasts.
    """

    def __init__(
        self, limit: int, per_seconds: float, clock: Callable[[], float], max_keys: int = 40_000
    ) -> None:
        if limit < 1 or max_keys < 1 or not 0 < per_seconds < math.inf:
            raise ValueError("limit, per_seconds and max_keys must be positive")
        self._limit = limit
        self._per_seconds = per_seconds
        self._clock = clock
        self._max_keys = max_keys
        self._now = -math.inf
        # When each admission leaves the window. Both tables run from longest untouched to latest.
        self._seen_once: OrderedDict[str | bytes, float] = OrderedDict()
        self._counted: OrderedDict[str | bytes, array[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen_once) + len(self._counted)

    def admit(self, key: str) -> float:
        """Return 0.0 when admitted, which is then counted; else the seconds until it will be."""
        # A clock that steps back must not bring admissions back into the window.
        now = self._now = max(self._now, self._clock())
        self._forget_idle(now)
        # Names come from outside and may be of any length; a digest is not.
        name = key if len(key) <= _LONGEST_PLAIN_KEY else _digest(key)
        leaves = self._take(name)
        del leaves[: bisect_right(leaves, now)]
        if len(leaves) >= self._limit:
            self._counted[name] = leaves
            return _wait(now, leaves[0])
        leaves.append(now + self._per_seconds)
        self._put(name, leaves)
        return 0.0

    def _take(self, name: str | bytes) -> array[float]:
        once = self._seen_once.pop(name, None)
        if once is not None:
            return array("d", (once,))
        return self._counted.pop(name, None) or array("d")

    def _put(self, name: str | bytes, leaves: array[float]) -> None:
        if len(self) >= self._max_keys:
            (self._seen_once or self._counted).popitem(last=False)
        # A single admission that already is the limit counts like any other full window.
        if len(leaves) == 1 < self._limit:
            self._seen_once[name] = leaves[0]
        else:
            self._counted[name] = leaves

    def _forget_idle(self, now: float) -> None:
        """Forget up to two of each table: grown by a flood, it shrinks faster than it can grow."""
        for _ in range(2):
            if self._seen_once and next(iter(self._seen_once.values())) <= now:
                self._seen_once.popitem(last=False)
            if self._counted and next(iter(self._counted.values()))[-1] <= now:
                self._counted.popitem(last=False)


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _wait(now: float, until: float) -> float:
    """Return the least wait that, added to now, reaches `until` in spite of rounding."""
    wait = until - now
    while now + wait < until:
        wait = math.nextafter(wait, math.inf)
    return wait

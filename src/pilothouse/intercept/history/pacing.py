"""Amount of work that fits into one step, learned from how long the steps take."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FASTER = 1.5
"""Factor by which a step may grow at once: one too short costs little, one too long is felt."""


class Pace:
    """An amount of work that takes about `seconds`, never below `least` nor above `most`."""

    def __init__(self, seconds: float, *, least: int, most: int) -> None:
        self._seconds = seconds
        self._least, self._most = least, most
        self.amount = least

    @contextmanager
    def step(self) -> Iterator[int]:
        """Yield the amount for one step, which lasts as long as the block."""
        begun = time.monotonic()
        yield self.amount
        took = max(time.monotonic() - begun, 1e-6)
        fitting = self.amount * min(self._seconds / took, FASTER)
        self.amount = max(self._least, min(self._most, round(fitting)))

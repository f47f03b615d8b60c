"""A clock for code that is handed one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Stands still unless a test sets it."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

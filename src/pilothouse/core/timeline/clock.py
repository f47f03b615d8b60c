"""One clock for everything that is compared: epoch milliseconds that never go back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

type Clock = Callable[[], float]
"""Epoch milliseconds. Wall time at the start, monotonic from there on."""


def anchored(wall: Callable[[], float], monotonic: Callable[[], float]) -> Clock:
    """Return a clock set once by the wall clock (seconds) and carried on by the monotonic one."""
    offset = wall() - monotonic()
    return lambda: (offset + monotonic()) * 1000.0


def iso(at: float) -> str:
    """Format epoch milliseconds as ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(at / 1000.0, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

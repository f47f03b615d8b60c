"""Kinds of workers: what serves a session, and how such a process is started and ended."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from pilothouse.hub.ports import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.model import Key, SessionRecord


SHOWN_LINES = 10
"""Number of a worker's last lines that are shown."""
LONGEST_PATH = 100
"""Bytes of a unix socket's path; systems take 103 to 107."""
_SOCKET_OF_CHROMIUM = "/org.chromium.Chromium.123456/SingletonSocket"


def can_be_temp(folder: Path) -> bool:
    """Return whether browsers can have it as their folder for temporary files."""
    return len(bytes(folder)) + len(_SOCKET_OF_CHROMIUM) <= LONGEST_PATH


class Use(IntEnum):
    """The use that a worker is of though the hub sees nobody call."""

    NONE = 0
    LATELY = 1
    """A relay, whose calls the hub does not see, has called within the idle limit: it makes room
    if nobody else does."""
    HOLDING = 2
    """A call runs, or there is something to keep, as a browser session within its own limit."""


class StartFailed(Exception):
    """A worker did not start; the message ends with what it said last."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds before which another start is not tried; 0: that is not known."""


class Running(Worker, Protocol):
    """A worker as the pool sees it."""

    @property
    def last_words(self) -> str:
        """The end of what it wrote, for whoever asks why it ended."""
        ...

    async def use(self) -> Use:
        """Ask of what use it is though the hub sees nobody call."""
        ...

    async def stop(self, grace: float) -> None:
        """Ask it to end, and end its process group by force after the grace. Again is no harm."""
        ...


class Kind(Protocol):
    """Starts workers of one kind."""

    async def prepare(self) -> None:
        """Make ready what all workers share; at once when that was done. Raises StartFailed."""
        ...

    async def start(self, key: Key, record: SessionRecord, within: float) -> Running:
        """Start a worker that answers within so many seconds. Cancelled, leave nothing behind.

        Raises:
            StartFailed
        """
        ...

    async def template(self) -> Template:
        """Return what all its workers answer alike. Raises StartFailed."""
        ...

    def trouble(self) -> str:
        """Return why no worker can be started, as was last seen; empty: nothing is known against
        it. What failed is tried again, not too often, so that a fault that went away is noticed."""
        ...

    async def close(self) -> None:
        """End what `prepare` made, and every worker."""
        ...

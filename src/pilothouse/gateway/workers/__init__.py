"""Kinds of workers: what serves a session, and how such a process is started and ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pilothouse.gateway.ports import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.gateway.front import Template
    from pilothouse.gateway.model import Key, SessionRecord


SHOWN_LINES = 10
"""Of what a worker said last."""
LONGEST_PATH = 100
"""Of a unix socket, in bytes; systems take 103 to 107."""
_SOCKET_OF_CHROMIUM = "/org.chromium.Chromium.123456/SingletonSocket"


def can_be_temp(folder: Path) -> bool:
    """Whether browsers can have it as their folder for temporary files."""
    return len(bytes(folder)) + len(_SOCKET_OF_CHROMIUM) <= LONGEST_PATH


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

    async def in_use(self) -> bool:
        """Whether it holds something that is worth keeping though nobody calls, such as a browser
        session within its own time limit."""
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
        """A worker that answers, within so many seconds. Cancelled, it leaves nothing behind.

        Raises:
            StartFailed
        """
        ...

    async def template(self) -> Template:
        """What all its workers answer alike. Raises StartFailed."""
        ...

    def trouble(self) -> str:
        """Return why no worker can be started, as was last seen; empty: nothing is known against
        it. What failed is tried again, not too often, so that a fault that went away is noticed."""
        ...

    async def close(self) -> None:
        """End what `prepare` made, and every worker."""
        ...

"""Calls go first: while one is taken in and answered, what pours in from outside waits a moment.

A call takes a dozen turns of the event loop. Behind a flood of events each of them would cost as
much as a slice of the flood; on a machine whose cores are all busy that is a long time.
"""

from __future__ import annotations

from typing import Protocol


class Pausable(Protocol):
    """A source that may bring more than can be dealt with at once. It loses nothing by waiting."""

    def hold(self) -> None:
        """Bring nothing for a moment, if there is a flood. It must end by itself, too."""

    def release(self) -> None: ...


class CallPriority:
    """The sources in this process that have to wait for calls."""

    def __init__(self) -> None:
        self._sources: set[Pausable] = set()

    def add(self, source: Pausable) -> None:
        self._sources.add(source)

    def discard(self, source: Pausable) -> None:
        self._sources.discard(source)

    def asked(self) -> None:
        """Hold the sources, because a call has come."""
        for source in self._sources:
            source.hold()

    def answered(self) -> None:
        for source in self._sources:
            source.release()

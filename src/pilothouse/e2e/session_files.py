"""The files of a session that lives, which no sweep takes: the oldest of each kind make room."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from pilothouse.core.timeline.clock import iso

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.core.timeline.clock import Clock

NEWEST = 200
"""Files of each kind that stay. Such a file has one picture of a window, so that so many take some
hundred megabytes at most, however long an agent repeats a step that fails."""
NEWEST_TRACES = 10
"""Traces that stay. They take more: pictures, bodies and the DOM of all since the one before."""
_REPORTED = 2_000
"""Limit of files that made room of which it is still reported when."""
_NUMBERED = re.compile(r"([a-z_]+)[-_]\d+(?=\.)")
"""Names that we give: the kind of a file, and the number of its step."""


class SessionFiles:
    """Keeps the newest files of each kind in the folder of a session."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._kept: defaultdict[str, deque[str]] = defaultdict(deque)
        self._gone: dict[str, float] = {}

    def keep(self, name: str) -> None:
        """Take a file that was written into the folder as the newest of its kind."""
        numbered = _NUMBERED.match(name)
        if numbered is None:
            return
        kind = numbered[1]
        names = self._kept[kind]
        if name in names:
            names.remove(name)  # written anew
        names.append(name)
        while len(names) > _most(kind):
            self._drop(names.popleft())

    def _drop(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)
        self._gone[name] = self._clock()
        if len(self._gone) > _REPORTED:
            del self._gone[next(iter(self._gone))]

    def why_gone(self, name: str) -> str:
        """Return when and why a file made room; empty if it did not."""
        numbered = _NUMBERED.match(name)
        if numbered is None or name not in self._gone:
            return ""
        kind = numbered[1]
        return (
            f"it made room at {iso(self._gone[name])}: of each session the newest {_most(kind)}"
            f" files {kind}-N are kept while it lives"
        )


def _most(kind: str) -> int:
    return NEWEST_TRACES if kind == "trace" else NEWEST

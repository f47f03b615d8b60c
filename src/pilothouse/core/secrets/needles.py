"""Known secrets, looked for in a text by the thousand.

A pattern of them all would try each at every character, in one step that holds up all threads. So
they are found by how they begin, and each that is there is looked for by itself.
"""

from __future__ import annotations

from itertools import chain, groupby
from typing import TYPE_CHECKING

from pilothouse.core.secrets.shapes import MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHORTEST = 4
"""Characters; a shorter secret would black out half of every text."""
_FEW = 64
"""Number of secrets up to which it is quicker to look for them one by one."""


class Needles(tuple[str, ...]):
    """Texts of at least `SHORTEST` characters."""

    _by_start: dict[str, tuple[str, ...]]

    def __new__(cls, needles: Iterable[str] = ()) -> Needles:
        made = super().__new__(cls, sorted(set(needles)))
        starts = groupby(made, lambda needle: needle[:SHORTEST])
        made._by_start = {start: tuple(group) for start, group in starts}
        return made

    def found_in(self, text: str) -> Iterator[str]:
        """Yield those that are in a text."""
        return (needle for needle in self._near(text) if needle in text)

    def _near(self, text: str) -> Iterable[str]:
        if len(self) <= _FEW:
            return self
        by_start = self._by_start
        places = range(len(text) - SHORTEST + 1)
        starts = {start for at in places if (start := text[at : at + SHORTEST]) in by_start}
        return chain.from_iterable(by_start[start] for start in starts)

    def mask(self, text: str) -> str:
        """Mask each, but none that is within a mask, or half in one."""
        found = [*self.found_in(text)] if self else []
        if not found:
            return text
        return MASK.join(_masked(part, found) for part in text.split(MASK))


def _masked(text: str, needles: Iterable[str]) -> str:
    out: list[str] = []
    done = 0
    for start, end in sorted(chain.from_iterable(_spans(text, needle) for needle in needles)):
        if start >= done:
            out += (text[done:start], MASK)
        done = max(done, end)  # where two overlap, both are gone
    return "".join((*out, text[done:])) if out else text


def _spans(text: str, needle: str) -> Iterator[tuple[int, int]]:
    place = text.find(needle)
    while place >= 0:
        yield place, place + len(needle)
        place = text.find(needle, place + len(needle))

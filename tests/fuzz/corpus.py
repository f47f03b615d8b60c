"""The inputs that are kept, and sent again by test_corpus.py.

corpus/mended.jsonl    what once broke something; written by hand, each with its defect
corpus/calls.jsonl     {"tool": NAME, "arguments": {…}}, the worst of a run with --keep
corpus/frames.jsonl    {"place": NAME, "frames": [TEXT, …]}, bytes written as latin-1
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FOLDER = Path(__file__).parent / "corpus"
MENDED, CALLS, FRAMES = (FOLDER / f"{name}.jsonl" for name in ("mended", "calls", "frames"))
MOST_CALLS = 144
MOST_FRAMES = 56
LONGEST_LINE = 900
"""Larger inputs are drawn again by every run, and need not be kept; but for those that broke
something, of which only the largest are left out."""
LONGEST_BROKEN = 100_000
SLOW_S = 0.6
SLOWEST_S = 1.5
SLOW_TOGETHER_S = 4.0
"""What takes longer than `SLOW_S` is kept for as much time as this, each and together, while the
run's agents share the machine: `make test` sends all of it, alone."""
SLOW_TOOLS = frozenset({"startSession", "endSession", "restartServer", "pdf"})


class KeptCall(NamedTuple):
    tool: str
    arguments: dict[str, Any]

    def line(self) -> str:
        return json.dumps({"tool": self.tool, "arguments": self.arguments})


class KeptFrames(NamedTuple):
    place: str
    frames: list[bytes]

    def line(self) -> str:
        return json.dumps(
            {"place": self.place, "frames": [frame.decode("latin-1") for frame in self.frames]}
        )


def kept_calls() -> list[KeptCall]:
    lines = [*_lines(MENDED), *_lines(CALLS)]
    return [KeptCall(one["tool"], one["arguments"]) for one in lines if "tool" in one]


def kept_frames() -> list[KeptFrames]:
    lines = [*_lines(MENDED), *_lines(FRAMES)]
    return [
        KeptFrames(one["place"], [frame.encode("latin-1") for frame in one["frames"]])
        for one in lines
        if "place" in one
    ]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


class Keeper:
    """Collects the worst inputs of a run."""

    def __init__(self) -> None:
        self._calls = _Worst()
        self._frames = _Worst()

    def add_call(
        self, tool: str, arguments: Mapping[str, Any], code: str, took: float, *, broke: bool
    ) -> None:
        if broke or tool not in SLOW_TOOLS:
            line = KeptCall(tool, dict(arguments)).line()
            self._calls.add(tool, code, line, took, broke=broke)

    def add_frames(self, place: str, frames: list[bytes], took: float, *, broke: bool) -> None:
        line = KeptFrames(place, frames).line()
        # Sockets have no code to answer with: what is about as long is of one kind.
        self._frames.add(place, str(len(line) // 100), line, took, broke=broke)

    def write(self) -> None:
        """Write the files of the corpus anew."""
        for path, kept in (
            (CALLS, self._calls.chosen(MOST_CALLS)),
            (FRAMES, self._frames.chosen(MOST_FRAMES)),
        ):
            path.write_text("".join(f"{line}\n" for line in kept))


class _Worst:
    """What broke something comes first, then what took long, and then of each tool or socket, in
    turn, the longest input for every way in which it answered."""

    def __init__(self) -> None:
        self._broke: dict[tuple[str, str], str] = {}
        self._slow: list[tuple[float, str]] = []
        self._ways: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def add(self, group: str, way: str, line: str, took: float, *, broke: bool) -> None:
        if broke:
            if len(line) <= LONGEST_BROKEN:
                self._broke.setdefault((group, way), line)
        elif took > SLOWEST_S or len(line) > LONGEST_LINE:
            return
        elif took > SLOW_S:
            self._slow.append((took, line))
        elif len(line) > len(self._ways[group].get(way, "")):
            self._ways[group][way] = line

    def chosen(self, most: int) -> list[str]:
        """Return the lines that are kept, the worst first."""
        slow: list[str] = []
        left = SLOW_TOGETHER_S
        for took, line in sorted(self._slow, reverse=True):
            if took <= left:
                left -= took
                slow.append(line)
        groups = [list(ways.values()) for ways in self._ways.values()]
        return list(dict.fromkeys((*self._broke.values(), *slow, *_in_turn(groups))))[:most]


def _in_turn[T](groups: Iterable[list[T]]) -> list[T]:
    """Return the first of each group, then the second of each, and so on."""
    return [one for one in chain.from_iterable(zip_longest(*groups)) if one is not None]

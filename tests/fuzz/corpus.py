"""The inputs that are kept, and sent again by test_corpus.py.

corpus/mended.jsonl    what once broke something; written by hand, each with its defect
corpus/calls.jsonl     {"tool": NAME, "arguments": {…}}, the oddest of a run with --keep
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
MOST_CALLS = 140
MOST_FRAMES = 48
LONGEST_LINE = 900
"""Larger inputs are drawn again by every run, and need not be kept."""
SLOW_S = 0.6
"""What takes longer is not kept: `make test` sends all of it."""
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
    """Collects the oddest inputs of a run: of each tool one for every way in which it answered."""

    def __init__(self) -> None:
        self._calls: defaultdict[str, dict[str, KeptCall]] = defaultdict(dict)
        self._frames: defaultdict[str, list[KeptFrames]] = defaultdict(list)

    def add_call(self, tool: str, arguments: Mapping[str, Any], code: str, took: float) -> None:
        kept = KeptCall(tool, dict(arguments))
        if took > SLOW_S or tool in SLOW_TOOLS or len(kept.line()) > LONGEST_LINE:
            return
        before = self._calls[tool].get(code)
        if before is None or len(kept.line()) > len(before.line()):
            self._calls[tool][code] = kept

    def add_frames(self, place: str, frames: list[bytes]) -> None:
        kept = KeptFrames(place, frames)
        if len(kept.line()) <= LONGEST_LINE:
            self._frames[place].append(kept)

    def write(self) -> None:
        """Write the files of the corpus anew; all tools and sockets have their turn."""
        calls = _in_turn([list(codes.values()) for _, codes in sorted(self._calls.items())])
        frames = _in_turn(
            [sorted(kept, key=lambda one: -len(one.line())) for kept in self._frames.values()]
        )
        for path, kept, most in ((CALLS, calls, MOST_CALLS), (FRAMES, frames, MOST_FRAMES)):
            path.write_text("".join(f"{one.line()}\n" for one in kept[:most]))


def _in_turn[T](groups: Iterable[list[T]]) -> list[T]:
    """Return the first of each group, then the second of each, and so on."""
    return [one for one in chain.from_iterable(zip_longest(*groups)) if one is not None]

"""What the demo tells: chapters of sentences, calls and exhibits, printed as they come and kept."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

INDENT = 4
WIDTH = 100
LONGEST_ARGUMENT = 60
MOST_LINES = 12
"""Of an exhibit on the terminal; the report has all of it."""


class DemoFailed(Exception):
    """Something did not go as the story says; the message is for whoever ran the demo."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Text as it was found."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """A list, the most telling first; an entry may be marked as bad."""

    title: str
    lines: tuple[str, ...]
    bad: frozenset[int] = frozenset()


class Moment(NamedTuple):
    """One thing that happened."""

    when: str
    lane: str
    text: str
    why: str
    """How it is known to belong to what came before."""
    is_bad: bool


@dataclass(frozen=True, slots=True)
class Moments:
    """Things that happened, in their order."""

    title: str
    rows: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG file."""

    title: str
    path: Path


type Exhibit = Quote | Lines | Moments | Picture


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as it was made."""

    tool: str
    arguments: dict[str, Any]
    took_s: float
    is_error: bool

    @property
    def text(self) -> str:
        """As one would write it, without what is long."""
        given = ", ".join(f"{name}: {_short(value)}" for name, value in self.arguments.items())
        return f"{self.tool}({given})"


@dataclass(slots=True)
class Chapter:
    """A part of the story."""

    title: str
    sentences: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    exhibits: list[Exhibit] = field(default_factory=list)


class Teller:
    """Prints the story while it happens, and keeps it for the report."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self.chapters: list[Chapter] = []

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def begin(self, title: str) -> None:
        """The next chapter."""
        self.chapters.append(Chapter(title))
        self._console.print(Text(f"\n{len(self.chapters):2}  {title}", "bold"))

    def called(self, call: Call) -> None:
        self.chapters[-1].calls.append(call)
        mark = ("failed", "red") if call.is_error else (f"{call.took_s * 1000:.0f} ms", "dim")
        self._print(Text.assemble((f"→ {call.text}  ", "cyan"), mark))

    def say(self, sentence: str) -> None:
        self.chapters[-1].sentences.append(sentence)
        self._print(Text(sentence))

    def show(self, exhibit: Exhibit, *, only_in_report: bool = False) -> None:
        self.chapters[-1].exhibits.append(exhibit)
        if only_in_report:
            return
        match exhibit:
            case Quote(title, text):
                self._panel(title, text.splitlines())
            case Lines(title, lines):
                self._panel(title, [f"• {line}" for line in lines])
            case Moments(title, rows):
                self._print(_table(title, rows))
            case Picture(title, path):
                self._print(Text(f"{title}: {path.name}", "dim"))

    def _panel(self, title: str, lines: list[str]) -> None:
        left = len(lines) - MOST_LINES
        shown = lines[:MOST_LINES] + ([f"… {left} more in the report"] if left > 0 else [])
        self._print(Panel(Text("\n".join(shown)), title=Text(title), title_align="left"))

    def _print(self, what: Any) -> None:
        width = min(WIDTH, self._console.width)
        self._console.print(Padding.indent(what, INDENT), width=width)


def _table(title: str, rows: tuple[Moment, ...]) -> Table:
    made = Table("when", "lane", "what", title=title, title_justify="left", expand=True)
    for row in rows:
        made.add_row(row.when, row.lane, Text(row.text, "red" if row.is_bad else ""))
    return made


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_ARGUMENT else f"{text[: LONGEST_ARGUMENT - 1]}…"

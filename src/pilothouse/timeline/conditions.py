"""Conditions of watches and how they are written. Pure.

console.error        status >= 500        slow > 1000 ms
selector gone CSS    log =~ PATTERN
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pilothouse.core.regex import BadPattern, compile_pattern
from pilothouse.timeline.model import BadWatch

if TYPE_CHECKING:
    from collections.abc import Callable

FORMS = "console.error, status >= 500, slow > 1000 ms, selector gone CSS or log =~ PATTERN"

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_WORD = re.compile(r"\s*([A-Za-z.]+)")
_OPERATOR = re.compile(r"\s*(>=|<=|==|!=|=~|>|<|=)")
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)")
_UNIT = re.compile(r"\s*(ms|s)?")


@dataclass(frozen=True, slots=True)
class ConsoleError:
    """The page wrote an error to its console, or threw one."""


@dataclass(frozen=True, slots=True)
class StatusIs:
    """A response has such a status."""

    operator: str
    number: float

    def fits(self, status: float) -> bool:
        return _OPERATORS[self.operator](status, self.number)


@dataclass(frozen=True, slots=True)
class Slow:
    """A request had no whole answer after so long; one that hangs is reported while it does."""

    limit_ms: float


@dataclass(frozen=True, slots=True)
class Gone:
    """An element was in the page and is no more."""

    selector: str


@dataclass(frozen=True, slots=True)
class Logged:
    """A server wrote a line that fits."""

    pattern: Any


type Condition = ConsoleError | StatusIs | Slow | Gone | Logged


# How it is written


def parse(text: str) -> Condition:
    """Parse a condition; raises BadWatch, with the position of what cannot be read."""
    first = _WORD.match(text)
    word, after = (first[1], first.end()) if first else ("", 0)
    match word:
        case "console.error":
            _end(text, after)
            return ConsoleError()
        case "status":
            sign, after = _operator(text, after, tuple(_OPERATORS))
            number, after = _number(text, after, "a status such as 500")
            _end(text, after)
            return StatusIs(sign, number)
        case "slow":
            _, after = _operator(text, after, (">", ">="))
            number, after = _number(text, after, "a time such as 1000 ms")
            unit = _UNIT.match(text, after)
            assert unit is not None  # it may be empty
            _end(text, unit.end())
            return Slow(number * 1000 if unit[1] == "s" else number)
        case "selector":
            return Gone(_selector(text, after))
        case "log":
            _, after = _operator(text, after, ("=~",))
            return Logged(_pattern(text, after))
    _bad(text, len(text) - len(text.lstrip()), FORMS)


def _operator(text: str, at: int, allowed: tuple[str, ...]) -> tuple[str, int]:
    found = _OPERATOR.match(text, at)
    if found is None or found[1] not in allowed:
        _bad(text, found.start(1) if found else at, " or ".join(allowed))
    return found[1], found.end()


def _number(text: str, at: int, expected: str) -> tuple[float, int]:
    found = _NUMBER.match(text, at)
    if found is None:
        _bad(text, at, expected)
    return float(found[1]), found.end()


def _selector(text: str, at: int) -> str:
    """Return the selector of `gone CSS` or `CSS gone`."""
    rest = text[at:].strip()
    words = rest.split()
    if len(words) > 1 and words[0] == "gone":
        return rest.removeprefix("gone").strip()
    if len(words) > 1 and words[-1] == "gone":
        return rest.removesuffix("gone").strip()
    _bad(text, at, "gone and a CSS selector")


def _pattern(text: str, at: int) -> Any:
    source = text[at:].strip()
    if not source:
        _bad(text, at, "a pattern")
    try:
        return compile_pattern(source)
    except BadPattern as error:
        _bad(text, at + len(text[at:]) - len(text[at:].lstrip()), "an RE2 pattern", str(error))


def _end(text: str, at: int) -> None:
    if text[at:].strip():
        _bad(text, at + len(text[at:]) - len(text[at:].lstrip()), "nothing more")


def _bad(text: str, at: int, expected: str, why: str = "") -> NoReturn:
    at = min(at + len(text[at:]) - len(text[at:].lstrip()), len(text))
    received = text[at : at + 40] or "the end"
    raise BadWatch(
        f"when, at position {at}: {why or f'expected {expected}'}",
        hint=f"write it as {FORMS}",
        position=at,
        expected=expected,
        received=received,
    )

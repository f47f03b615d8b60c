"""The filter language: what a filter says, apart from how it is read and how it is carried out.

    method == POST && url =~ /login && status == 401
    (status >= 500 || full_text_i =~ exception) && time > 2025-01-15T10:30:00Z

A filter judges exchanges. Each condition names a column, an operator and a value; `&&` binds
tighter than `||`, and parentheses group. A value without quotes runs until `&&`, `||` or a closing
parenthesis that it did not open. In quotes, a backslash stands before a quote or a backslash that
is meant as such; before anything else it is kept, so that patterns read the same in quotes.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, NamedTuple, cast, get_args

from pilothouse.core.regex import BadPattern, compile_pattern
from pilothouse.core.timeline.clock import iso
from pilothouse.intercept.history.schema import COLUMNS
from pilothouse.intercept.model import BadFilter, Kind

type Operator = Literal["==", "!=", "=~", "!~", ">", ">=", "<", "<="]
type Node = Compare | And | Or

KINDS: tuple[str, ...] = get_args(Kind.__value__)
EXAMPLE = "method == POST && url =~ /api/ && status >= 400"
MOST_CHARACTERS = 8_000
MOST_CONDITIONS = 100
BIGGEST = 2**63 - 1
FIRST_LIKELY_MS = 100_000_000_000
"""A time before this, in 1973, is more likely given in seconds than meant."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_MILLISECONDS = re.compile(r"[+-]?[0-9]{1,16}(\.[0-9]*)?")
_BOOLEANS = {"true": 1, "1": 1, "false": 0, "0": 0}
_SWALLOWED = re.compile(rf"(?i)\s(and|or|\||&)\s+({'|'.join(COLUMNS)})\s*(==|!=|=~|!~|[<>])")
"""Pattern of another condition within what is read as a value."""
_OPERATORS = {
    "text": "== != =~ !~",
    "content": "== != =~ !~",
    "boolean": "== !=",
    "integer": "== != =~ !~ > >= < <=",
    "time": "== != =~ !~ > >= < <=",
}


@dataclass(frozen=True, slots=True)
class Compare:
    """One condition. The value is a number for numbers, booleans (1 or 0) and times (epoch ms)."""

    column: str
    operator: Operator
    value: str | int

    @property
    def is_pattern(self) -> bool:
        return self.operator in ("=~", "!~")

    @property
    def is_negative(self) -> bool:
        return self.operator in ("!=", "!~")


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    text: str
    root: Node
    warnings: tuple[str, ...] = ()
    """Warnings of what was read as it stands but is hardly meant."""


class WrittenWord(NamedTuple):
    """A piece of the filter's text and where it stands, counted from 0."""

    text: str
    position: int


@lru_cache(maxsize=256)
def parse(text: str) -> Filter:
    """Read a filter.

    Raises:
        BadFilter: with the `position` of what is wrong and what was `expected` there.
    """
    from pilothouse.intercept.filter.grammar import read  # lark takes a moment to import

    if len(text) > MOST_CHARACTERS:
        raise bad(
            "the filter is too long", MOST_CHARACTERS, f"at most {MOST_CHARACTERS:,} characters"
        )
    for position, character in enumerate(text):
        if "\ud800" <= character <= "\udfff":
            raise bad("half a character (a lone surrogate)", position, "whole characters")
    root = read(text)
    return Filter(text, root, tuple(_warnings(root)))


def condition(column: WrittenWord, operator: WrittenWord, value: WrittenWord) -> Compare:
    """Make a condition of what is written, checked and with its value in the column's kind.

    Raises:
        BadFilter
    """
    kind = COLUMNS.get(column.text)
    if kind is None:
        near = difflib.get_close_matches(column.text.lower(), COLUMNS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"columns are {', '.join(COLUMNS)}"
        raise bad(f"there is no column {column.text!r}", column.position, "a column", hint)
    sign = cast("Operator", operator.text)
    if sign not in _OPERATORS[kind].split():
        allowed = ", ".join(_OPERATORS[kind].split())
        raise bad(
            f"{column.text} is {_article(kind)} and cannot be compared by {sign}",
            operator.position,
            f"one of {allowed}",
        )
    if not value.text:
        raise bad("the value is empty", value.position, "a value")
    return Compare(column.text, sign, _value(column.text, kind, sign, value))


def bad(what: str, position: int, expected: str, hint: str = "") -> BadFilter:
    """Return the fault that says what stands where, what was expected and how it could read."""
    return BadFilter(
        f"filter, position {position}: {what}; expected {expected}",
        hint=f"{hint}; for example: {EXAMPLE}" if hint else f"for example: {EXAMPLE}",
        position=position,
        expected=expected,
    )


def _value(column: str, kind: str, sign: Operator, value: WrittenWord) -> str | int:
    if sign in ("=~", "!~"):
        check_pattern(value.text, value.position, ignore_case=column == "full_text_i")
        return value.text
    if column == "full_text_i":
        check_pattern(literal_pattern(value.text), value.position, ignore_case=True)
    if kind == "integer":
        return _number(value)
    if kind == "boolean":
        found = _BOOLEANS.get(value.text)
        if found is None:
            raise bad(
                f"{column} is yes or no, not {_short(value.text)}", value.position, "true or false"
            )
        return found
    return _time(value) if kind == "time" else value.text


def literal_pattern(text: str) -> str:
    """Return the pattern that matches this text and nothing else."""
    import re2

    return str(re2.escape(text))


def check_pattern(pattern: str, position: int, *, ignore_case: bool) -> None:
    """Check a pattern; raises BadFilter when RE2 does not take it."""
    try:
        compile_pattern(pattern, ignore_case=ignore_case)
    except BadPattern as error:
        raise bad(
            str(error),
            position,
            "an RE2 pattern",
            "RE2 has no look-around and no back-references, and slashes are literal",
        ) from None


def _number(value: WrittenWord) -> int:
    found = int(value.text) if _NUMBER.fullmatch(value.text) else None
    if found is None or abs(found) > BIGGEST:
        raise bad(
            f"{_short(value.text)} is not a number", value.position, "a whole number of 64 bits"
        )
    return found


def _time(value: WrittenWord) -> int:
    """Return epoch milliseconds, whole as the history shows them; without an offset it is UTC."""
    if _MILLISECONDS.fullmatch(value.text):
        return int(float(value.text))
    try:
        moment = datetime.fromisoformat(value.text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        raise bad(
            f"{_short(value.text)} is not a time",
            value.position,
            "ISO 8601 or epoch milliseconds",
            "write it like 2025-01-15T10:30:00Z",
        ) from None
    return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000


def _warnings(node: Node) -> list[str]:
    if isinstance(node, And | Or):
        return [warning for part in node.parts for warning in _warnings(part)]
    if node.column == "type" and not node.is_pattern and node.value not in KINDS:
        return [
            f"no packet has the type {_short(str(node.value))}: it is one of {', '.join(KINDS)}"
        ]
    if node.column == "time" and isinstance(node.value, int) and 0 < node.value < FIRST_LIKELY_MS:
        return [f"{node.value} is read as epoch milliseconds, so as {iso(node.value)}"]
    if isinstance(node.value, str) and _SWALLOWED.search(node.value):
        return [f"{_short(node.value)} is read as one value: conditions are joined by && and ||"]
    if node.column == "method" and not node.is_pattern and str(node.value).islower():
        return [f"method is compared with its case: {_short(str(node.value))} is not in capitals"]
    return []


def _article(kind: str) -> str:
    return {"integer": "a number", "boolean": "yes or no", "time": "a time"}.get(kind, "text")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")

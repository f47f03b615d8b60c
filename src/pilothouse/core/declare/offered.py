"""What a model is told in prompts and instructions: only of tools that are served.

Back-quotes mark tools in these lines and nothing else, so that a line which names a tool that is
not served can be left out.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

type Line = str | Sequence[str]
"""A line, or alternatives of which the first that fits is used; `1. ` begins each list step."""

_STEP = "1. "
_CLAUSE = re.compile(r"; |, or |\. (?=[A-Z])")
_CALL = re.compile(r"`(\w+)(?: (\{[^`]*\}))?`")


class Words(str):
    """A line with words of the user's own, in which back-quotes mean nothing."""

    __slots__ = ()


def offered_text(lines: Iterable[Line], tools: Collection[str]) -> str:
    """Return the lines that name only tools which are served, their steps numbered."""

    def sayable(line: str) -> bool:
        return isinstance(line, Words) or all(name in tools for name, _ in calls_in(line))

    told: list[str] = []
    steps = 0
    for line in lines:
        choices = [line] if isinstance(line, str) else line
        for choice in [one for one in choices if sayable(one)][:1]:
            is_step = choice.startswith(_STEP)
            steps += is_step
            told.append(f"{steps}. {choice.removeprefix(_STEP)}" if is_step else choice)
    return "\n".join(told)


def without(hint: str, unserved: Collection[str]) -> str:
    """Leave out the clauses of a hint that send a model to a tool which it is not served."""
    if not names_in(hint, unserved):
        return hint
    clauses = _CLAUSE.split(hint)
    return "; ".join(clause for clause in clauses if not names_in(clause, unserved))


def names_in(text: str, tools: Collection[str]) -> list[str]:
    """Return those of the tools that a text names. One whose name is a plain word (`find`,
    `watch`) is only named where it stands as a call."""
    return [name for name in tools if name in text and _pattern(name).search(text)]


@cache
def _pattern(name: str) -> re.Pattern[str]:
    if name.islower() and "_" not in name:
        return re.compile(rf"(?:\bcall |`){name}\b|\b{name}(?: \{{|\(| with )")
    return re.compile(rf"\b{name}\b")


def calls_in(text: str) -> list[tuple[str, str]]:
    """Return the tools that a text names, each with its arguments as JSON, or an empty text."""
    return _CALL.findall(text)


def is_offered(needs_one_of: Iterable[str], tools: Collection[str]) -> bool:
    """Return whether a prompt is any use where these tools are served."""
    return any(tool in tools for tool in needs_one_of)

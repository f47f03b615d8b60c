"""Literal text that an RE2 pattern cannot match without, as a query to the text index.

The index holds trigrams of folded text, so case does not matter here. Whatever is not understood
is left out: too little only costs time, too much would lose hits.
"""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST = 3
MOST_TRIGRAMS = 32
"""Most trigrams of a literal; of one with more only those that cover it are searched for."""
_QUANTIFIERS = "*+?{"
_NOT_A_CHARACTER = "bBAzdDwWsS"
_CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_FOLDED_ALIKE_BELOW = "\u0250"
"""Character from which on the index and RE2 differ in what they take for one letter: each has its
version of Unicode."""

type Needed = str | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Needed, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Needed, ...]


class _NotUnderstood(Exception):
    pass


def needed_by(pattern: str) -> Needed | None:
    """Return what each text that matches contains, in any case; None if nothing long is known."""
    scanner = _Scanner(pattern)
    try:
        found = scanner.alternatives()
    except _NotUnderstood:
        return None
    return found if scanner.at_end else None


def index_query(needed: Needed, *, any_case: bool) -> str | None:
    """Return the index's expression for it; None where no trigram of it can be searched for."""
    if isinstance(needed, str):
        return " AND ".join(_quoted(part) for part in _trigrams(needed, any_case)) or None
    queries = [index_query(part, any_case=any_case) for part in needed.parts]
    if isinstance(needed, AnyOf):
        if not queries or None in queries:
            return None
        return " OR ".join(f"({query})" for query in queries)
    return " AND ".join(f"({query})" for query in queries if query) or None


def words(needed: Needed) -> list[str]:
    """Return the literals, to be shown."""
    if isinstance(needed, str):
        return [needed]
    return [word for part in needed.parts for word in words(part)]


def _trigrams(literal: str, any_case: bool) -> list[str]:
    """Return a literal's trigrams, all of a short one: each spares reading some texts in vain."""
    last = len(literal) - SHORTEST
    starts = range(last + 1) if last < MOST_TRIGRAMS else [*range(0, last, SHORTEST), last]
    parts = (literal[start : start + SHORTEST] for start in starts)
    return [
        part
        for part in parts
        if "\0" not in part and not (any_case and not all(map(_folds_alike, part)))
    ]


def _folds_alike(character: str) -> bool:
    return character < _FOLDED_ALIKE_BELOW or character.lower() == character == character.upper()


def _quoted(trigram: str) -> str:
    return '"' + trigram.replace('"', '""') + '"'


class _Scanner:
    """Scanner of a pattern that RE2 has accepted, so brackets are known to be balanced."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    @property
    def at_end(self) -> bool:
        return self.at >= len(self.pattern)

    def alternatives(self) -> Needed | None:
        """Read up to the closing parenthesis or the end."""
        branches = [self._sequence()]
        while not self.at_end and self.pattern[self.at] == "|":
            self.at += 1
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        known = [branch for branch in branches if branch is not None]
        return AnyOf(tuple(known)) if len(known) == len(branches) else None

    def _sequence(self) -> Needed | None:
        parts: list[Needed] = []
        run = ""
        while not self.at_end and self.pattern[self.at] not in "|)":
            character, inner = self._atom()
            least = self._repeats()
            if character and least is None:
                run += character
                continue
            # Of x{2} and x+ one x is certain, and it ends the run: what follows may be another.
            certain = run + character if character and least else run
            if len(certain) >= SHORTEST:
                parts.append(certain)
            run = ""
            if inner is not None and least != 0:
                parts.append(inner)
        if len(run) >= SHORTEST:
            parts.append(run)
        if len(parts) > 1:
            return AllOf(tuple(parts))
        return parts[0] if parts else None

    def _atom(self) -> tuple[str, Needed | None]:
        """Read the character that stands here, or what a group needs."""
        character = self.pattern[self.at]
        self.at += 1
        if character == "\\":
            return self._escape(), None
        if character == "[":
            self._skip_class()
            return "", None
        if character == "(":
            return "", self._group()
        if character in ".^$":
            return "", None
        return character, None

    def _escape(self) -> str:
        character = self.pattern[self.at]
        self.at += 1
        if character in _CONTROL:
            return _CONTROL[character]
        if character in _NOT_A_CHARACTER:
            return ""
        if character.isalnum():
            raise _NotUnderstood
        return character

    def _group(self) -> Needed | None:
        if self.pattern.startswith("?", self.at):
            close = self.pattern.find(")", self.at)
            start = min(
                (at for at in (self.pattern.find(mark, self.at) for mark in ":>") if at >= 0),
                default=len(self.pattern),
            )
            if close < start:
                self.at = close + 1  # (?i) alone: only how the rest is matched
                return None
            self.at = start + 1
        found = self.alternatives()
        self.at += 1
        return found

    def _skip_class(self) -> None:
        """Skip a class: it ends at the first bracket that is not its first character."""
        first = self.at + self.pattern.startswith("^", self.at)
        self.at = first
        while self.pattern[self.at] != "]" or self.at == first:
            if self.pattern.startswith("[:", self.at):
                end = self.pattern.find(":]", self.at + 2)
                if end < 0:
                    raise _NotUnderstood
                self.at = end + 2
                continue
            self.at += 2 if self.pattern[self.at] == "\\" else 1
            if self.at >= len(self.pattern):
                raise _NotUnderstood
        self.at += 1

    def _repeats(self) -> int | None:
        """Return how often at least what stands before is repeated; None without a quantifier."""
        least: int | None = None
        while not self.at_end and self.pattern[self.at] in _QUANTIFIERS:
            mark = self.pattern[self.at]
            if mark == "{":
                counted = self._counted()
                if counted is None:
                    break
                least = counted if least is None else min(least, counted)
                continue
            self.at += 1
            if mark == "?" and least is not None:
                continue  # x+? is x+ that prefers less
            least = 1 if mark == "+" else 0
        return least

    def _counted(self) -> int | None:
        """Read {2}, {2,} or {2,5}; None for anything else in braces, which is literal."""
        end = self.pattern.find("}", self.at)
        inside = self.pattern[self.at + 1 : end] if end > 0 else ""
        low, _, high = inside.partition(",")
        if not (
            low.isascii() and low.isdigit() and (not high or (high.isascii() and high.isdigit()))
        ):
            return None
        self.at = end + 1
        return int(low)

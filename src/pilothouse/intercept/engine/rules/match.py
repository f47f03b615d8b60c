"""Rules of sessions, and the flows that a rule is meant for: shared by mocks and breakpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.regex import BadPattern, compile_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

LONGEST_URL = 4096
"""Characters of a URL that are searched. Every request waits for it, whatever the pattern."""


@dataclass(frozen=True, slots=True)
class Match:
    """A method and a pattern that is searched in the whole URL; empty means any."""

    session: str
    method: str
    pattern: Any

    def takes(self, session: str, method: str, url: str) -> bool:
        """Return whether a request fits; one of a listener without a session fits any."""
        if session and session != self.session:
            return False
        if self.method and self.method != method:
            return False
        return self.pattern is None or self.pattern.search(url[:LONGEST_URL]) is not None


def match_of(session: str, rule: Mapping[str, Any], where: str) -> Match:
    """Read the match of a rule; raises InvalidInput."""
    url = str(rule.get("url") or "")
    try:
        pattern = compile_pattern(url) if url else None
    except BadPattern as error:
        raise InvalidInput(
            f"{where}.url: {error}", hint="give an RE2 pattern that is searched in the whole URL"
        ) from None
    return Match(session, str(rule.get("method") or "").upper(), pattern)


class ShownRule(Protocol):
    def shown(self) -> dict[str, Any]:
        """Return the rule as it was given, with what is known of it since."""


class RuleBook[R: ShownRule]:
    """The rules of each session, replaced as a whole."""

    def __init__(self, name: str, read: Callable[[str, Mapping[str, Any], str], R]) -> None:
        """Take `read`, which makes a session's rule of what was given as `name[0]`, `name[1]` …"""
        self._name = name
        self._read = read
        self._rules: dict[str, list[R]] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __iter__(self) -> Iterator[R]:
        for rules in self._rules.values():
            yield from rules

    def set(self, session: str, rules: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
        """Replace a session's rules, None leaves them; return the rules that hold now.

        Raises:
            InvalidInput: nothing was replaced.
        """
        if rules is not None:
            read = [
                self._read(session, rule, f"{self._name}[{at}]") for at, rule in enumerate(rules)
            ]
            self._rules.pop(session, None)
            if read:
                self._rules[session] = read
        return [rule.shown() for rule in self._rules.get(session, ())]

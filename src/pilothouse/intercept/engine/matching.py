"""Which flows a mock or a breakpoint is meant for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.core.faults import InvalidInput
from pilothouse.core.regex import BadPattern, compile_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Match:
    """A method and a pattern that is searched in the whole URL; empty means any."""

    session: str
    method: str
    pattern: Any

    def takes(self, session: str, method: str, url: str) -> bool:
        """Packets of a listener that belongs to nobody concern every session's rules."""
        if session and session != self.session:
            return False
        if self.method and self.method != method:
            return False
        return self.pattern is None or self.pattern.search(url) is not None


def match_of(session: str, rule: Mapping[str, Any], where: str) -> Match:
    """Raises InvalidInput."""
    url = str(rule.get("url") or "")
    try:
        pattern = compile_pattern(url) if url else None
    except BadPattern as error:
        raise InvalidInput(
            f"{where}.url: {error}", hint="give an RE2 pattern that is searched in the whole URL"
        ) from None
    return Match(session, str(rule.get("method") or "").upper(), pattern)

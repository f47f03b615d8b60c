"""Answers that are given in place of a server's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mitmproxy import http

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.engine.rules.match import Match, RuleBook, match_of
from pilothouse.intercept.replay.http1 import HEADER_NAME, NOT_IN_VALUE

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_DELAY_MS = 60_000


@dataclass(slots=True)
class Mock:
    match: Match
    rule: dict[str, Any]
    """Rule as it was given."""
    status: int
    headers: http.Headers
    body: bytes
    delay_s: float
    left: int | None
    """Number of answers that it still gives; None for no end."""
    used: int = 0

    def response(self) -> http.Response:
        self.used += 1
        if self.left is not None:
            self.left -= 1
        return http.Response.make(self.status, self.body, self.headers.copy())

    def shown(self) -> dict[str, Any]:
        return {**self.rule, "used": self.used}


class Mocks(RuleBook[Mock]):
    def __init__(self) -> None:
        super().__init__("mocks", _mock)

    def find(self, session: str, method: str, url: str) -> Mock | None:
        """Return the first rule that takes a request and has answers left, None without one."""
        for mock in self:
            if mock.left != 0 and mock.match.takes(session, method, url):
                return mock
        return None


def _mock(session: str, rule: Mapping[str, Any], where: str) -> Mock:
    status = int(rule.get("status", 200))
    if not 200 <= status <= 599:
        raise InvalidInput(f"{where}.status: {status} is not between 200 and 599")
    delay = float(rule.get("delay_ms", 0))
    if not 0 <= delay <= LONGEST_DELAY_MS:
        raise InvalidInput(f"{where}.delay_ms: give 0 to {LONGEST_DELAY_MS}, not {delay:g}")
    times = int(rule.get("times", 0))
    headers = dict(rule.get("headers") or {}).items()
    for name, value in headers:
        if not HEADER_NAME.fullmatch(str(name)) or NOT_IN_VALUE & set(str(value)):
            raise InvalidInput(
                f"{where}.headers: {name!r} is no header of one line",
                hint="give names without blanks or a colon, and values without line ends",
            )
    return Mock(
        match_of(session, rule, where),
        dict(rule),
        status,
        http.Headers([(str(name).encode(), str(value).encode()) for name, value in headers]),
        str(rule.get("body", "")).encode(),
        delay / 1000,
        times if times > 0 else None,
    )

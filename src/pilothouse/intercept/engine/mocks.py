"""Answers that are given in place of a server's."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mitmproxy import http

from pilothouse.core.faults import InvalidInput
from pilothouse.intercept.engine.matching import Match, match_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_DELAY_MS = 60_000


@dataclass(slots=True)
class Mock:
    match: Match
    rule: dict[str, Any]
    """As it was given."""
    status: int
    headers: http.Headers
    body: bytes
    delay_s: float
    left: int | None
    """How many more answers it gives; None for no end."""
    used: int = 0

    def response(self) -> http.Response:
        self.used += 1
        if self.left is not None:
            self.left -= 1
        return http.Response.make(self.status, self.body, self.headers.copy())

    def shown(self) -> dict[str, Any]:
        return {**self.rule, "used": self.used}


class Mocks:
    def __init__(self) -> None:
        self._rules: dict[str, list[Mock]] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def set(self, session: str, rules: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
        """Replace a session's rules; None leaves them. The rules that hold now.

        Raises:
            InvalidInput
        """
        if rules is not None:
            made = [_mock(session, rule, f"mocks[{at}]") for at, rule in enumerate(rules)]
            self._rules.pop(session, None)
            if made:
                self._rules[session] = made
        return [mock.shown() for mock in self._rules.get(session, ())]

    def find(self, session: str, method: str, url: str) -> Mock | None:
        """The first rule that takes a request."""
        for rules in self._rules.values():
            for mock in rules:
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
    if "body_base64" in rule:
        body = b64decode(rule["body_base64"])
    else:
        body = str(rule.get("body", "")).encode()
    headers = http.Headers(_fields(rule.get("headers") or {}))
    return Mock(
        match_of(session, rule, where),
        dict(rule),
        status,
        headers,
        body,
        delay / 1000,
        times if times > 0 else None,
    )


def _fields(headers: Any) -> list[tuple[bytes, bytes]]:
    """From {name: value} or [{"name", "value"}], which may name a header twice."""
    if isinstance(headers, dict):
        pairs = list(headers.items())
    else:
        pairs = [(header["name"], header["value"]) for header in headers]
    return [(str(name).encode(), str(value).encode()) for name, value in pairs]

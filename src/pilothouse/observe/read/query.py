"""What of a target's events is wanted, as a predicate that is cheap on a full ring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.observe.model import Seen

MAX_STATUS = 999


@dataclass(frozen=True, slots=True)
class Query:
    """The conditions for what of a ring is wanted."""

    kinds: tuple[str, ...] = ()
    url_includes: str = ""
    method: str = ""
    text_includes: str = ""
    level: str = ""
    since: float = 0.0
    status: str = ""
    request_id: str = ""

    def status_range(self) -> tuple[int, int]:
        return status_range(self.status)

    def matcher(self) -> Callable[[Seen], bool] | None:
        """Return a predicate, or None when everything fits; cheap tests come first."""
        tests: list[Callable[[Seen], bool]] = []
        if self.kinds:
            kinds = frozenset(self.kinds)
            tests.append(lambda seen: seen.kind in kinds)
        if self.method:
            method = self.method.upper()
            tests.append(lambda seen: seen.method.upper() == method)
        if self.level:
            tests.append(lambda seen: seen.level == self.level)
        if self.request_id:
            tests.append(lambda seen: seen.request_id == self.request_id)
        if self.since:
            tests.append(lambda seen: seen.at >= self.since)
        if self.status:
            least, most = self.status_range()
            tests.append(lambda seen: least <= seen.status <= most)
        if self.url_includes:
            tests.append(lambda seen: self.url_includes in seen.url)
        if self.text_includes:
            tests.append(_text_test(self.text_includes))
        if not tests:
            return None
        if len(tests) == 1:
            return tests[0]
        return lambda seen: all(test(seen) for test in tests)

    def sql(self) -> tuple[str, list[Any]]:
        """Return the part of a query that SQL can judge, as conditions and their values."""
        parts: list[str] = []
        values: list[Any] = []
        if self.kinds:
            parts.append(f"kind IN ({','.join('?' * len(self.kinds))})")
            values += self.kinds
        for column, value in (
            ("upper(method)", self.method.upper()),
            ("level", self.level),
            ("request_id", self.request_id),
        ):
            if value:
                parts.append(f"{column} = ?")
                values.append(value)
        if self.since:
            parts.append("at >= ?")
            values.append(float(self.since))
        if self.url_includes:
            parts.append("instr(url, ?) > 0")
            values.append(self.url_includes)
        if self.status:
            low, high = self.status_range()
            parts.append("status BETWEEN ? AND ?")
            values += [low, high]
        return "".join(f" AND {part}" for part in parts), values


def status_range(text: str) -> tuple[int, int]:
    """Return the least and the greatest status of `404`, `>=400`, `<300` or `5xx`.

    Raises:
        ValueError: the text is none of these.
    """
    text = text.strip().lower()
    if len(text) == 3 and text.endswith("xx") and text[0].isdecimal():
        return max(1, int(text[0]) * 100), int(text[0]) * 100 + 99
    for sign in (">=", "<=", ">", "<", ""):
        if text.startswith(sign):
            number = min(int(text[len(sign) :]), MAX_STATUS + 1)
            least, most = {
                ">=": (number, MAX_STATUS),
                "<=": (1, number),
                ">": (number + 1, MAX_STATUS),
                "<": (1, number - 1),
                "": (number, number),
            }[sign]
            return max(1, least), most  # 0 is an event without a status
    raise AssertionError  # the empty sign always fits


def _text_test(needle: str) -> Callable[[Seen], bool]:
    """Return a test that looks into the packed JSON first: to say no, few need unpacking."""
    try:
        packed = orjson.dumps(needle)[1:-1]
    except TypeError:
        return lambda seen: False  # half a character, which nothing packed holds

    def found(seen: Seen) -> bool:
        if seen.packed.find(packed) < 0:  # twice as fast as `in`
            return False
        event = seen.unpack()
        texts = [
            event.get("text"),
            event.get("payloadPreview"),
            event.get("data"),
            event.get("errorText"),
            event.get("postDataPreview"),
            *event.get("args", ()),
        ]
        return any(needle in text for text in texts if isinstance(text, str))

    return found

"""Reading a ring: filters before the page is cut, masking when shown, an answer that fits.

An answer over its token budget is made smaller in steps (full, compact, summary) and always says
what was left out and how to get it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import orjson

from pilothouse.core.paging import Limit
from pilothouse.observe.mapping import places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pilothouse.core.redact import Redactor
    from pilothouse.observe.mapping import Mapper
    from pilothouse.observe.model import Seen
    from pilothouse.observe.observation import Observation

MAX_LIMIT = 1_000
CACHED_TEXT = 256
"""Longer texts are masked each time, so that the cache stays small."""
MAX_STATUS = 999
_COMPACT_TEXT = 200
_EMPTY: tuple[Any, ...] = ("", [], {})
_BULKY = (
    "headers",
    "requestHeaders",
    "timing",
    "argsPreview",
    "frames",
    "sessionId",
    "cdpTime",
    "wallTime",
    "protocol",
    "remoteAddress",
)


@dataclass(frozen=True, slots=True)
class Query:
    """What of a ring is wanted."""

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
        """A predicate, or None when everything fits; cheap tests come first."""
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


def status_range(text: str) -> tuple[int, int]:
    """`404`, `>=400`, `<300` or `5xx` as the least and the greatest status that fits.

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
    """Looks into the packed JSON first: most events need not be unpacked to say no."""
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


def shown(observation: Observation, seq: int, seen: Seen, redactor: Redactor) -> dict[str, Any]:
    """An event as it is shown: with its place, masked."""
    event = seen.unpack()
    if event.get("url"):
        event["url"] = masked_url(redactor, event["url"])
    for name in ("headers", "requestHeaders"):
        if event.get(name):
            event[name] = {k: masked_header(redactor, k, v) for k, v in event[name].items()}
    written = [event[name] for name in _WRITTEN if event.get(name)]
    if written and not redactor.passes(orjson.dumps(written)):
        _mask_written(event, redactor)
    head = {
        "seq": seq,
        "ts": event.pop("ts"),
        "targetId": observation.target_id,
        "sessionId": event.pop("sessionId"),
    }
    return {**head, **event}


_TEXTS = ("text", "postDataPreview", "payloadPreview", "data", "errorText")
_WRITTEN = (*_TEXTS, "args", "argsPreview")
"""What the page itself wrote; the rest is the protocol's."""


def _mask_written(event: dict[str, Any], redactor: Redactor) -> None:
    for name in _TEXTS:
        if event.get(name):
            event[name] = masked_text(redactor, event[name])
    if event.get("args"):
        event["args"] = [masked_text(redactor, arg) for arg in event["args"]]
    if event.get("argsPreview"):
        event["argsPreview"] = [_masked_preview(redactor, item) for item in event["argsPreview"]]


# The same URLs, headers and lines come again and again, within a page and from read to read.
@lru_cache(maxsize=8_192)
def masked_url(redactor: Redactor, url: str) -> str:
    return redactor.url(url)


@lru_cache(maxsize=8_192)
def masked_header(redactor: Redactor, name: str, value: str) -> str:
    return redactor.header(name, value)


@lru_cache(maxsize=8_192)
def _masked_short(redactor: Redactor, text: str) -> str:
    return redactor.text(text)


def masked_text(redactor: Redactor, text: str) -> str:
    return _masked_short(redactor, text) if len(text) <= CACHED_TEXT else redactor.text(text)


def _masked_preview(redactor: Redactor, item: Any) -> Any:
    if isinstance(item, str):
        return masked_text(redactor, item)
    if not isinstance(item, dict | list):
        return item
    return _masked_value(redactor, orjson.dumps(item))


@lru_cache(maxsize=4_096)
def _masked_value(redactor: Redactor, packed: bytes) -> Any:
    """Shared by all that show the same: nobody changes what is shown."""
    return redactor.value(orjson.loads(packed))


@dataclass(frozen=True, slots=True)
class Page:
    """What a read found."""

    events: list[dict[str, Any]]
    next_offset: int
    dropped: int
    matched: int
    limit: Limit

    @classmethod
    def of(cls, events: list[dict[str, Any]]) -> Page:
        """Events that were read already."""
        return cls(events, 0, 0, len(events), Limit(len(events), MAX_LIMIT))


def read(
    observation: Observation, query: Query, offset: int, limit: int, redactor: Redactor
) -> Page:
    """A page; what the ring has forgotten comes from the store, where there is one."""
    bounded = Limit(limit, MAX_LIMIT)
    part = observation.read(query, offset, bounded.used)
    events = [shown(observation, seq, seen, redactor) for seq, seen in part.items]
    return Page(events, part.next_seq, part.missed, part.matched, bounded)


def tail(observation: Observation, limit: int, redactor: Redactor) -> Page:
    part = observation.ring.tail(limit)
    events = [shown(observation, seq, seen, redactor) for seq, seen in part.items]
    return Page(events, part.next_seq, observation.dropped, len(events), Limit(limit, MAX_LIMIT))


async def settle_places(page: Page, mapper: Mapper | None, redactor: Redactor) -> None:
    """Lead the places of exceptions back to their sources, where there are maps; then mask."""
    for event in page.events:
        for place in places(event):
            if mapper is not None and event.get("source") == "exception":
                original = await mapper.original(place)
                if original is not None:
                    place["original"] = cast("dict[str, Any]", redactor.value(original))
            if place.get("url"):
                place["url"] = masked_url(redactor, place["url"])


def compact(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event without what is rarely needed, and with long texts cut."""
    made = {
        name: value
        for name, value in event.items()
        if name not in _BULKY and value is not None and value is not False and value not in _EMPTY
    }
    for name, value in made.items():
        if isinstance(value, str) and len(value) > _COMPACT_TEXT and name != "url":
            made[name] = value[:_COMPACT_TEXT] + "…"
    if made.get("args") and made.get("text"):
        del made["args"]
    return made


def slim(event: Mapping[str, Any]) -> dict[str, Any]:
    """What always fits: an event whose compact form is larger than the whole budget."""
    return {
        name: value[:80] + "…" if isinstance(value, str) and len(value) > 80 else value
        for name, value in compact(event).items()
        if isinstance(value, str | int)
    }


def summary(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of a page: by kind, level and status."""
    statuses = Counter(f"{event['status'] // 100}xx" for event in events if event.get("status"))
    levels = Counter(str(e["type"]) for e in events if e["kind"] in ("console", "log"))
    return {
        "kinds": dict(Counter(str(event["kind"]) for event in events)),
        "levels": dict(levels),
        "statuses": dict(statuses),
        "firstSeq": events[0]["seq"] if events else None,
        "lastSeq": events[-1]["seq"] if events else None,
    }

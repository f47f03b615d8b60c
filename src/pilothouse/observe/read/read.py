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

from pilothouse.core.declare.paging import Limit
from pilothouse.observe.read.stack_frames import places
from pilothouse.observe.record.packed_bodies import masked_base64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.observe.model import Seen
    from pilothouse.observe.read.query import Query
    from pilothouse.observe.read.stack_frames import Mapper
    from pilothouse.observe.record.observation import Observation

MAX_LIMIT = 1_000
CACHED_TEXT = 256
"""Longer texts are masked each time, so that the cache stays small."""
FORM = "application/x-www-form-urlencoded"
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
    "headersSize",
    "initiatedAt",
    "priority",
)


def shown(
    observation: Observation, items: Sequence[tuple[int, Seen]], redactor: Redactor
) -> list[dict[str, Any]]:
    """Return events as they are shown: with their places, masked."""
    events = [seen.unpack() for _, seen in items]
    written = [_written(event) for event in events]
    for event, is_suspect in zip(events, redactor.suspects(written), strict=True):
        if url := event.get("url"):
            event["url"] = masked_url(redactor, url)
        for name in ("headers", "requestHeaders"):
            if headers := event.get(name):
                event[name] = {k: masked_header(redactor, k, v) for k, v in headers.items()}
        if (stack := event.get("stack")) and stack.get("original"):
            stack["original"] = redactor.value(stack["original"])
        if event.get("opcode", 1) != 1:  # a binary message, as base64
            event["payloadPreview"] = masked_base64(event["payloadPreview"], redactor)
        if is_suspect:
            _mask_written(event, redactor)
        # In a form of one field there may be a key that is secret only there, such as `code`.
        if (posted := event.get("postDataPreview")) and "form-urlencoded" in _content_type(event):
            event["postDataPreview"] = redactor.text(posted, FORM)
    target = observation.target_id
    return [
        {
            "seq": seq,
            "ts": event.pop("ts"),
            "targetId": target,
            "sessionId": event.pop("sessionId"),
            **event,
        }
        for (seq, _), event in zip(items, events, strict=True)
    ]


def _content_type(event: dict[str, Any]) -> str:
    headers = event.get("headers") or {}
    return next((str(v).lower() for k, v in headers.items() if k.lower() == "content-type"), "")


def _written(event: dict[str, Any]) -> bytes:
    """Return the JSON of what the page itself wrote of an event."""
    written = [value for name in _WRITTEN if (value := event.get(name))]
    return orjson.dumps(written) if written else b""


_TEXTS = ("text", "postDataPreview", "payloadPreview", "data", "errorText", "fileName")
_LISTS = ("args", "causes")
_WRITTEN = (*_TEXTS, *_LISTS, "argsPreview")
"""Fields that the page itself wrote; the rest is the protocol's."""


def _mask_written(event: dict[str, Any], redactor: Redactor) -> None:
    for name in _TEXTS:
        if event.get(name):
            event[name] = masked_text(redactor, event[name])
    for name in _LISTS:
        if event.get(name):
            event[name] = [masked_text(redactor, arg) for arg in event[name]]
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
    """Mask a value, once for all that show the same: nobody changes what is shown."""
    return redactor.value(orjson.loads(packed))


@dataclass(frozen=True, slots=True)
class Page:
    """The events that a read found."""

    events: list[dict[str, Any]]
    next_offset: int
    dropped: int
    matched: int
    limit: Limit
    end: int = 0
    """Seq that the next event gets."""

    @classmethod
    def of(cls, events: list[dict[str, Any]]) -> Page:
        """Make a page of events that were read already."""
        return cls(events, 0, 0, len(events), Limit(len(events), MAX_LIMIT))


def read(
    observation: Observation, query: Query, offset: int, limit: int, redactor: Redactor
) -> Page:
    """Read a page; what the ring has forgotten comes from the store, where there is one."""
    bounded = Limit(limit, MAX_LIMIT)
    part = observation.read(query, offset, bounded.used)
    events = shown(observation, part.items, redactor)
    end = observation.ring.next_seq
    return Page(events, part.next_seq, part.missed, part.matched, bounded, end)


def tail(observation: Observation, limit: int, redactor: Redactor) -> Page:
    part = observation.newest(limit)
    events = shown(observation, part.items, redactor)
    return Page(events, part.next_seq, part.missed, len(events), Limit(limit, MAX_LIMIT))


async def settle_places(page: Page, mapper: Mapper | None, redactor: Redactor) -> None:
    """Lead the places of console lines and exceptions back to their sources, where there are maps;
    then mask."""
    written = [event for event in page.events if event["kind"] in ("console", "log")]
    if mapper is not None and written:
        named = [place for event in written for place in places(event)]
        await mapper.ready({place.get("url") or "" for place in named})
        for place in named:
            # What does not come in time is not waited for at every line.
            if not mapper.is_slow(place.get("url") or ""):
                place["original"] = await mapper.original(place) or place.get("original")
    for event in page.events:
        for place in places(event):
            original = place.pop("original", None)
            if original is not None:
                place["original"] = cast("dict[str, Any]", redactor.value(original))
            if place.get("url"):
                place["url"] = masked_url(redactor, place["url"])


def compact(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event without what is rarely needed, and with long texts cut."""
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
    """Cut an event whose compact form is larger than the whole budget to what always fits."""
    return {
        name: value[:80] + "…" if isinstance(value, str) and len(value) > 80 else value
        for name, value in compact(event).items()
        if isinstance(value, str | int)
    }


def summary(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the events of a page by kind, level and status."""
    statuses = Counter(f"{event['status'] // 100}xx" for event in events if event.get("status"))
    levels = Counter(str(e["type"]) for e in events if e["kind"] in ("console", "log"))
    return {
        "kinds": dict(Counter(str(event["kind"]) for event in events)),
        "levels": dict(levels),
        "statuses": dict(statuses),
        "firstSeq": events[0]["seq"] if events else None,
        "lastSeq": events[-1]["seq"] if events else None,
    }

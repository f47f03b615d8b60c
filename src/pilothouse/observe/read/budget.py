"""What `cdp_read_events` answers, made smaller until it fits its budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from pilothouse.core.declare.fence import visible_json
from pilothouse.core.declare.model import Result
from pilothouse.core.declare.paging import estimated_tokens
from pilothouse.observe.read.read import compact, slim, summary

if TYPE_CHECKING:
    from pilothouse.observe.read.read import Page


class EventPage(Result):
    next_offset: int = Field(description="Offset of the next page")
    events: list[dict[str, Any]] = Field(description="Normalised events")
    dropped: int = Field(description="Events from offset on that made room for newer ones")
    matched: int = Field(description="Events from offset on that fit, this page included")
    state: str = Field(description="observing, crashed, disconnected, closed or stopped")
    detail: str = Field(description="full, compact or summary, by maxTokens")
    notes: list[str] = Field(description="What was clamped or left out, and how to get it")
    summary: dict[str, Any] | None = Field(default=None, description="Counts, for detail summary")

    def dump(self) -> dict[str, Any]:
        shown = self.model_dump(mode="json", by_alias=True, exclude={"events", "summary"})
        # The events are JSON already; their nulls are part of the spec's shapes.
        made = {"nextOffset": shown.pop("nextOffset"), "events": self.events, **shown}
        return made if self.summary is None else {**made, "summary": self.summary}


def fitting(page: Page, state: str, max_tokens: int | None, *troubles: str) -> EventPage:
    """Return the answer, made smaller until it fits."""
    notes = [*([page.limit.note] if page.limit.note else []), *troubles]
    if page.dropped:
        notes.append(
            f"{page.dropped} events from this offset on made room for newer ones; read more"
            " often, or observe with a larger bufferSize"
        )

    def made(events: list[dict[str, Any]], detail: str, *more: str, **rest: Any) -> EventPage:
        return EventPage(
            next_offset=rest.pop("next_offset", page.next_offset),
            events=events,
            dropped=page.dropped,
            matched=page.matched,
            state=state,
            detail=detail,
            notes=[*notes, *more],
            **rest,
        )

    full = made(page.events, "full")
    if max_tokens is None or _cost(full) <= max_tokens:
        return full
    short = [compact(event) for event in page.events]
    said = "headers, timing, stacks and previews were left out; read with requestId or limit"
    smaller = made(short, "compact", said)
    if _cost(smaller) <= max_tokens:
        return smaller
    counted = made([], "summary", summary=summary(page.events), next_offset=page.next_offset)
    room = max_tokens - _cost(counted) - 60
    first: list[dict[str, Any]] = []
    for event in short:
        room -= estimated_tokens(visible_json(event))
        if room < 0:
            break
        first.append(event)
    if not first and short:
        first.append(slim(page.events[0]))  # a reader must always get on
    left = len(short) - len(first)
    after = short[len(first)]["seq"] if left else page.next_offset
    said = f"{left} of {len(short)} events were left out; go on at nextOffset, or raise maxTokens"
    return made(first, "summary", said, summary=summary(page.events), next_offset=after)


def _cost(events: EventPage) -> int:
    return estimated_tokens(visible_json(events.dump()))

"""Standing watches: when they fire, and what is reported of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.fence import Story
from pilothouse.core.timeline.clock import iso
from pilothouse.core.timeline.events import SessionTerminated
from pilothouse.core.timeline.lanes import (
    MomentKey,
    is_end_of_tab,
    key_of,
    level_of,
    line_of,
    request_of,
)
from pilothouse.timeline.conditions import ConsoleError, Gone, Logged, Slow, StatusIs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pilothouse.core.timeline.events import Occurrence
    from pilothouse.core.timeline.timeline import Moment
    from pilothouse.timeline.conditions import Condition

MOST_PENDING = 10_000
_MOST_KEPT = 1_000
_MOST_DISTINCT = 100
_MOST_TEXTS = 6
"""Distinct texts: so many a watch keeps, and so many of these an answer shows."""


# What is reported


@dataclass(frozen=True, slots=True)
class Hit:
    """One time that a watch fired."""

    key: MomentKey
    at: float
    event: Occurrence | None = None
    line: str = ""

    @property
    def text(self) -> str:
        if self.event is None:
            return self.line
        return line_of(self.event.name, self.event.facts())

    @property
    def rank(self) -> int:
        """Rank by how much it says: first an exception, then anything else, last the browser's own
        word that a request failed."""
        source = self.event.facts().get("source") if self.event is not None else ""
        return {"exception": 0, "network": 2}.get(str(source), 1)


type Show = Callable[[Hit], dict[str, Any]]
"""Function that puts a hit into words, masked."""


@dataclass(slots=True)
class HitTally:
    """Several hits as one: how many, the distinct ones among them, the first and the last."""

    count: int = 0
    first: Hit | None = None
    last: Hit | None = None
    distinct: dict[str, tuple[Hit, int]] = field(default_factory=dict)
    """Text → the first hit that says so, and how many do; of a flood, not all texts."""

    def add(self, hit: Hit) -> None:
        self.count += 1
        self.first = self.first or hit
        self.last = hit
        text = hit.text
        if text not in self.distinct and not self._has_room(hit):
            return
        known, count = self.distinct.get(text, (hit, 0))
        self.distinct[text] = (known, count + 1)

    def _has_room(self, hit: Hit) -> bool:
        """Return whether there is room for a text; one that says less is dropped for it."""
        if len(self.distinct) < _MOST_DISTINCT:
            return True
        least = max(self.distinct, key=lambda text: self.distinct[text][0].rank)
        if self.distinct[least][0].rank <= hit.rank:
            return False
        del self.distinct[least]
        return True

    def reported(self, show: Show) -> dict[str, Any]:
        told: dict[str, Any] = {"count": self.count}
        if len(self.distinct) > 1:
            ranked = sorted(self.distinct.values(), key=lambda one: one[0].rank)
            told["texts"] = [
                {"key": shown["key"], "text": shown["text"], "count": count}
                for hit, count in ranked[:_MOST_TEXTS]
                for shown in (show(hit),)
            ]
            if left := self.count - sum(count for _, count in ranked[:_MOST_TEXTS]):
                told["others"] = left
        if self.first is not None:
            told["first"] = show(self.first)
        if self.last is not None and self.count > 1:
            told["last"] = show(self.last)
        return told


@dataclass(slots=True)
class Watch:
    """A standing watch, with what it has fired on."""

    id: str
    when: str
    condition: Condition
    since: float
    session_id: str = ""
    """The browser session that it is for; empty for all."""
    ended: str = ""
    """Reason why it cannot fire any more, empty while it can."""
    fired: HitTally = field(default_factory=HitTally)
    news: HitTally = field(default_factory=HitTally)
    """Hits that no answer has reported yet."""

    def fire(self, hit: Hit) -> None:
        self.fired.add(hit)
        self.news.add(hit)

    def ends_with(self, event: Occurrence) -> bool:
        """Return whether an event ends the session that it is for, and note how that ended."""
        if not isinstance(event, SessionTerminated) or event.session_id != self.session_id:
            return False
        self.ended = self.ended or f"its session has ended ({event.reason})"
        return True

    def reported(self, show: Show) -> dict[str, Any]:
        told = {"id": self.id, "when": self.when, "since": iso(self.since)}
        told |= self.fired.reported(show)
        if self.session_id:
            told["sessionId"] = self.session_id
        if self.ended:
            told["ended"] = self.ended
        return told

    def take_news(self, show: Show) -> dict[str, Any] | None:
        """Return what happened since the last time, once; None if nothing did."""
        if not self.news.count:
            return None
        news, self.news = self.news, HitTally()
        return {"id": self.id, "when": self.when, **news.reported(show)}


def footer(news: Iterable[dict[str, Any]]) -> Story:
    """Return what watches report below an answer that is about something else."""
    story = Story()
    for one in news:
        times = "once" if one["count"] == 1 else f"{one['count']} times"
        story.say(f"Watch {one['id']} fired {times}.")
        story.quote(one["id"], {name: one[name] for name in one if name not in ("id", "count")})
    story.say("Call timeline with a key as around to see what belongs to it.")
    return story


# When it fires


class Judge:
    """Judge of one watch's condition, which keeps no more of what it saw than it needs."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._begun: dict[str, tuple[float, str, bool, str]] = {}
        """Request → when it was sent, what it asks for, whether it is being answered, its tab."""
        self._reported: dict[str, None] = {}
        """Keys of exchanges that have fired: browser and proxy both report one."""

    def judge(self, moment: Moment) -> Iterator[Hit]:
        """Yield the hits that this moment makes, if any."""
        match self._condition:
            case ConsoleError():
                fits = self._is_error(moment)
            case StatusIs() as status:
                fits = self._has_status(moment, status)
            case Logged(pattern):
                fits = moment.event.name == "ServerLogged" and bool(
                    pattern.search(moment.event.facts()["line"])
                )
            case Slow(limit):
                yield from self._measured(moment, limit)
                return
            case Gone():
                return
        if fits:
            yield Hit(key_of(moment), moment.event.at, moment.event)

    def overdue(self, now: float) -> Iterator[Hit]:
        """Yield a hit for each request that has waited for too long by now."""
        if not isinstance(self._condition, Slow):
            return
        limit = self._condition.limit_ms
        waiting = [(key, told) for key, told in self._begun.items() if not told[2]]
        for request, (at, what, _, _) in waiting:
            if now - at > limit:
                del self._begun[request]
                yield self._slow(request, now, f"{what}: no answer after {limit:.0f} ms")

    def next_due(self) -> float | None:
        """Return when the next waiting request will be overdue, None without one."""
        if not isinstance(self._condition, Slow):
            return None
        waiting = [at for at, _, is_answered, _ in self._begun.values() if not is_answered]
        return min(waiting) + self._condition.limit_ms if waiting else None

    def _is_error(self, moment: Moment) -> bool:
        event = moment.event
        is_line = event.name in ("ConsoleLogged", "EntryLogged")
        return is_line and level_of(event.name, event.facts()) == "error"

    def _has_status(self, moment: Moment, status: StatusIs) -> bool:
        event = moment.event
        if event.name not in ("ResponseReceived", "PacketRecorded"):
            return False
        number = event.facts().get("status") or 0
        return number > 0 and status.fits(number) and self._is_new(event.keys)

    def _is_new(self, keys: frozenset[str]) -> bool:
        shared = [key for key in keys if key.startswith(("exchange:", "packet:"))]
        if any(key in self._reported for key in shared):
            return False
        self._reported |= dict.fromkeys(shared)
        while len(self._reported) > _MOST_KEPT:
            del self._reported[next(iter(self._reported))]
        return True

    def _measured(self, moment: Moment, limit: float) -> Iterator[Hit]:
        event = moment.event
        request = request_of(event.keys)
        if event.name == "RequestSent":
            if request not in self._begun:  # a redirect goes on with the same id
                line = line_of(event.name, event.facts())
                self._begun[request] = (event.at, line, False, moment.source)
            if len(self._begun) > MOST_PENDING:
                del self._begun[next(iter(self._begun))]
            return
        if is_end_of_tab(event):
            for waiting in [key for key, told in self._begun.items() if told[3] == moment.source]:
                del self._begun[waiting]  # nobody waits for it any more
            return
        if event.name not in ("ResponseReceived", "LoadingFinished", "LoadingFailed"):
            return
        at, what, _, _ = self._begun.pop(request, (event.at, "", False, ""))
        took = event.at - at
        if what and took > limit:
            yield self._slow(request, event.at, f"{what} took {took:.0f} ms")
        elif what and event.name == "ResponseReceived":
            self._begun[request] = (at, what, True, moment.source)

    def _slow(self, request: str, at: float, line: str) -> Hit:
        return Hit(MomentKey("request", request), at, line=line)

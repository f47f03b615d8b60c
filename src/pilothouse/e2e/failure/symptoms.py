"""What went wrong round a failed step, and how near it is to that step. Pure.

What the last action sent or set off comes first, then what was before it, then what goes on by
itself, then what belongs to a page that was left meanwhile. Only the first is shown without a label
(where several things went wrong alike, each of them is a guess, too).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from pilothouse.core.timeline.attribution import (
    AT_ONCE_MS,
    NAVIGATING,
    TRACEBACK,
    LoggedRequest,
    LogLine,
    LogOwners,
    continues,
    is_background,
    likeness,
    windows,
)
from pilothouse.core.timeline.lanes import level_of
from pilothouse.e2e.failure.digest import cut, exchanges, path_of, short_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pilothouse.core.timeline.attribution import LineOwner
    from pilothouse.e2e.failure.digest import DigestExchange
    from pilothouse.e2e.model import ServerLogged
    from pilothouse.e2e.step import Step

_SIDE_KINDS = frozenset({"Image", "Ping", "Font", "Media", "Manifest", "Other", "Prefetch"})
"""Requests without which most pages do what they are for."""


class Nearness(IntEnum):
    """Distance of something from a step, the nearest first."""

    ACTION = 0
    """Things since the last action began."""
    EARLIER = 1
    """Things before it, in the same page."""
    BACKGROUND = 2
    """Things that fail again and again, and did before the action."""
    LEFT = 3
    """Things of a page that was left since the action began."""


class Weight(IntEnum):
    """Weight of something as a likely cause, the heaviest first."""

    LOGGED_5XX = 0
    FAILED_5XX = 1
    EXCEPTION = 2
    SERVER_ERROR = 3
    FAILED = 4
    LOOSE_ERROR = 5
    """Error of a server, with no request that is known to have led to it."""
    SIDE = 6
    CONSOLE = 7


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that went wrong."""

    text: str
    weight: Weight
    nearness: Nearness
    at: float
    doubt: str = ""
    """Reason why it may not be the cause."""

    def line(self, most: int) -> str:
        """Return it in words, cut, with its label whole."""
        label = f" (a guess: {self.doubt})" if self.doubt else ""
        return cut(self.text, most - len(label)) + label


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error in a server's log."""

    text: str
    """Text of the error; of a stack trace, the line that names it."""
    line: LogLine


@dataclass(frozen=True, slots=True)
class _Said:
    """Something that a server wrote about a request."""

    complaint: Complaint
    is_guess: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """Facts about a tab and its servers when a step fails."""

    events: Sequence[Mapping[str, Any]] = ()
    """Newest events of the tab."""
    shown_seq: int = 0
    """Seq of the first event that was in no dossier yet."""
    complaints: Sequence[Complaint] = ()
    shown_at: float = 0.0
    """Time up to which lines of servers were in a dossier already."""
    action: Step | None = None
    """The last step before that may have caused something."""
    solicited: Sequence[tuple[float, float]] = ()
    """Times in which something may be the doing of an action in this tab."""
    console: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Console lines by seq, led back to their sources."""


def acting_before(steps: Iterable[Step], step: Step) -> list[Step]:
    """Return the steps in the tab of a failed one that may have caused something."""
    return [
        one for one in steps if one.tab == step.tab and one.number < step.number and not one.looks
    ]


def solicited(steps: Iterable[Step]) -> list[tuple[float, float]]:
    """Return the times in which something may be the doing of one of those steps."""
    return windows((one.began_at, one.ended_at, one.tool in NAVIGATING) for one in steps)


def complaints(written: Iterable[ServerLogged]) -> list[Complaint]:
    """Return the errors in some lines of a log, each stack trace as one."""
    blocks: list[list[Any]] = []
    """First and last time, text, what followed."""
    newest: dict[tuple[str, str], list[Any]] = {}
    for event in written:
        log = (event.service, event.stream)
        before = newest.get(log)
        if before is not None and continues(event.line, before[2], event.at - before[1]):
            before[1], before[2] = event.at, f"{before[2]}\n{event.line}"
            continue
        if before is not None and event.at - before[1] <= AT_ONCE_MS:
            before[3] = event.line
        newest[log] = block = [event.at, event.at, event.line, ""]
        blocks.append(block)
    return [
        Complaint(_main_line(text), LogLine(text, at, True, following))
        for at, _, text, following in blocks
        if _is_error(text)
    ]


def untimed(lines: Iterable[str]) -> list[Complaint]:
    """Return the errors in lines whose times are not known."""
    blocks: list[str] = []
    for line in lines:
        if blocks and continues(line, blocks[-1], 0):
            blocks[-1] += f"\n{line}"
        else:
            blocks.append(line)
    return [
        Complaint(_main_line(text), LogLine(text, None, True)) for text in blocks if _is_error(text)
    ]


def _is_error(text: str) -> bool:
    return TRACEBACK in text or level_of("ServerLogged", {"line": text}) == "error"


def _main_line(block: str) -> str:
    first, *others = block.split("\n")
    return others[-1] if others and TRACEBACK in block else first


def symptoms(scene: Scene, base: str) -> list[Symptom]:
    """Return what went wrong, the likeliest cause first."""
    view = _View(scene)
    found = [*_requests(view, base), *_console(view), *_logged(view)]
    found.sort(key=lambda one: (one.nearness, one.weight, one.at))
    return [_with_rivals(one, found) for one in found]


def _with_rivals(symptom: Symptom, found: list[Symptom]) -> Symptom:
    """Label a symptom beside which others of the same weight stand."""
    if symptom.doubt or symptom.nearness is not Nearness.ACTION:
        return symptom
    rivals = {
        likeness(one.text)
        for one in found
        if one.nearness is Nearness.ACTION and one.weight == symptom.weight
    }
    if len(rivals) < 2:
        return symptom
    return replace(symptom, doubt=f"{len(rivals)} things went wrong alike")


class _View:
    """A scene, sorted out."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.exchanges = exchanges(scene.events)
        self._document_seq, self._document_id, self._document_at = _document(
            scene.events, self.exchanges
        )
        self.since = scene.action.began_at if scene.action else -math.inf
        self._times: dict[str, list[float]] = {}
        for exchange in self.exchanges:
            if exchange.failed and self._is_here(exchange.seq, exchange.request_id):
                self._times.setdefault(signature(exchange), []).append(exchange.at)
        for event in _errors(scene.events):
            if self._is_here(event["seq"]):
                self._times.setdefault(_said(event), []).append(event["ts"])
        for complaint in scene.complaints:
            if complaint.line.at is not None:
                times = self._times.setdefault(likeness(complaint.text), [])
                times.append(complaint.line.at)
        owners = LogOwners(map(_asked, self.exchanges)).find(
            [complaint.line for complaint in scene.complaints]
        )
        self.owned: dict[str, list[tuple[Complaint, LineOwner]]] = {}
        self.unowned: list[Complaint] = []
        for complaint, owner in zip(scene.complaints, owners, strict=True):
            if owner is None:
                self.unowned.append(complaint)
            else:
                self.owned.setdefault(owner.key, []).append((complaint, owner))

    def _is_here(self, seq: int, request_id: str = "") -> bool:
        """Tell whether something belongs to the document that the tab shows."""
        return seq >= self._document_seq or (bool(request_id) and request_id == self._document_id)

    def complaint_of(self, request_id: str) -> _Said | None:
        """Return what a server wrote about a request. One with threads mixes what several write:
        what repeats by itself or never names its error is left out, and where two errors are left
        each is a guess."""
        said = self.owned.get(request_id, [])
        named = [one for one in said if one[1].way in ("id", "path")]
        fresh = [
            one
            for one in said
            if not one[0].text[:1].isspace() and not self._repeats(likeness(one[0].text))
        ]
        best = named or fresh or said
        if not best:
            return None
        complaint, owner = best[-1]
        is_mixed = not named and len({likeness(one.text) for one, _ in best}) > 1
        return _Said(complaint, is_guess=is_mixed or owner.rivals > 0)

    def _repeats(self, name: str) -> bool:
        return is_background(self._times.get(name, ()), self.since, self.scene.solicited)

    def nearness(
        self, at: float, name: str, seq: int = -1, request_id: str = ""
    ) -> Nearness | None:
        """Return how near something is; None where its page was left before the action."""
        is_here = self._is_here(seq, request_id) if seq >= 0 else at >= self._document_at
        if not is_here:
            action = self.scene.action
            was_asked = action is None or action.tool in NAVIGATING
            return None if was_asked or at < self.since else Nearness.LEFT
        if self._repeats(name):
            return Nearness.BACKGROUND
        return Nearness.ACTION if at >= self.since else Nearness.EARLIER

    def doubt(self, nearness: Nearness) -> str:
        name = self.scene.action.name if self.scene.action else ""
        return {
            Nearness.ACTION: "",
            Nearness.EARLIER: f"it was before {cut(name, 60)}",
            Nearness.BACKGROUND: "it repeats by itself",
            Nearness.LEFT: "it was on the page before",
        }[nearness]


def _document(
    events: Sequence[Mapping[str, Any]], found: Sequence[DigestExchange]
) -> tuple[int, str, float]:
    """Return the seq at which the tab got the document that it shows, the request for that, and
    when that was sent."""
    came = [e for e in events if e["kind"] == "other" and e.get("type") == "navigated"]
    if not came:
        return 0, "", 0.0
    newest = came[-1]
    asked = [one for one in found if one.kind == "Document" and one.seq < newest["seq"]]
    if not asked:
        return newest["seq"], "", newest["ts"]
    return newest["seq"], asked[-1].request_id, asked[-1].at


def signature(exchange: DigestExchange) -> str:
    """Return what failures of one kind have in common."""
    outcome = exchange.status or exchange.error
    return f"{exchange.method} {path_of(exchange.url)} {outcome}"


def _asked(exchange: DigestExchange) -> LoggedRequest:
    ended = exchange.ended_at or math.inf
    return LoggedRequest(
        exchange.request_id,
        path_of(exchange.url),
        exchange.at,
        ended,
        ended,
        exchange.status >= 500 or bool(exchange.error and exchange.error != "cancelled"),
        exchange.ids,
    )


def _requests(view: _View, base: str) -> Iterable[Symptom]:
    for exchange in view.exchanges:
        if not exchange.failed or exchange.error == "cancelled":
            continue
        nearness = view.nearness(
            exchange.at, signature(exchange), exchange.seq, exchange.request_id
        )
        if exchange.seq < view.scene.shown_seq or nearness is None:
            continue
        doubt = view.doubt(nearness)
        if exchange.status < 500:
            side = exchange.kind in _SIDE_KINDS
            weight = Weight.SIDE if side else Weight.FAILED
            yield Symptom(exchange.line(base), weight, nearness, exchange.at, doubt)
            continue
        text = f"{exchange.method} {short_url(exchange.url, base)} answered {exchange.status}"
        said = view.complaint_of(exchange.request_id)
        if said is None:
            yield Symptom(text, Weight.FAILED_5XX, nearness, exchange.at, doubt)
            continue
        how = " (a guess by time)" if said.is_guess else ""
        text += f"; the server logged{how}: {said.complaint.text}"
        yield Symptom(text, Weight.LOGGED_5XX, nearness, exchange.at, doubt)


def _errors(events: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Return the errors of the console; a failed request is listed as a request."""
    return (
        event
        for event in events
        if event["kind"] in ("console", "log")
        and event.get("type") == "error"
        and event.get("source") != "network"
    )


def _said(event: Mapping[str, Any]) -> str:
    return likeness(str(event.get("text", "")))


def _console(view: _View) -> Iterable[Symptom]:
    for event in _errors(view.scene.events):
        nearness = view.nearness(event["ts"], _said(event), event["seq"])
        if event["seq"] < view.scene.shown_seq or nearness is None:
            continue
        text = str(event.get("text", "")).partition("\n")[0]
        if event.get("source") == "exception":
            place = _place(view.scene.console.get(event["seq"], event))
            text, weight = f"the page threw {text}{place}", Weight.EXCEPTION
        else:
            text, weight = f"the console says {text}", Weight.CONSOLE
        yield Symptom(text, weight, nearness, event["ts"], view.doubt(nearness))


def _place(event: Mapping[str, Any]) -> str:
    frames = event.get("frames") or ([event["stack"]] if event.get("stack") else [])
    for frame in frames:
        place = frame.get("original") or frame
        if place.get("url") or place.get("source"):
            name = place.get("source") or place.get("url")
            return f" at {name}:{place.get('line', 0)}"
    return ""


def _logged(view: _View) -> Iterable[Symptom]:
    """Yield the errors of servers that no failed request tells."""
    for exchange in view.exchanges:
        if exchange.status >= 500:
            continue
        near = view.nearness(exchange.at, "", exchange.seq, exchange.request_id)
        for complaint, _ in view.owned.get(exchange.request_id, ()):
            if near is not None and near is not Nearness.LEFT:
                yield from _complained(view, complaint, "")
    for complaint in view.unowned:
        yield from _complained(view, complaint, "no request is known to have led to it")


def _complained(view: _View, complaint: Complaint, doubt: str) -> Iterable[Symptom]:
    at = complaint.line.at
    if at is not None and at <= view.scene.shown_at:
        return
    at = max(view.since, 0.0) if at is None else at
    nearness = view.nearness(at, likeness(complaint.text))
    if nearness is None:
        return
    text = f"the server logged an error: {complaint.text}"
    weight = Weight.LOOSE_ERROR if doubt else Weight.SERVER_ERROR
    yield Symptom(text, weight, nearness, at, view.doubt(nearness) or doubt)

"""Which request a line of a server's log is about, and which failures go on by themselves. Pure.

A line belongs to a request by an id that both carry, by the request's path, or by the time within
the request, in this order, and never to a request that began after it was written.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pilothouse.core.timeline.lanes import level_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

SETTLE_MS = 1_000.0
"""Time after an action in which something may still be its doing."""
LATE_MS = 1_000.0
"""Time after its answer in which a server may still write its line."""
SOON_MS = 300.0
"""An error is written, or stumbled over, at once."""
EARLY_MS = 1.0
"""Times of the browser are whole milliseconds."""
CONTINUED_MS = 1_000.0
"""A line that begins with a space belongs to the one before, if that was not longer ago."""
AT_ONCE_MS = 20.0
"""Lines that one call of a logger writes come within this time."""
TRACEBACK = "Traceback (most recent call last)"
_FRAME = '  File "'

NAVIGATING = frozenset({"navigate", "goBack"})
"""Tools that ask for a page. What a page does when it is loaded goes on by itself."""
_ID_HEADERS = frozenset(
    {
        "x-pilothouse-exchange",
        "x-request-id",
        "x-correlation-id",
        "x-trace-id",
        "x-amzn-trace-id",
        "request-id",
        "traceparent",
    }
)
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_]{7,}(?:-[0-9A-Za-z_]+)*")
_PATH = re.compile(r"(?:\w+://[^/\s\"']+)?(/[^\s\"'?#<>()\[\]{},;]*)")
_NUMBER = re.compile(r"\d+")

type Way = Literal["id", "path", "next", "time"]
"""Evidence for an owner: an id, a path in the line, one in the next line, or the time alone."""


def ids_in(text: str) -> set[str]:
    """Return the words of a text that could be an id, whole and in their parts."""
    found = set(_ID.findall(text))
    found |= {part for word in found for part in word.split("-")}
    return {word for word in found if len(word) >= 8 and any(c.isdigit() for c in word)}


def ids_of(headers: Mapping[str, str]) -> set[str]:
    """Return the ids by which servers name a request in their log, from its headers."""
    return {
        word
        for name, value in headers.items()
        if name.lower() in _ID_HEADERS
        for word in ids_in(str(value))
    }


def paths_in(text: str) -> set[str]:
    """Return the paths that a text names, of whole addresses too: a line about `/api/cart` does
    not name `/api`."""
    return {path.rstrip(".:") for path in _PATH.findall(text)}


def likeness(text: str) -> str:
    """Return what two texts of one kind have in common: the first line without its numbers."""
    return _without_numbers(text.partition("\n")[0])


def _without_numbers(text: str) -> str:
    return _NUMBER.sub("#", text)


def continues(line: str, block: str, apart_ms: float) -> bool:
    """Tell whether a line is part of the block that was written so long before: of a stack trace,
    mostly."""
    if apart_ms >= CONTINUED_MS:
        return False
    if line[:1] in (" ", "\t"):
        # Frames after an error's name are those of another thread, which wrote at the same time.
        return not (line.startswith(_FRAME) and _is_whole(block))
    if line.startswith(TRACEBACK):
        # Frameworks say first which request it is that failed.
        is_announced = "\n" not in block and level_of("ServerLogged", {"line": block}) == "error"
        return apart_ms < AT_ONCE_MS and is_announced
    # Python names the error in the first line after the frames.
    return TRACEBACK in block and block.rpartition("\n")[2][:1] in (" ", "\t")


def _is_whole(block: str) -> bool:
    """Tell whether a block is a traceback of which the error's name has come."""
    before, _, newest = block.rpartition("\n")
    return TRACEBACK in before and newest[:1] not in (" ", "\t")


def sent_at(received: float, wall_time: object) -> float:
    """Return when a request was sent: by the browser's clock, where that agrees with ours. What a
    busy machine receives late would else look as if it came after the server's own line."""
    if not isinstance(wall_time, int | float):
        return received
    sent = wall_time * 1000
    return sent if received - 5_000 < sent <= received else received


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request, as far as a log can be compared with it."""

    key: str
    path: str
    at: float
    answered: float
    """Time when its response began, or it failed; infinity for neither yet."""
    ended: float
    is_broken: bool
    """Failure with a 5xx or no answer at all, which servers write an error about."""
    ids: frozenset[str] = frozenset()
    session: str = ""

    def spans(self, at: float | None, after: float) -> bool:
        """Tell whether it was under way at a time, or ended so long before; unknown times fit."""
        return at is None or self.at - EARLY_MS <= at <= self.ended + after


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a server wrote, or several that belong together."""

    text: str
    at: float | None
    """Time of the line; None where it is read from a file without times."""
    is_error: bool = False
    following: str = ""
    """Next line, where it came at once: many servers write a request's path after its error."""
    session: str = ""


@dataclass(frozen=True, slots=True)
class LineOwner:
    """The request that a line is about."""

    key: str
    way: Way
    why: str
    rivals: int = 0
    """Other requests that it fits no less."""


class LogOwners:
    """The requests among which the one is found that a line is about."""

    def __init__(self, asked: Iterable[LoggedRequest], also: Iterable[LoggedRequest] = ()) -> None:
        """Index the requests; `also` are known by their ids alone."""
        self._by_id: dict[str, list[LoggedRequest]] = {}
        self._by_path: dict[str, list[LoggedRequest]] = {}
        self._broken: list[LoggedRequest] = []
        self._paths: dict[str, str] = {}
        for request in asked:
            self._paths[request.key] = request.path
            self._by_path.setdefault(request.path, []).append(request)
            self._name(request)
            if request.is_broken:
                self._broken.append(request)
        for request in also:
            self._name(request)

    def _name(self, request: LoggedRequest) -> None:
        for id in request.ids:
            self._by_id.setdefault(id, []).append(request)

    def find(self, lines: Sequence[LogLine]) -> list[LineOwner | None]:
        """Return the owner of each line, as far as it is known. A request about which an error is
        known, or whose path is known by other errors, is not guessed to have led to this one."""
        found = [self._of_id(line) or self._of_path(line) for line in lines]
        says = self._said_of(lines, found)
        found = [
            None if owner and owner.way == "next" and self._is_rare(line, owner, says) else owner
            for line, owner in zip(lines, found, strict=True)
        ]
        says = self._said_of(lines, found)
        taken = {
            owner.key for line, owner in zip(lines, found, strict=True) if owner and line.is_error
        }
        return [
            owner or self._of_time(line, taken, says)
            for line, owner in zip(lines, found, strict=True)
        ]

    def _said_of(
        self, lines: Sequence[LogLine], owners: Sequence[LineOwner | None]
    ) -> dict[str, Counter[str]]:
        """Return for each path the errors that are known of it, and how often."""
        says: dict[str, Counter[str]] = {}
        for line, owner in zip(lines, owners, strict=True):
            if owner is not None and line.is_error and owner.key in self._paths:
                said = says.setdefault(self._paths[owner.key], Counter())
                said[_without_numbers(line.text)] += 1
        return says

    def _is_rare(self, line: LogLine, owner: LineOwner, says: Mapping[str, Counter[str]]) -> bool:
        """Tell if its path is known rather by another error: then two requests' lines mixed."""
        said = says[self._paths[owner.key]]
        return said[_without_numbers(line.text)] < max(said.values())

    def _of_id(self, line: LogLine) -> LineOwner | None:
        for id in ids_in(line.text):
            owners = self._by_id.get(id, [])
            requests = [one for one in owners if not one.key.startswith("packet:")] or owners
            if len(requests) == 1:
                return LineOwner(requests[0].key, "id", "the line has the request's id")
            under_way = [one for one in requests if one.spans(line.at, LATE_MS)]
            if under_way:
                why = f"the line has an id that {len(requests)} requests carry"
                newest = max(under_way, key=lambda request: request.at)
                return LineOwner(newest.key, "time", why, len(under_way) - 1)
        return None

    def _of_path(self, line: LogLine) -> LineOwner | None:
        if found := self._named(line, line.text):
            return _by_path(line, found, "path", "names")
        found = self._named(line, line.following) if line.is_error else []
        # What follows an error may be about another request, if that went well.
        if any(one.is_broken for one in found) or (found and not self._under_way(line)):
            return _by_path(
                line, [one for one in found if one.is_broken] or found, "next", "precedes"
            )
        return None

    def _named(self, line: LogLine, text: str) -> list[LoggedRequest]:
        return [
            request
            for path in paths_in(text)
            for request in self._by_path.get(path, ())
            if request.spans(line.at, LATE_MS) and _is_of_one_session(request, line)
        ]

    def _under_way(self, line: LogLine) -> list[LoggedRequest]:
        """Return the requests that failed and were under way when a line was written."""
        return [
            request
            for request in self._broken
            if request.spans(line.at, SOON_MS) and _is_of_one_session(request, line)
        ]

    def _of_time(
        self, line: LogLine, taken: Collection[str], says: Mapping[str, Counter[str]]
    ) -> LineOwner | None:
        """Guess the owner of an error by which failed requests were under way at its time."""
        found = self._under_way(line) if line.is_error else []
        said = _without_numbers(line.text)
        found = [one for one in found if said in says.get(one.path, (said,))] or found
        found = [one for one in found if one.key not in taken] or found
        if not found:
            return None
        # A server writes the error, and then answers.
        nearest = min(found, key=lambda request: abs(request.answered - (line.at or 0)))
        why = f"an error was written {_when(line.at, nearest)}, and it failed"
        return LineOwner(nearest.key, "time", why, len({one.path for one in found}) - 1)


def _by_path(line: LogLine, found: Sequence[LoggedRequest], way: Way, verb: str) -> LineOwner:
    nearest = min(found, key=lambda request: _distance(request.ended, line.at))
    return LineOwner(nearest.key, way, f"the line {verb} its path, {_when(line.at, nearest)}")


def _is_of_one_session(request: LoggedRequest, line: LogLine) -> bool:
    return not line.session or not request.session or request.session == line.session


def _distance(ended: float, at: float | None) -> float:
    return 0.0 if at is None else abs(at - min(ended, at))


def _when(at: float | None, request: LoggedRequest) -> str:
    if at is None:
        return "at a time that is not known"
    if at <= request.ended:
        return "while it was under way"
    return f"{at - request.ended:.0f} ms after it"


def windows(steps: Iterable[tuple[float, float, bool]]) -> list[tuple[float, float]]:
    """Return the times in which something may be the doing of an action.

    Each step is given by its beginning, its end and whether it asks for a page: what comes of an
    action ends there, and what a page does when it is loaded goes on by itself.
    """
    found: list[tuple[float, float]] = []
    for began, ended, navigates in steps:
        if navigates:
            found = [(first, min(last, began)) for first, last in found]
        else:
            found.append((began, ended + SETTLE_MS))
    return found


def is_background(
    times: Iterable[float], since: float, solicited: Sequence[tuple[float, float]]
) -> bool:
    """Tell whether what fails again and again did so before `since` by itself.

    `times` are those of all its failures, `solicited` the windows of actions.
    """
    return any(
        at < since and not any(first <= at <= last for first, last in solicited) for at in times
    )

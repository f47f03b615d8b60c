"""Links between items: by an id that both carry, else by tab, address and time, which is a guess
and says so. Pure.

    step → request → packet → line of the server's log
                   → line of the console
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pilothouse.core.timeline.attribution import (
    AT_ONCE_MS,
    SETTLE_MS,
    SOON_MS,
    LoggedRequest,
    LogLine,
    LogOwners,
    is_background,
    paths_in,
    windows,
)
from pilothouse.timeline.model import ItemLink, TimelineItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAME_MS = 2_000.0
"""Browser and proxy see one request within this time."""
_NAMED = "the line names it, and it failed"
MOST_REASONS = 3
"""Most reasons that are given for the failure of one step."""
MOST_BEFORE = 200
"""Requests that are looked at for a line of the console."""


def links_of(items: list[TimelineItem]) -> list[ItemLink]:
    """Return all links between some items, each pair once."""
    view = _View(items)
    found: dict[tuple[str, str], ItemLink] = {}
    for link in (
        *_packets(view),
        *_started(view),
        *_server_lines(view),
        *_console(view),
        *_failed_steps(view),
    ):
        found.setdefault((link.cause, link.effect), link)
    return list(found.values())


class _View:
    """The items, sorted by what they are."""

    def __init__(self, items: list[TimelineItem]) -> None:
        self.steps = [item for item in items if item.lane == "steps"]
        self.exchanges = [item for item in items if item.lane == "network"]
        self.packets = [item for item in items if item.lane == "packets"]
        self.lines = [item for item in items if item.lane == "server"]
        self.console = [item for item in items if item.lane == "console"]
        self.noted = [item for item in items if item.lane == "other"]
        self.session_of = {step.tab: step.session for step in self.steps if step.tab}
        """Tab → browser session, as far as a step was taken in it."""
        self.packet_of: dict[str, str] = {}
        """Request's key → packet's key, where that is certain."""
        self.by_tab: dict[str, list[TimelineItem]] = {}
        for item in self.exchanges:
            self.by_tab.setdefault(item.tab, []).append(item)

    @cached_property
    def acting(self) -> list[TimelineItem]:
        """Steps that may have caused something."""
        return [step for step in self.steps if not step.looks]

    @cached_property
    def tabs(self) -> set[str]:
        """Tabs in which a step was taken."""
        return {step.tab for step in self.steps}

    @cached_property
    def _failures(self) -> dict[tuple[str, str, str], list[float]]:
        """Tab, method and path of what failed → when each was sent."""
        found: dict[tuple[str, str, str], list[float]] = {}
        for item in self.exchanges:
            if item.failed:
                found.setdefault((item.tab, item.method, _path(item)), []).append(item.at)
        return found

    @cached_property
    def _solicited(self) -> dict[str, list[tuple[float, float]]]:
        """Tab → the times in which something may be the doing of an action in it."""
        acts: dict[str, list[tuple[float, float, bool]]] = {}
        for step in self.acting:
            acts.setdefault(step.tab, []).append((step.at, step.ended, step.navigates))
        return {tab: windows(steps) for tab, steps in acts.items()}

    def is_background(self, item: TimelineItem, since: float) -> bool:
        """Return whether a request fails again and again, and did so before `since` by itself."""
        times = self._failures.get((item.tab, item.method, _path(item)), ())
        return item.failed and is_background(times, since, self._solicited.get(item.tab, ()))

    def owners(self) -> LogOwners:
        """Return what finds the request that a line of the log belongs to."""
        asked = self.exchanges or self.packets  # where no browser was seen
        also = self.packets if self.exchanges else ()
        return LogOwners(map(self._asked, asked), map(self._asked, also))

    def _asked(self, item: TimelineItem) -> LoggedRequest:
        return LoggedRequest(
            item.key,
            _path(item),
            item.at,
            item.answered,
            item.ended,
            item.level == "error",
            frozenset(item.ids),
            self.session_of.get(item.tab, ""),
        )


# A request and its packet


def _packets(view: _View) -> Iterator[ItemLink]:
    by_id = {key: packet for packet in view.packets for key in packet.keys if _is_exchange(key)}
    joined: set[str] = set()
    for request in view.exchanges:
        packet = next((by_id[key] for key in request.keys if key in by_id), None)
        if packet is not None:
            joined.add(packet.key)
            view.packet_of[request.key] = packet.key
            yield ItemLink(request.key, packet.key, "id", "both carry the proxy's exchange id")
    loose = [packet for packet in view.packets if packet.key not in joined]
    for request in view.exchanges:
        if request.key in view.packet_of:
            continue
        alike = [p for p in loose if _is_same_request(request, p)]
        if alike:
            nearest = min(alike, key=lambda packet: abs(packet.at - request.at))
            loose.remove(nearest)
            ago = _between(request.at, nearest.at)
            yield ItemLink(request.key, nearest.key, "time", f"same method and address, {ago}")


def _is_exchange(key: str) -> bool:
    return key.startswith("exchange:")


def _is_same_request(request: TimelineItem, packet: TimelineItem) -> bool:
    host, path = _address(request.url)
    return (
        packet.method == request.method
        and packet.url in (f"{host}{path}", f"{host.partition(':')[0]}{path}")
        and abs(packet.at - request.at) <= SAME_MS
    )


@lru_cache(maxsize=4_096)
def _address(url: str) -> tuple[str, str]:
    """Return host with port, and path with query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", url
    return parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


# What a step started


def _started(view: _View) -> Iterator[ItemLink]:
    for item in (*view.exchanges, *view.noted):
        step = _step_before(item, view)
        if step is None:
            continue
        yield ItemLink(step.key, item.key, "time", _began(item, step))


def _step_before(item: TimelineItem, view: _View) -> TimelineItem | None:
    """Return the last action that was under way, or only just over, when an item began."""
    if item.kind in ("call", "session", "bookmarks", "config"):
        return None
    near = [step for step in view.acting if step.at <= item.at <= step.ended + SETTLE_MS]
    if item.tab in view.tabs:
        near = [step for step in near if step.tab == item.tab]
    elif item.session:
        near = [step for step in near if step.session == item.session]
    return max(near, key=lambda step: step.at, default=None)


def _began(item: TimelineItem, step: TimelineItem) -> str:
    where = "in its tab" if item.tab == step.tab else "in another tab"
    if item.at <= step.ended:
        return f"began while the step was under way, {where}"
    return f"began {item.at - step.ended:.0f} ms after the step, {where}"


# The server's log


def _server_lines(view: _View) -> Iterator[ItemLink]:
    after: dict[str, TimelineItem] = {}
    lines: list[LogLine] = []
    for item in reversed(view.lines):
        log = f"{item.session} {item.text.partition(':')[0]}"
        following = after.get(log)
        is_next = following is not None and following.at - item.ended <= AT_ONCE_MS
        said = following.line if following is not None and is_next else ""
        lines.append(LogLine(item.line, item.at, item.level == "error", said, item.session))
        after[log] = item
    lines.reverse()
    for item, owner in zip(view.lines, view.owners().find(lines), strict=True):
        if owner is not None:
            cause = view.packet_of.get(owner.key, owner.key)
            yield ItemLink(cause, item.key, "id" if owner.way == "id" else "time", owner.why)


def _path(item: TimelineItem) -> str:
    url = item.url if "://" in item.url else f"//{item.url}"
    return _address(url)[1].partition("?")[0]


# The console


def _console(view: _View) -> Iterator[ItemLink]:
    by_key = {key: item for item in view.exchanges for key in item.keys}
    for line in (*view.console, *view.noted):
        request = next((by_key[key] for key in line.keys if key in by_key), None)
        if request is not None:
            yield ItemLink(request.key, line.key, "id", "the browser names the request")
        elif line.level in ("error", "warn") and line.lane == "console":
            yield from _guessed(line, view)


def _guessed(line: TimelineItem, view: _View) -> Iterator[ItemLink]:
    same_tab = view.by_tab.get(line.tab, [])
    begun = bisect_right(same_tab, line.at, key=lambda item: item.at)
    before = same_tab[max(0, begun - MOST_BEFORE) : begun]
    after = [item for item in before if line.at <= item.ended + SETTLE_MS]
    paths = paths_in(line.text)
    step = _step_before(line, view)
    # What was answered before the page was used again is hardly what it stumbles over now.
    since = step.at if step is not None else 0.0
    own = [item for item in after if not view.is_background(item, since)]
    rules: tuple[tuple[list[TimelineItem], Callable[[TimelineItem], bool], str], ...] = (
        (after, lambda item: item.failed and _path(item) in paths, _NAMED),
        (own, lambda item: item.failed and since <= item.answered <= line.at, "it failed"),
        (
            own,
            lambda item: (
                item.type in ("Fetch", "XHR")
                and item.answered >= since
                and 0 <= line.at - item.answered <= SOON_MS
            ),
            "the page had its answer",
        ),
    )
    for items, fits, why in rules:
        found = [item for item in items if fits(item)]
        if found:
            # A 5xx weighs more than a 4xx, and what the step sent more than what ran already.
            likely = max(
                found,
                key=lambda item: (
                    item.level == "error",
                    item.at >= since,
                    min(item.answered, line.at),
                ),
            )
            ago = max(0.0, line.at - likely.answered)
            yield ItemLink(likely.key, line.key, "time", f"{why} {ago:.0f} ms before")
            return
    if step is not None:
        yield ItemLink(step.key, line.key, "time", _began(line, step))


# Steps that failed


def _failed_steps(view: _View) -> Iterator[ItemLink]:
    """Yield what went wrong in the tab since the action before: it may be why a step failed."""
    troubles = [item for item in (*view.exchanges, *view.console) if item.failed]
    for step in view.steps:
        if not step.failed:
            continue
        acted = [s.at for s in view.steps if s.tab == step.tab and not s.looks and s.at < step.at]
        since = max(acted, default=step.at - SETTLE_MS)
        # What an action has caused itself cannot be why it failed.
        until = step.ended if step.looks else step.at
        found = [
            trouble
            for trouble in troubles
            if trouble.tab == step.tab
            and since <= trouble.at <= until
            and not view.is_background(trouble, since)
        ]
        found.sort(key=lambda trouble: (trouble.level == "error", trouble.at))
        for trouble in found[-MOST_REASONS:]:
            ago = step.ended - trouble.at
            yield ItemLink(
                trouble.key, step.key, "time", f"went wrong {ago:.0f} ms before it gave up"
            )


def _between(first: float, second: float) -> str:
    return f"{abs(second - first):.0f} ms {'after' if second >= first else 'before'} it"

"""Which item led to which: by an id that both carry, else by tab, address and time, which is a
guess and says so. Pure.

    step → request → packet → line of the server's log
                   → line of the console
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pilothouse.timeline.items import ids_in
from pilothouse.timeline.model import Item, Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pilothouse.timeline.model import How

SETTLE_MS = 1_000.0
"""So long after an action something may still be its doing."""
LATE_MS = 1_000.0
"""A server may write its line so long after it has answered."""
EARLY_MS = 50.0
"""Clocks of two processes differ by less."""
SAME_MS = 2_000.0
"""Browser and proxy see one request within this time."""
SOON_MS = 300.0
"""A page stumbles over an answer at once."""
MOST_REASONS = 3
"""For the failure of one step."""
MOST_BEFORE = 200
"""Requests that are looked at for a line of the console."""
_PATH = re.compile(r"(?:\w+://[^/\s\"']+)?(/[^\s\"'?#<>()\[\]{},;]*)")


def links_of(items: list[Item]) -> list[Link]:
    """All links between some items, each pair once."""
    view = _View(items)
    found: dict[tuple[str, str], Link] = {}
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
    """The items by what they are."""

    def __init__(self, items: list[Item]) -> None:
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
        asked = self.exchanges or self.packets  # where no browser was seen
        self.troubles = [item for item in asked if item.level == "error"]
        self.by_path: dict[str, list[Item]] = {}
        for item in asked:
            self.by_path.setdefault(_path(item), []).append(item)
        self.by_tab: dict[str, list[Item]] = {}
        for item in self.exchanges:
            self.by_tab.setdefault(item.tab, []).append(item)

    def is_of_one_session(self, item: Item, line: Item) -> bool:
        """Whether the server that wrote a line may have been asked for this."""
        return not line.session or self.session_of.get(item.tab, line.session) == line.session


# A request and its packet


def _packets(view: _View) -> Iterator[Link]:
    by_id = {key: packet for packet in view.packets for key in packet.keys if _is_exchange(key)}
    joined: set[str] = set()
    for request in view.exchanges:
        packet = next((by_id[key] for key in request.keys if key in by_id), None)
        if packet is not None:
            joined.add(packet.key)
            view.packet_of[request.key] = packet.key
            yield Link(request.key, packet.key, "id", "both carry the proxy's exchange id")
    loose = [packet for packet in view.packets if packet.key not in joined]
    for request in view.exchanges:
        if request.key in view.packet_of:
            continue
        alike = [p for p in loose if _is_same_request(request, p)]
        if alike:
            nearest = min(alike, key=lambda packet: abs(packet.at - request.at))
            loose.remove(nearest)
            ago = _between(request.at, nearest.at)
            yield Link(request.key, nearest.key, "time", f"same method and address, {ago}")


def _is_exchange(key: str) -> bool:
    return key.startswith("exchange:")


def _is_same_request(request: Item, packet: Item) -> bool:
    host, path = _address(request.url)
    return (
        packet.method == request.method
        and packet.url in (f"{host}{path}", f"{host.partition(':')[0]}{path}")
        and abs(packet.at - request.at) <= SAME_MS
    )


@lru_cache(maxsize=4_096)
def _address(url: str) -> tuple[str, str]:
    """Host with port, and path with query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", url
    return parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


# What a step started


def _started(view: _View) -> Iterator[Link]:
    acting = [step for step in view.steps if not step.looks]
    tabs = {step.tab for step in view.steps}
    for item in (*view.exchanges, *view.noted):
        step = _step_before(item, acting, tabs)
        if step is None:
            continue
        yield Link(step.key, item.key, "time", _began(item, step))


def _step_before(item: Item, acting: list[Item], tabs: set[str]) -> Item | None:
    """The last action that was under way, or over for a moment only, when an item began."""
    if item.kind in ("call", "session", "bookmarks", "config"):
        return None
    near = [step for step in acting if step.at <= item.at <= step.ended + SETTLE_MS]
    if item.tab in tabs:
        near = [step for step in near if step.tab == item.tab]
    elif item.session:
        near = [step for step in near if step.session == item.session]
    return max(near, key=lambda step: step.at, default=None)


def _began(item: Item, step: Item) -> str:
    where = "in its tab" if item.tab == step.tab else "in another tab"
    if item.at <= step.ended:
        return f"began while the step was under way, {where}"
    return f"began {item.at - step.ended:.0f} ms after the step, {where}"


# The server's log


def _server_lines(view: _View) -> Iterator[Link]:
    by_id: dict[str, list[Item]] = {}
    for item in (*view.exchanges, *view.packets):
        for id in item.ids:
            by_id.setdefault(id, []).append(item)
    for line in view.lines:
        found = _by_id(line, by_id) or _by_path(line, view) or _by_trouble(line, view)
        if found is not None:
            request, how, why = found
            cause = view.packet_of.get(request.key, request.key)
            yield Link(cause, line.key, how, why)


type _Found = tuple[Item, How, str]
"""A request, and how it is known that a line is about it."""


def _by_id(line: Item, by_id: dict[str, list[Item]]) -> _Found | None:
    for id in ids_in(line.line):
        owners = by_id.get(id, [])
        requests = [item for item in owners if item.lane == "network"] or owners
        if len(requests) == 1:
            return requests[0], "id", "the line has the request's id"
        under_way = [item for item in requests if _spans(item, line.at)]
        if under_way:
            why = f"the line has an id that {len(requests)} requests carry"
            return max(under_way, key=lambda item: item.at), "time", why
    return None


def _by_path(line: Item, view: _View) -> _Found | None:
    found = [
        item
        for path in paths_in(line.line)
        for item in view.by_path.get(path, ())
        if _spans(item, line.at) and view.is_of_one_session(item, line)
    ]
    if not found:
        return None
    nearest = min(found, key=lambda item: abs(line.at - min(item.ended, line.at)))
    return nearest, "time", f"the line names its path, {_when(line, nearest)}"


def _by_trouble(line: Item, view: _View) -> _Found | None:
    """An error that was written while a request was under way that failed."""
    if line.level != "error":
        return None
    found = [
        item
        for item in view.troubles
        if item.at - EARLY_MS <= line.at <= item.ended + SOON_MS
        and view.is_of_one_session(item, line)
    ]
    if not found:
        return None
    last = max(found, key=lambda item: item.at)
    return last, "time", f"an error was written {_when(line, last)}, and it failed"


def _spans(item: Item, at: float) -> bool:
    return item.at - EARLY_MS <= at <= item.ended + LATE_MS


def paths_in(text: str) -> set[str]:
    """The paths that a text names, of whole addresses too: a line about `/api/cart` does not name
    `/api`."""
    return {path.rstrip(".:") for path in _PATH.findall(text)}


def _path(item: Item) -> str:
    url = item.url if "://" in item.url else f"//{item.url}"
    return _address(url)[1].partition("?")[0]


def _when(item: Item, exchange: Item) -> str:
    if item.at <= exchange.ended:
        return "while it was under way"
    return f"{item.at - exchange.ended:.0f} ms after it"


# The console


def _console(view: _View) -> Iterator[Link]:
    by_key = {key: item for item in view.exchanges for key in item.keys}
    for line in (*view.console, *view.noted):
        request = next((by_key[key] for key in line.keys if key in by_key), None)
        if request is not None:
            yield Link(request.key, line.key, "id", "the browser names the request")
        elif line.level in ("error", "warn") and line.lane == "console":
            yield from _guessed(line, view)


def _guessed(line: Item, view: _View) -> Iterator[Link]:
    same_tab = view.by_tab.get(line.tab, [])
    begun = bisect_right(same_tab, line.at, key=lambda item: item.at)
    before = same_tab[max(0, begun - MOST_BEFORE) : begun]
    after = [item for item in before if line.at <= item.ended + SETTLE_MS]
    paths = paths_in(line.text)
    acting = [step for step in view.steps if not step.looks]
    step = _step_before(line, acting, {step.tab for step in view.steps})
    # What was answered before the page was used again is hardly what it stumbles over now.
    since = step.at if step is not None else 0.0
    rules: tuple[tuple[Callable[[Item], bool], str], ...] = (
        (lambda item: item.failed and _path(item) in paths, "the line names it, and it failed"),
        (lambda item: item.failed and since <= item.answered <= line.at, "it failed"),
        (
            lambda item: (
                item.type in ("Fetch", "XHR")
                and item.answered >= since
                and 0 <= line.at - item.answered <= SOON_MS
            ),
            "the page had its answer",
        ),
    )
    for fits, why in rules:
        found = [item for item in after if fits(item)]
        if found:
            last = max(found, key=lambda item: min(item.answered, line.at))
            ago = max(0.0, line.at - last.answered)
            yield Link(last.key, line.key, "time", f"{why} {ago:.0f} ms before")
            return
    if step is not None:
        yield Link(step.key, line.key, "time", _began(line, step))


# Steps that failed


def _failed_steps(view: _View) -> Iterator[Link]:
    """What went wrong since the action before, in the same tab, may be why a step failed."""
    troubles = [item for item in (*view.exchanges, *view.console) if item.failed]
    for step in view.steps:
        if not step.failed:
            continue
        acted = [s.at for s in view.steps if s.tab == step.tab and not s.looks and s.at < step.at]
        since = max(acted, default=step.at - SETTLE_MS)
        # What an action has caused itself cannot be why it failed.
        until = step.ended if step.looks else step.at
        found = [t for t in troubles if t.tab == step.tab and since <= t.at <= until]
        for trouble in found[-MOST_REASONS:]:
            ago = step.ended - trouble.at
            yield Link(trouble.key, step.key, "time", f"went wrong {ago:.0f} ms before it gave up")


def _between(first: float, second: float) -> str:
    return f"{abs(second - first):.0f} ms {'after' if second >= first else 'before'} it"

"""From moments to items: an exchange of the browser, a packet with its answer and a stack trace in
the server's log are one item each. Pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from pilothouse.core.timeline.attribution import NAVIGATING, TRACEBACK, continues, ids_of, sent_at
from pilothouse.core.timeline.lanes import (
    OWNER_CHARACTERS,
    TAB,
    is_end_of_tab,
    key_of,
    lane_of,
    level_of,
    line_of,
    request_of,
    shown,
)
from pilothouse.timeline.model import TimelineItem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pilothouse.core.timeline.timeline import Moment


def items_of(
    moments: Iterable[Moment], several: frozenset[str] = frozenset()
) -> list[TimelineItem]:
    """Return the items of some moments, in the order of their beginnings. `several` are the kinds
    of keys that are shown with their owner."""
    maker = _Maker(several)
    for moment in moments:
        maker.take(moment)
    return maker.done()


class _Maker:
    """Builder of items that puts moments which are one thing into one item."""

    def __init__(self, several: frozenset[str]) -> None:
        self._several = several
        self._items: dict[str, TimelineItem] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        """Facts of each exchange so far."""
        self._written: dict[tuple[str, str, str], TimelineItem] = {}
        """Session, service and stream → the newest item of its log."""
        self._frames: dict[str, Counter[str]] = {}
        self._closed: dict[str, float] = {}
        """Tabs that are gone, and since when."""

    def take(self, moment: Moment) -> None:
        match moment.event.name:
            case "RequestSent" | "ResponseReceived" | "LoadingFinished" | "LoadingFailed":
                self._exchange(moment)
            case "WebSocketUsed":
                self._socket(moment)
            case "PacketRecorded":
                self._packet(moment)
            case "ServerLogged":
                self._line(moment)
            case _:
                self._single(moment)

    def done(self) -> list[TimelineItem]:
        for key, facts in self._facts.items():
            item = self._items[key]
            _finish(item, facts, self._closed.get(item.tab, math.inf))
        return sorted(self._items.values(), key=lambda item: item.at)

    def _single(self, moment: Moment) -> None:
        event, facts, key = moment.event, moment.event.facts(), key_of(moment)
        lane = lane_of(event.name)
        took = facts.get("duration_ms") or 0.0 if lane == "steps" else 0.0
        tab = moment.source.removeprefix(TAB) if moment.source.startswith(TAB) else ""
        if is_end_of_tab(event):
            self._closed[tab] = event.at
        self._items[str(key)] = TimelineItem(
            key=shown(key, self._several),
            lane=lane,
            at=event.at - took,
            ended=event.at,
            text=_reported(event.name, facts),
            level=level_of(event.name, facts),
            name=event.name,
            keys=event.keys,
            aliases=[str(key)],
            tab=tab or str(facts.get("target_id") or "")[:OWNER_CHARACTERS],
            session=str(facts.get("session_id") or ""),
            url=str(facts.get("url") or ""),
            failed=level_of(event.name, facts) == "error",
            looks=bool(facts.get("looks")),
            navigates=facts.get("tool") in NAVIGATING,
        )

    def _begun(self, key: str, moment: Moment, ended: float = math.inf) -> TimelineItem:
        """Return the item of something that takes several moments, made of the first one."""
        item = self._items.get(key)
        if item is None:
            event, source = moment.event, moment.source
            item = self._items[key] = TimelineItem(
                key=key,
                lane=lane_of(event.name),
                at=event.at,
                ended=ended,
                text="",
                level="info",
                name=event.name,
                tab=source.removeprefix(TAB) if source.startswith(TAB) else "",
            )
        return item

    def _exchange(self, moment: Moment) -> None:
        event = moment.event
        request = request_of(event.keys)
        key, facts = f"request:{request}", event.facts()
        item = self._begun(key, moment)
        known = self._facts.setdefault(key, {})
        headers: Mapping[str, str] = facts.get("headers") or {}
        known |= {name: value for name, value in facts.items() if value not in (None, "")}
        if event.name == "RequestSent":
            item.at = min(item.at, sent_at(event.at, facts.get("wallTime")))
        elif not facts.get("redirect"):
            item.answered = min(item.answered, event.at)
        if event.name in ("LoadingFinished", "LoadingFailed"):
            item.ended = event.at
        item.keys |= event.keys
        item.ids |= ids_of(headers)

    def _socket(self, moment: Moment) -> None:
        event, facts = moment.event, moment.event.facts()
        key = f"request:{request_of(event.keys)}"
        item = self._begun(key, moment)
        item.keys |= event.keys
        item.type = "WebSocket"
        frames = self._frames.setdefault(key, Counter())
        frames[facts.get("direction") or facts.get("event") or ""] += 1
        if facts.get("event") == "closed":
            item.ended = event.at
        if facts.get("event") == "error":
            item.level, item.failed = "error", True
        item.url = str(facts.get("url") or item.url)
        open_now = "open" if item.ended == math.inf else "closed"
        item.text = (
            f"WebSocket {item.url}: {frames['sent']} sent, {frames['recv']} received, {open_now}"
        )

    def _packet(self, moment: Moment) -> None:
        event, facts = moment.event, moment.event.facts()
        key = f"packet:{facts['group']}"
        item = self._begun(key, moment, ended=event.at)
        item.at, item.ended = min(item.at, event.at), max(item.ended, event.at)
        item.keys |= event.keys
        item.aliases.append(f"packet:{facts['packet_id']}")
        item.ids |= {key[9:] for key in event.keys if key.startswith("exchange:")}
        item.method, item.url = facts["method"], f"{facts['server_name']}{facts['url']}"
        if facts.get("status") or not item.text:
            item.text = line_of(event.name, {**facts, "packet_id": facts["group"]})
            item.level = level_of(event.name, facts)
            item.failed = item.level == "error"

    def _line(self, moment: Moment) -> None:
        event, facts = moment.event, moment.event.facts()
        log = (facts.get("session_id") or "", facts["service"], facts["stream"])
        before, line = self._written.get(log), str(facts["line"])
        if before is not None and continues(line, before.line, event.at - before.ended):
            before.line += "\n" + line
            before.ended = event.at
            before.aliases.append(str(key_of(moment)))
            before.text = f"server {facts['stream']}: {_first_and_main(before.line)}"
            before.level = "error" if TRACEBACK in before.line else before.level
            before.failed = before.level == "error"
            return
        self._single(moment)
        item = self._items[str(key_of(moment))]
        item.line = line
        self._written[log] = item


def _finish(item: TimelineItem, facts: Mapping[str, Any], closed: float) -> None:
    """Fill in an exchange as far as it has come; without an outcome it ends with its tab."""
    item.method, item.url = str(facts.get("method") or "GET"), str(facts.get("url") or "")
    item.type = str(facts.get("resourceType") or "")
    status, error = int(facts.get("status") or 0), str(facts.get("errorText") or "")
    if item.ended == math.inf and item.type != "EventSource":
        # The end of a body that the page does not read is never reported.
        item.ended = item.answered
    # A script that is not there is cancelled when its answer has come: the answer says more.
    is_given_up = bool(facts.get("canceled")) and status < 400
    if not is_given_up and status >= 400:
        error = ""
    outcome = "cancelled" if is_given_up else error or (str(status) if status else "")
    took = f" in {item.ended - item.at:.0f} ms" if outcome and item.ended < math.inf else ""
    missing = "no answer yet"
    if not outcome and closed < item.ended:
        item.ended, missing = closed, "no answer before its tab was closed"
    item.text = f"{item.method} {item.url} → {outcome or missing}{took}"
    if error and not is_given_up:
        item.level = "error"
    elif status:
        item.level = level_of("ResponseReceived", {"status": status})
    item.failed = item.level in ("error", "warn")


def _reported(name: str, facts: Mapping[str, Any]) -> str:
    """Return a moment's line, with the place in the code where it has one."""
    place = facts.get("stack") or {}
    place = place.get("original") or place
    source = place.get("source") or place.get("url")
    where = f" ({source}:{place['line']})" if place.get("line") else ""
    return line_of(name, facts) + where


def _first_and_main(block: str) -> str:
    """Return the first line and the one that says most: Python's last, others' second."""
    first, *others = block.split("\n")
    main = others[-1] if TRACEBACK in block else others[0]
    return f"{first} … {main.strip()} ({len(others) + 1} lines)"

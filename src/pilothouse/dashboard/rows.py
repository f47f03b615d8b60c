"""Moments of a timeline as rows that people read, and the cursor by which a page reads on. Pure."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.fence import without_lone_surrogates
from pilothouse.core.timeline.lanes import key_of, lane_of, level_of, line_of, one_line, phase_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.timeline.timeline import Moment

LONGEST_TEXT = 300
LONGEST_URL = 500
MOST_BEGUN = 4_000
"""Limit of exchanges whose beginning is remembered, to tell how long they took."""
LONGEST_CURSOR = 8_192
_EXCHANGES = ("network", "packets")
_CACHED = 300
"""Characters of the longest text whose masking is cached; longer ones are masked each time."""


class Rows:
    """Makes the rows of one agent."""

    def __init__(self, redactor: Redactor, names: Mapping[str, str] | None = None) -> None:
        """Show `names` in place of ids by which a session could be entered."""
        self._redactor = redactor
        self._names = names or {}
        self._begun: dict[str, float] = {}

    def row(self, moment: Moment, app: str = "") -> dict[str, Any]:
        """Return the row of a moment; `app` is the browser session of its source, if known."""
        event, name = moment.event, moment.event.name
        facts = self.facts(moment)
        if facts.get("url"):
            facts["url"] = masked(self._redactor, facts["url"], is_url=True)
        lane, line = lane_of(name), line_of(name, facts)
        if lane not in _EXCHANGES:  # whose lines have nothing of the page but the address
            line = masked(self._redactor, line)
        row: dict[str, Any] = {
            "id": moment.key,
            "key": str(key_of(moment)),
            "lane": lane,
            "at": round(event.at, 1),
            "level": level_of(name, facts),
            "text": one_line(line, LONGEST_TEXT),
        }
        self._add_exchange(row, name, facts, event.at)
        if name == "StepFinished":
            took = facts["duration_ms"]
            # It stands where it began: before what it has caused.
            row |= {"step": facts["step"], "took": took, "at": round(event.at - took, 1)}
        if found := app or _app_of(name, facts):
            row["app"] = found
        return row

    def facts(self, moment: Moment) -> dict[str, Any]:
        """Return the facts of a moment, its session id replaced by a name; not masked yet."""
        facts = moment.event.facts()
        if name := self._names.get(facts.get("session_id", "")):
            facts["session_id"] = name
        return facts

    def _add_exchange(
        self, row: dict[str, Any], name: str, facts: Mapping[str, Any], at: float
    ) -> None:
        request = facts.get("requestId")
        if request:
            row["req"] = request
        if row["lane"] not in _EXCHANGES:
            return
        if facts.get("url"):
            row["url"] = one_line(facts["url"], LONGEST_URL)
        for named, known in (("method", "method"), ("status", "status"), ("type", "resourceType")):
            if facts.get(known):
                row[named] = facts[known]
        phase = phase_of(name)
        if phase is None or not request:
            return
        row["phase"] = phase
        if phase == "request":
            self._begin(request, at)
        elif request in self._begun:
            row["took"] = round(at - self._begun[request], 1)

    def _begin(self, request: str, at: float) -> None:
        self._begun[request] = at
        if len(self._begun) > MOST_BEGUN:
            del self._begun[next(iter(self._begun))]


def _app_of(name: str, facts: Mapping[str, Any]) -> str:
    """Return the session of a step, a server line or what a browser did by itself, else empty."""
    named = name in ("StepFinished", "ServerLogged", "BrowserNoted")
    return str(facts.get("session_id", "")) if named else ""


def masked(redactor: Redactor, text: str, *, is_url: bool = False) -> str:
    if len(text) > _CACHED:
        return redactor.url(text) if is_url else redactor.text(text)
    return _masked_short(redactor, text, is_url)


@lru_cache(maxsize=4_096)
def _masked_short(redactor: Redactor, text: str, is_url: bool) -> str:
    # The same URLs and lines come again and again.
    return redactor.url(text) if is_url else redactor.text(text)


def packed(value: Any) -> bytes:
    """Return JSON; halves of characters, which JavaScript allows, are replaced."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(without_lone_surrogates(value))


# Cursors


def pack_cursor(epoch: str, seqs: Mapping[str, int]) -> str:
    """Return a cursor of seqs; `epoch` names their timeline: in another one they mean nothing."""
    return base64.urlsafe_b64encode(packed([epoch, dict(seqs)])).decode().rstrip("=")


def unpack_cursor(cursor: str, epoch: str) -> dict[str, int]:
    """Return the seqs of a cursor; none for an empty one, and for one of a timeline that ended.

    Raises:
        InvalidInput: it is no cursor.
    """
    of, seqs = _read_cursor(cursor) if cursor else (epoch, {})
    return seqs if of == epoch else {}


def check_cursor(cursor: str) -> None:
    """Check that a cursor can be read. Raises InvalidInput for what is none."""
    unpack_cursor(cursor, "")


def _read_cursor(cursor: str) -> tuple[str, dict[str, int]]:
    try:
        padded = cursor[:LONGEST_CURSOR] + "=" * (-len(cursor) % 4)
        of, seqs = orjson.loads(base64.b64decode(padded, b"-_", validate=True))
        sound = isinstance(of, str) and isinstance(seqs, dict)
        if sound and all(type(seq) is int and seq >= 0 for seq in seqs.values()):
            return of, seqs
    except (ValueError, TypeError):  # also for what is no base64, or no JSON
        pass
    raise InvalidInput(
        "cursor: it is none that this API gave",
        hint="leave it out to begin with the oldest row that is kept",
        field="cursor",
    )

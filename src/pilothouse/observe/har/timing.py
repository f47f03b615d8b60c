"""When a request happened and how long its phases took, in the terms of HAR 1.2.

The browser gives two clocks: `wallTime` says when a request began, and `cdpTime`, which never
jumps, measures everything after it. Events that have neither are placed by the time of arrival.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    type Event = Mapping[str, Any]

_LARGEST = 2**53
"""Beyond it a number is no time and no size, whatever the browser says."""
_PHASES = (
    ("dns", "dnsEnd"),
    ("connect", "connectEnd"),
    ("send", "sendEnd"),
    ("wait", "receiveHeadersEnd"),
)


def number(value: object) -> float | None:
    """Return a usable number, or None: NaN, infinities and giants would not survive as JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST < value < _LARGEST else None


def whole(value: object, default: int = 0) -> int:
    found = number(value)
    return default if found is None else int(found)


def iso(epoch: float) -> str:
    """Return ISO 8601 with milliseconds; a moment that no calendar has becomes the epoch."""
    try:
        moment = datetime.fromtimestamp(epoch, UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


@dataclass(frozen=True, slots=True)
class Clocks:
    """The two clocks on which every event is put, in seconds."""

    offset: float = 0.0
    """Epoch minus `cdpTime`."""

    @classmethod
    def of(cls, events: Sequence[Event]) -> Clocks:
        """Compare the clocks where the browser gives both, else with the time of arrival."""
        for name, unit in (("wallTime", 1.0), ("ts", 1000.0)):
            for event in events:
                epoch, cdp_time = number(event.get(name)), number(event.get("cdpTime"))
                if epoch is not None and cdp_time is not None:
                    return cls(epoch / unit - cdp_time)
        return cls()

    def steady(self, event: Event | None) -> float | None:
        """Return when it happened on the clock that never jumps; None if that is not known."""
        if event is None:
            return None
        cdp_time, arrived = number(event.get("cdpTime")), number(event.get("ts"))
        if cdp_time is not None:
            return cdp_time
        return None if arrived is None else arrived / 1000 - self.offset

    def epoch(self, event: Event) -> float:
        """Return when it happened by wall time; zero if that is not known."""
        wall = number(event.get("wallTime"))
        if wall is not None:
            return wall
        steady = self.steady(event)
        return 0.0 if steady is None else steady + self.offset


def timings(
    timing: object, began: float | None, responded: float | None, ended: float | None
) -> tuple[dict[str, float], float]:
    """Return the phases in milliseconds, -1 where one does not apply, and the others' sum.

    `began`, `responded` and `ended` are seconds on the steady clock, None if it has not happened.
    """
    measured = {
        name: found
        for name, value in (timing.items() if isinstance(timing, dict) else ())
        if (found := number(value)) is not None and found >= 0
    }
    if _is_fresh(measured, began):
        phases = _measured(measured, began, ended)
    else:
        phases = _estimated(began, responded, ended)
    phases = {name: round(spent, 3) for name, spent in phases.items()}
    total = math.fsum(spent for name, spent in phases.items() if spent > 0 and name != "ssl")
    return phases, round(total, 3)


def _is_fresh(timing: Mapping[str, float], began: float | None) -> bool:
    """Tell whether there are marks of this request: memory caches repeat those of the first."""
    if not timing.get("requestTime"):
        return False
    answered = timing["requestTime"] + timing.get("receiveHeadersEnd", 0.0) / 1000
    return began is None or answered >= began


def _measured(
    timing: Mapping[str, float], began: float | None, ended: float | None
) -> dict[str, float]:
    """Return phases by the browser's own marks, which are milliseconds after `requestTime`.

    Each phase lasts from the end of the one before to its own end, so that no pause between them
    is lost and the sum is the whole.
    """
    queued = _milliseconds(began, timing["requestTime"])
    starts = [timing[f"{name}Start"] for name in ("dns", "connect", "send") if _has(timing, name)]
    mark = min(starts, default=0.0)
    phases = {"blocked": queued + mark, "dns": -1.0, "connect": -1.0, "send": 0.0, "wait": 0.0}
    for name, end in _PHASES:
        if end in timing:
            phases[name] = max(0.0, timing[end] - mark)
            mark = max(mark, timing[end])
    phases["receive"] = max(0.0, _milliseconds(timing["requestTime"], ended) - mark)
    # It is a part of connecting, never longer.
    is_secured = _has(timing, "ssl") and "sslEnd" in timing
    handshake = max(0.0, timing["sslEnd"] - timing["sslStart"]) if is_secured else -1.0
    return {**phases, "ssl": min(handshake, phases["connect"])}


def _has(timing: Mapping[str, float], phase: str) -> bool:
    return f"{phase}Start" in timing


def _estimated(
    began: float | None, responded: float | None, ended: float | None
) -> dict[str, float]:
    """Return phases without marks (caches, sockets, failures), by the times of the events."""
    phases = dict.fromkeys(("blocked", "dns", "connect", "ssl"), -1.0)
    phases |= dict.fromkeys(("send", "wait", "receive"), 0.0)
    if responded is not None:
        phases["wait"] = _milliseconds(began, responded)
        phases["receive"] = _milliseconds(responded, ended)
    elif ended is not None:
        phases["blocked"] = _milliseconds(began, ended)
    return phases


def _milliseconds(start: float | None, end: float | None) -> float:
    return 0.0 if start is None or end is None else max(0.0, (end - start) * 1000)

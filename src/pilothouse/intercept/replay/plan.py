"""Plans of a resend or a bulk send, read strictly: nothing is guessed, nothing is ignored."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.faults import InvalidInput, RateLimited
from pilothouse.intercept.replay.edits import Edit, RegexReplace, bad, parse_edits, regex_edit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse.core.timeline.clock import Clock

MOST_SENDS = 1_000
"""Sends of one packet in one call."""
MOST_PACKETS = 100
MOST_INTERVAL_MS = 60_000
LEAST_TIMEOUT_MS, MOST_TIMEOUT_MS = 1_000, 300_000
MOST_WAIT_MS = 300_000
"""Milliseconds that a call may spend on intervals while its caller waits."""
PER_MINUTE = 6_000
"""Sends of all callers together."""
CONCURRENT, MOST_CONCURRENT = 20, 100
"""Sends of a call that are under way at the same time: usually, and at the most."""
MODES = ("parallel", "sequential")
_MINUTE_MS = 60_000.0

_COMMON: dict[str, object] = {
    "count": 1,
    "interval_ms": 0,
    "modifications": [],
    "async": False,
    "allow_duplicate_headers": False,
    "timeout_ms": 30_000,
    "session": "",
}


@dataclass(frozen=True, slots=True)
class PacketRegex:
    """A replacement for one packet of a bulk send, or for each."""

    packet_index: int | None
    edit: RegexReplace

    def concerns(self, packet_index: int) -> bool:
        return self.packet_index in (None, packet_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPlan:
    """A resend or a bulk send as it was read."""

    packet_ids: tuple[int, ...]
    count: int
    interval_ms: int
    timeout_ms: int
    edits: tuple[Edit, ...]
    allow_duplicate_headers: bool
    is_async: bool
    session: str
    is_bulk: bool = False
    is_parallel: bool = False
    max_concurrent: int = CONCURRENT
    has_barrier: bool = False
    """True if every send waits, connected, until all others are as far."""
    regex_params: tuple[PacketRegex, ...] = ()

    @property
    def total(self) -> int:
        return len(self.packet_ids) * self.count

    def edits_for(self, packet_index: int) -> tuple[Edit, ...]:
        """Return the edits of one packet: `regex_params` first, in order."""
        own = (param.edit for param in self.regex_params if param.concerns(packet_index))
        return (*own, *self.edits)


def resend_plan(raw: Mapping[str, Any]) -> SendPlan:
    """Read a resend; raises InvalidInput."""
    given = _known(raw, {"packet_id": None, **_COMMON})
    packet_id = _whole(given["packet_id"], "packet_id", 1, 2**63 - 1)
    return _checked(SendPlan(packet_ids=(packet_id,), **_read(given)))


def bulk_plan(raw: Mapping[str, Any]) -> SendPlan:
    """Read a bulk send; raises InvalidInput."""
    own: dict[str, object] = {
        "packet_ids": None,
        "mode": "parallel",
        "regex_params": [],
        "max_concurrent": CONCURRENT,
        "barrier": False,
    }
    given = _known(raw, {**own, **_COMMON})
    ids = given["packet_ids"]
    if not isinstance(ids, list) or not 1 <= len(ids) <= MOST_PACKETS:
        raise bad("packet_ids", f"a list of 1 to {MOST_PACKETS} packet ids", ids)
    packet_ids = tuple(
        _whole(one, f"packet_ids[{place}]", 1, 2**63 - 1) for place, one in enumerate(ids)
    )
    if given["mode"] not in MODES:
        raise bad("mode", f"one of {', '.join(MODES)}", given["mode"])
    is_parallel = given["mode"] == "parallel"
    plan = SendPlan(
        packet_ids=packet_ids,
        is_bulk=True,
        is_parallel=is_parallel,
        max_concurrent=_whole(given["max_concurrent"], "max_concurrent", 1, MOST_CONCURRENT),
        has_barrier=_flag(given, "barrier"),
        regex_params=_regex_params(given["regex_params"], len(packet_ids)),
        **_read(given),
    )
    if is_parallel and plan.interval_ms:
        raise bad(
            "interval_ms",
            "0 in mode parallel",
            plan.interval_ms,
            hint="mode sequential waits between sends",
        )
    most = plan.max_concurrent if is_parallel else 1
    if plan.has_barrier and plan.total > most:
        raise bad(
            "barrier",
            f"true only for as many sends as can be under way at once, {most} here",
            plan.total,
            hint=f"mode parallel with max_concurrent {plan.total}, or fewer sends;"
            f" at most {MOST_CONCURRENT}",
        )
    return _checked(plan)


def _known(raw: Mapping[str, Any], defaults: Mapping[str, object]) -> dict[str, Any]:
    if unknown := sorted(map(str, raw.keys() - defaults.keys())):
        raise InvalidInput(
            f"{unknown[0]} is no argument",
            field=unknown[0],
            expected=f"one of {', '.join(sorted(defaults))}",
            received=unknown[0],
        )
    return {**defaults, **raw}


def _read(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what both kinds of plan have."""
    return {
        "count": _whole(given["count"], "count", 1, MOST_SENDS),
        "interval_ms": _whole(given["interval_ms"], "interval_ms", 0, MOST_INTERVAL_MS),
        "timeout_ms": _whole(given["timeout_ms"], "timeout_ms", LEAST_TIMEOUT_MS, MOST_TIMEOUT_MS),
        "edits": parse_edits(given["modifications"]),
        "allow_duplicate_headers": _flag(given, "allow_duplicate_headers"),
        "is_async": _flag(given, "async"),
        "session": str(given["session"] or ""),
    }


def _checked(plan: SendPlan) -> SendPlan:
    if plan.total > PER_MINUTE:
        raise bad(
            "count",
            f"so small that all packets together are sent at most {PER_MINUTE} times",
            plan.total,
            hint="send fewer packets, or each fewer times, per call",
        )
    waits = (plan.total - 1) * plan.interval_ms
    if waits > MOST_WAIT_MS and not plan.is_async:
        raise bad(
            "async",
            f"true for a call that waits longer than {MOST_WAIT_MS // 1000} s between its sends",
            plan.is_async,
            hint=f"{plan.total} sends, {plan.interval_ms} ms apart, take {waits // 1000} s:"
            " call again with async: true, then get_job_status",
        )
    return plan


def _regex_params(raw: object, packets: int) -> tuple[PacketRegex, ...]:
    if not isinstance(raw, list) or len(raw) > MOST_PACKETS:
        raise bad("regex_params", f"a list of at most {MOST_PACKETS} objects", raw)
    return tuple(_regex_param(one, f"regex_params[{n}]", packets) for n, one in enumerate(raw))


def _regex_param(raw: object, field: str, packets: int) -> PacketRegex:
    expected = "an object with pattern and value_template, perhaps packet_index and target"
    if not isinstance(raw, dict):
        raise bad(field, expected, raw)
    known = {"packet_index", "pattern", "value_template", "target"}
    if unknown := sorted(map(str, raw.keys() - known)):
        raise bad(f"{field}.{unknown[0]}", f"absent: {field} is {expected}", raw[unknown[0]])
    index = raw.get("packet_index")
    if index is not None:
        index = _whole(index, f"{field}.packet_index", 0, packets - 1)
    target = raw.get("target", "request")
    edit = regex_edit(raw.get("pattern"), raw.get("value_template"), target, field)
    return PacketRegex(index, edit)


def _whole(value: object, field: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise bad(field, f"a whole number from {least} to {most}", value)
    return value


def _flag(given: Mapping[str, Any], field: str) -> bool:
    if not isinstance(given[field], bool):
        raise bad(field, "true or false", given[field])
    return bool(given[field])


@dataclass(slots=True, eq=False)
class Taken:
    """Sends that a call took of the budget, and when."""

    at: float
    sends: int


class Budget:
    """Budget of the sends that there may be in a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken: deque[Taken] = deque()
        self._sum = 0

    def take(self, sends: int) -> Taken:
        """Take so many; raises RateLimited, and then nothing is taken."""
        now = self._clock()
        while self._taken and self._taken[0].at + _MINUTE_MS <= now:
            self._sum -= self._taken.popleft().sends
        if self._sum + sends > PER_MINUTE:
            wait = self._wait(self._sum + sends - PER_MINUTE, now)
            raise RateLimited(
                f"at most {PER_MINUTE} packets are sent in a minute;"
                f" {self._sum} were, and this call asks for {sends}",
                hint=f"wait {wait:.0f} s, or send fewer",
                retryAfterSec=round(wait, 1),
            )
        taken = Taken(now, sends)
        self._taken.append(taken)
        self._sum += sends
        return taken

    def give_back(self, taken: Taken, unsent: int) -> None:
        """Give back what a call that was stopped did not send after all."""
        if taken in self._taken:
            taken.sends -= unsent
            self._sum -= unsent

    def _wait(self, surplus: int, now: float) -> float:
        """Return the seconds until so many have left."""
        for taken in self._taken:
            surplus -= taken.sends
            if surplus <= 0:
                return (taken.at + _MINUTE_MS - now) / 1000
        return _MINUTE_MS / 1000

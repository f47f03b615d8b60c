"""What counts as an incident, and the figures of a run."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.fuzz.clients import Reply

REFUSED = frozenset({"INVALID_INPUT", "invalid_input", "UNKNOWN_TOOL", "unknown_tool", -32602})
"""Codes of calls whose arguments were refused; some by a handler, which is counted so as well."""
REFUSED_RPC = frozenset({-32700, -32600, -32602, -32020})
"""The last one: a header must repeat an argument, and this one cannot stand in any."""
OFF = frozenset({502, 504})
CONTROLS = frozenset(
    {chr(number) for number in (*range(32), *range(0x7F, 0xA0))} - {"\n", "\t", "\r"}
) | frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""What the text of an answer never has as it is: it would be obeyed by a terminal, or hide."""
PASSED, REFUSED_CALL, FAILED = "passed", "refused", "failed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one call came to."""

    outcome: str
    code: str
    incidents: tuple[str, ...] = ()


def judge(reply: Reply, secret: str = "") -> Verdict:
    """Say whether a call passed validation, and what about its answer must not be."""
    if reply.message is None:
        what = "hung" if reply.is_hung else f"no answer, HTTP {reply.status}: {reply.text[:300]}"
        is_refusal = 400 <= reply.status < 500
        return Verdict(REFUSED_CALL, str(reply.status), () if is_refusal else (what,))
    if (error := reply.message.get("error")) is not None:
        code = error.get("code")
        bad = (
            () if code in REFUSED_RPC or code in (-32001, -32002) else (f"answered {error}"[:600],)
        )
        return Verdict(REFUSED_CALL, str(code), bad)
    incidents = [*_unsafe(reply.result)]
    if reply.is_hung:
        incidents.append(f"answered after {reply.took:.1f} s")
    if reply.status in OFF or (reply.status >= 500 and reply.status != 503):
        incidents.append(f"HTTP {reply.status}")
    if secret and secret in json.dumps(reply.result):
        incidents.append("the access token stands in the answer")
    fault = reply.structured.get("error") if reply.result.get("isError") else None
    if not isinstance(fault, dict):
        if reply.result.get("isError"):
            incidents.append(f"an error without its object: {reply.structured}"[:300])
        return Verdict(PASSED, "ok", tuple(incidents))
    code = fault.get("type") or fault.get("code")
    if "incident" in json.dumps(fault) and _is_internal(fault):
        incidents.append(f"internal: {fault.get('message')}")
    outcome = REFUSED_CALL if code in REFUSED else FAILED
    return Verdict(outcome, str(code), tuple(incidents))


def _is_internal(fault: Mapping[str, Any]) -> bool:
    places = (fault, fault.get("details"), fault.get("data"))
    return any(isinstance(place, dict) and "incident" in place for place in places)


def _unsafe(result: Mapping[str, Any]) -> Iterable[str]:
    for block in result.get("content", ()):
        found = CONTROLS & set(block.get("text", "")) if isinstance(block, dict) else ()
        if found:
            yield f"text with {sorted(map(ascii, found))[:5]}"


def log_incidents(lines: Iterable[str]) -> list[str]:
    """Return what a log tells of defects: internal errors, tracebacks, warnings of Python."""
    found = []
    for line in lines:
        if line.startswith("{"):
            try:
                told = json.loads(line)
            except ValueError:
                found.append(f"no JSON: {line[:200]} … {line[-400:]}")
                continue
            details = told.get("details")
            has_traceback = isinstance(details, dict) and (
                "traceback" in details or "Traceback (most" in str(details)
            )
            if told.get("event") == TOLD_IN_FULL:
                continue
            if told.get("event") == "internal_error" or has_traceback:
                found.append(line)
        elif any(mark in line for mark in SIGNS):
            found.append(line)
    return found


TOLD_IN_FULL = "service_failed"
"""A worker asked the hub for what makes no sense. Whoever sends frames plays a worker with a
defect, of which the log has to have the traceback; a call of a real one would answer `internal`."""
SIGNS = ("Traceback (most recent", "was never retrieved", "was never awaited", "Fatal Python")


@dataclass
class Figures:
    """What a run has come to; several threads count in it."""

    calls: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    codes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    by_tool: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    frames: Counter[str] = field(default_factory=Counter)
    incidents: list[str] = field(default_factory=list)
    hangs: int = 0
    resources: int = 0
    slowest: list[tuple[float, str, str]] = field(default_factory=list)
    memory: dict[str, list[float]] = field(default_factory=dict)
    """MB of a worker, each time that its session has ended."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count_call(
        self, lane: str, tool: str, arguments: Mapping[str, Any], reply: Reply, verdict: Verdict
    ) -> None:
        with self._lock:
            self.calls[lane] += 1
            self.outcomes[verdict.outcome] += 1
            self.by_tool[tool][verdict.outcome] += 1
            self.codes[tool][verdict.code] += 1
            self.hangs += reply.is_hung
            shown = shortened(arguments)
            slowest = [*self.slowest, (reply.took, f"{lane} {tool}", shown)]
            self.slowest = sorted(slowest, reverse=True)[:10]
            for incident in verdict.incidents:
                self.incidents.append(f"{lane} {tool} {shown}: {incident}")

    def count_resource(self, lane: str, uri: str, verdict: Verdict) -> None:
        with self._lock:
            self.resources += 1
            for incident in verdict.incidents:
                self.incidents.append(f"{lane} resources/read {uri[:200]}: {incident}")

    def count_frame(self, place: str, incident: str = "") -> None:
        with self._lock:
            self.frames[place] += 1
            if incident:
                self.incidents.append(f"{place}: {incident}")

    def report(self, what: Iterable[str]) -> None:
        """Add incidents that were found elsewhere than in an answer."""
        with self._lock:
            self.incidents.extend(what)

    def note_memory(self, lane: str, megabytes: float) -> None:
        with self._lock:
            self.memory.setdefault(lane, []).append(megabytes)

    @property
    def valid_share(self) -> float:
        """The share of calls that passed validation."""
        whole = self.outcomes.total()
        return (whole - self.outcomes[REFUSED_CALL]) / whole if whole else 0.0


def shortened(arguments: Mapping[str, Any]) -> str:
    text = json.dumps(arguments, default=str)
    return text if len(text) <= 300 else f"{text[:297]}…"

"""The words in which a timeline is shown: lanes, levels, one line of text, and public keys.

A lane is what a reader tells apart at a glance. A public key is how every tool names a moment:
`step:4`, `console:123`, `request:41.7`, `packet:77`, `server:17`, `browser:3`, `call:9`. Numbers of
a tab or of a browser session are counted for each by itself, so where there are several, the key
says whose it is: `console:ab12cd/123`, `step:0f3a21/4`. Without that it means the newest one's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse.core.timeline.events import Occurrence
    from pilothouse.core.timeline.timeline import Moment, Timeline

type Lane = Literal["steps", "console", "network", "server", "packets", "other"]
type Level = Literal["error", "warn", "info", "debug"]
type Phase = Literal["request", "response", "end", "failed"]

LANES: tuple[Lane, ...] = ("steps", "console", "network", "server", "packets", "other")
OWNER_CHARACTERS = 6
"""Number of characters of a target's or a session's id that tell whose a number is."""
TAB = "tab "
"""Beginning of an observed tab's source; the first characters of its target's id follow."""

_LANES: dict[str, Lane] = {
    "StepFinished": "steps",
    "ConsoleLogged": "console",
    "EntryLogged": "console",
    "RequestSent": "network",
    "ResponseReceived": "network",
    "LoadingFinished": "network",
    "LoadingFailed": "network",
    "WebSocketUsed": "network",
    "ServerLogged": "server",
    "PacketRecorded": "packets",
}
_PHASES: dict[str, Phase] = {
    "RequestSent": "request",
    "ResponseReceived": "response",
    "LoadingFinished": "end",
    "LoadingFailed": "failed",
}
_LEVELS: dict[str, Level] = {"error": "error", "warn": "warn", "debug": "debug", "trace": "debug"}
_BAD_LINE = re.compile(r"\b(?:error|exception|traceback|fatal|panic|critical)\b", re.IGNORECASE)
_ERROR_NAME = re.compile(r"\b[A-Z]\w+(?:Error|Exception)\b")
_DOUBTFUL_LINE = re.compile(r"\b(?:warn|warning|deprecated)\b", re.IGNORECASE)
_LOOKED_AT = 500
"""Characters of a server's line that are searched for its level, which stands at its beginning."""
_GRAVE_NOTES = ("tab crashed", "server exited")


def lane_of(name: str) -> Lane:
    """Return the lane of an event, by its name."""
    return _LANES.get(name, "other")


def phase_of(name: str) -> Phase | None:
    """Return which part of a browser's exchange an event is; None for everything else."""
    return _PHASES.get(name)


def level_of(name: str, facts: Mapping[str, Any]) -> Level:
    """Judge how much an event should worry a reader."""
    match name:
        case "ConsoleLogged" | "EntryLogged":
            return _LEVELS.get(str(facts.get("type")), "info")
        case "StepFinished":
            return "info" if facts.get("ok") else "error"
        case "ServerLogged":
            return _level_of_line(str(facts.get("line", "")))
        case "LoadingFailed":
            # What the page itself gave up is no failure of anybody's.
            return "debug" if facts.get("canceled") else "error"
        case "ToolInvocationFailed":
            return "warn"
        case "BrowserNoted":
            return "error" if str(facts.get("what")).startswith(_GRAVE_NOTES) else "info"
        case "LoadingFinished":
            return "debug"
    return _level_of_status(facts.get("status") or 0)


def _level_of_line(line: str) -> Level:
    line = line[:_LOOKED_AT]
    if _BAD_LINE.search(line) or _ERROR_NAME.search(line):
        return "error"
    return "warn" if _DOUBTFUL_LINE.search(line) else "info"


def _level_of_status(status: int) -> Level:
    return "error" if status >= 500 else "warn" if status >= 400 else "info"


def line_of(name: str, facts: Mapping[str, Any]) -> str:
    """Describe an event in a few words, neither masked nor cut: whoever shows it does both, in
    that order, as half of a secret would not be known as one."""
    match name:
        case "StepFinished":
            outcome = "ok" if facts["ok"] else "failed"
            return f"step {facts['step']} {facts['tool']} {facts['target']} {outcome}"
        case "ServerLogged":
            return f"server {facts['stream']}: {facts['line']}"
        case "ConsoleLogged" | "EntryLogged":
            return f"console {facts.get('type')}: {facts.get('text', '')}"
        case "RequestSent":
            return f"{facts.get('method')} {facts.get('url')}"
        case "ResponseReceived":
            return f"{facts.get('status')} from {facts.get('url')}"
        case "LoadingFinished":
            return f"loaded {facts.get('url', '')}"
        case "LoadingFailed":
            return f"{facts.get('errorText')} at {facts.get('url', '')}"
        case "WebSocketUsed":
            return f"WebSocket {facts.get('direction') or facts.get('event')} {facts.get('url')}"
        case "PacketRecorded":
            return _packet_line(facts)
        case "BrowserNoted":
            return f"{facts['what']}: {facts['detail']}"
    return _other_line(name, facts)


def _packet_line(facts: Mapping[str, Any]) -> str:
    """Describe a packet: a request has no status yet when it is reported, its response has."""
    status = facts.get("status")
    outcome = f" → {status}" if status else ""
    resent = " (sent again)" if facts.get("resend") else ""
    where = f"{facts.get('server_name', '')}{facts.get('url', '')}"
    return f"packet {facts.get('packet_id')} {facts.get('method')} {where}{outcome}{resent}"


def _other_line(name: str, facts: Mapping[str, Any]) -> str:
    match name:
        case "ToolInvoked":
            return f"{facts['tool']} answered in {facts['duration_ms']:.0f} ms"
        case "ToolInvocationFailed":
            return f"{facts['tool']} failed ({facts['code']}): {facts['message']}"
        case "ElementVanished":
            return f"{facts['selector']} is gone from {facts['url']}"
        case "SessionStarted":
            return f"session {facts['session_id']} started {facts.get('url', '')}".rstrip()
        case "SessionTerminated":
            return f"session {facts['session_id']} ended ({facts['reason']})"
        case "ConfigChanged":
            return f"interception configured: {facts['what']}"
        case "BookmarksChanged":
            return f"bookmark {facts['change']}: {facts['title'] or facts['url'] or facts['id']}"
        case "TargetChanged":
            said = facts.get("url") or facts.get("reason") or facts.get("data") or ""
            return f"page {facts.get('type')} {said}".rstrip()
    return name


def one_line(text: str, most: int) -> str:
    """Return a text without its line ends, cut to so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


# Public keys


@dataclass(frozen=True, slots=True)
class MomentKey:
    """A public key in its parts."""

    kind: str
    id: str
    owner: str = ""
    """Beginning of the id of the target or session that counts by itself; empty: the newest."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.owner}/{self.id}" if self.owner else f"{self.kind}:{self.id}"


KINDS: tuple[str, ...] = (
    *("step", "console", "request", "packet", "server", "browser", "call"),
    *("tab", "session", "bookmarks", "config"),
)
_OWNED = ("step", "console", "tab")
_BY_SOURCE = {"calls": "call", "packets": "config"}
"""Sources whose events are called otherwise, where they have no key of their own."""


def parse_key(text: str) -> MomentKey:
    """Parse a public key. Raises ValueError, saying what a key looks like."""
    kind, colon, rest = text.strip().partition(":")
    if not colon or not rest or kind not in KINDS:
        raise ValueError(
            f"{text[:80]!r} is no key: it looks like step:4, console:123, request:ID, packet:77, "
            "server:17, browser:3 or call:9"
        )
    owner, slash, number = rest.rpartition("/")
    if kind not in _OWNED or not slash:
        owner, number = "", rest
    if kind != "request" and not (number.isascii() and number.isdigit()):
        raise ValueError(f"{text[:80]!r} is no key: after {kind}: comes a number")
    return MomentKey(kind, number if kind == "request" else number.lstrip("0") or "0", owner)


def key_of(moment: Moment) -> MomentKey:
    """Return a moment's public key, with its owner where it has one; `shown` may drop that."""
    event, lane = moment.event, lane_of(moment.event.name)
    if lane == "network" and (request := request_of(event.keys)):
        return MomentKey("request", request)
    if lane == "steps":
        facts = event.facts()
        return MomentKey("step", str(facts["step"]), facts.get("session_id", "")[:OWNER_CHARACTERS])
    if lane == "packets":
        return MomentKey("packet", str(event.facts()["packet_id"]))
    if moment.source.startswith(TAB):
        kind = "console" if lane == "console" else "tab"
        return MomentKey(kind, str(moment.seq), moment.source.removeprefix(TAB))
    return MomentKey(_BY_SOURCE.get(moment.source, moment.source), str(moment.seq))


def counted_by_several(timeline: Timeline) -> frozenset[str]:
    """Return kinds of keys that must name an owner: several tabs or sessions have such numbers."""
    kept = timeline.kept()
    kinds: set[str] = set()
    if sum(source.startswith(TAB) for source in kept) > 1:
        kinds |= {"console", "tab"}
    if kept.get("step"):
        sessions = {event.facts().get("session_id") for _, event in timeline.ring("step")}
        kinds |= {"step"} if len(sessions) > 1 else set()
    return frozenset(kinds)


def shown(key: MomentKey, several: frozenset[str]) -> str:
    """Return a key as a reader sees it; `several` is what `counted_by_several` returned."""
    return str(key if key.kind in several else replace(key, owner=""))


def is_end_of_tab(event: Occurrence) -> bool:
    """Tell whether a tab was closed, alone or with its browser: what it waits for never comes."""
    return event.name == "TargetChanged" and event.facts().get("type") == "detached"


def request_of(keys: frozenset[str]) -> str:
    """Return the browser's id of the exchange that an event belongs to; empty for none."""
    return next((key[8:] for key in keys if key.startswith("request:")), "")

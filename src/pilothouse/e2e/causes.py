"""Why a step failed, most likely first, from the evidence that was gathered. Pure."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.digest import cut, short_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.e2e.digest import Exchange
    from pilothouse.e2e.protocol import Trouble

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]{2,}")
_ERROR_LINE = re.compile(r"(?i)(?:error|exception|fatal|panic|unhandled|failed)\b")
_FRAME_LINE = re.compile(r'^\s*(?:at |File ")|^Traceback ')
_ITEM = re.compile(r"^\s*- (.*)$")
_NO_NAME = frozenset("button link text role div span input locator has nth css xpath name".split())


@dataclass(slots=True)
class Evidence:
    """All that was found at the moment of a failure; what could not be had is said in `missing`."""

    trouble: Trouble
    selector: str = ""
    screenshot: dict[str, Any] | None = None
    snapshot: str = ""
    baseline: str = ""
    hit: dict[str, Any] | None = None
    overlay: str = ""
    console: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[Exchange, str]] = field(default_factory=list)
    """Failed or slow ones, newest first, each with the beginning of its body."""
    server_lines: list[str] = field(default_factory=list)
    server_exit: dict[str, Any] | None = None
    refusals: list[str] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    is_silent: bool = False
    """The page answered nothing that it was asked."""
    awaited: Exchange | None = None
    """The page that was to come: its server has not answered yet, and no other page will."""


def rank(evidence: Evidence, base: str) -> list[str]:
    """Likely causes in words, the likeliest first."""
    return list(dict.fromkeys(cut(cause, 300) for cause in _causes(evidence, base)))[:5]


def _causes(evidence: Evidence, base: str) -> list[str]:
    trouble = evidence.trouble
    found = [f"the script threw {trouble.message}"] if trouble.kind == "script" else []
    if trouble.kind == "replaced":
        found.append("another page was loaded before the script had ended")
    if evidence.awaited:
        request = f"{evidence.awaited.method} {short_url(evidence.awaited.url, base)}"
        found.append(f"the server has not answered {request} yet, and the tab waits for that")
    elif evidence.is_silent:
        found.append("the page answers nothing: a script that does not end may keep it busy")
    if evidence.overlay:
        found.append(f"the dev server shows an error in the page: {evidence.overlay}")
    if evidence.server_exit:
        code = evidence.server_exit.get("exitCode")
        found.append(f"the dev server has exited (code {code}); its log says why")
    found += [f"the URL policy refused {refusal}" for refusal in evidence.refusals[:2]]
    found += _way(evidence)
    broken = [e for e, _ in evidence.requests if e.status >= 500]
    said = _complaints(evidence.server_lines)
    for exchange in broken[:2]:
        logged = f"; the server logged: {said[-1]}" if said else ""
        url = short_url(exchange.url, base)
        found.append(f"{exchange.method} {url} answered {exchange.status}{logged}")
    for event in evidence.console:
        if event.get("source") == "exception":
            found.append(f"the page threw {event.get('text', '')}{_place(event)}")
    if said and not broken:
        found.append(f"the server logged an error: {said[-1]}")
    for exchange, _ in evidence.requests:
        if exchange.failed and exchange.status < 500 and exchange.error != "cancelled":
            found.append(f"{exchange.line(base)}")
    if trouble.kind == "not_found" and evidence.selector and not evidence.is_silent:
        near = similar(evidence.selector, evidence.snapshot)
        if near:
            found.append(f"nothing matches the selector; the page has {'; '.join(near)}")
        else:
            found.append("nothing in the page resembles the selector: it may be another page")
    if trouble.kind == "missed" and trouble.cover:
        found.append(f"{trouble.cover} is where the element was when it was pressed")
    if trouble.kind == "ambiguous":
        found.append("the selector fits several elements; take one of the candidates")
    errors = [
        e for e in evidence.console if e.get("type") == "error" and e.get("source") != "exception"
    ]
    found += [f"the console says {e.get('text', '')}" for e in errors[:2]]
    return found


def _complaints(lines: Sequence[str]) -> list[str]:
    """Lines that tell of an error; of a Python traceback its last one, which names it."""
    found, inside = [], False
    for line in lines:
        if line.startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and not line[:1].isspace():
            found.append(line)
            inside = False
        elif not (inside or _FRAME_LINE.match(line)) and _ERROR_LINE.search(line):
            found.append(line)
    return found


def covering(evidence: Evidence) -> str:
    """What takes the click; asked of the page only where Playwright gave no reason of its own."""
    trouble, hit = evidence.trouble, evidence.hit or {}
    return trouble.cover or ("" if trouble.obstacle else str(hit.get("cover", "")))


def _way(evidence: Evidence) -> list[str]:
    """What stood in the way of an element that is there."""
    trouble, hit = evidence.trouble, evidence.hit or {}
    if trouble.kind != "timeout":
        return []
    if cover := covering(evidence):
        text = hit.get("coverText", "")
        says = f" ({text})" if text else ""
        return [f"{cover} covers the element{says}"]
    if trouble.obstacle:
        return [f"the element is there, but {trouble.obstacle}"]
    return []


def _place(event: dict[str, Any]) -> str:
    frames = event.get("frames") or ([event["stack"]] if event.get("stack") else [])
    for frame in frames:
        place = frame.get("original") or frame
        if place.get("url") or place.get("source"):
            name = place.get("source") or place.get("url")
            return f" at {name}:{place.get('line', 0)}"
    return ""


def similar(selector: str, snapshot: str) -> list[str]:
    """Lines of a snapshot that share a word with the selector, or nearly."""
    words = {w.lower() for w in _WORD.findall(selector)} - _NO_NAME
    if not words:
        return []
    scored = []
    for line in snapshot.splitlines():
        item = _ITEM.match(line)
        if item is None or "[ref=" not in line:
            continue
        names = {w.lower() for w in _WORD.findall(item[1].split("[ref=")[0])} - _NO_NAME
        exact = len(words & names)
        near = sum(bool(difflib.get_close_matches(word, names, n=1, cutoff=0.8)) for word in words)
        if exact or near:
            scored.append((exact, near, item[1].rstrip(":")))
    scored.sort(key=lambda entry: (-entry[0], -entry[1]))
    return [cut(text, 90) for _, _, text in scored[:3]]


def difference(before: str, now: str, most: int = 24) -> list[str]:
    """What a snapshot has more and less than an earlier one; refs do not count."""
    if not before:
        return []

    def plain(text: str) -> list[str]:
        return [re.sub(r" \[(?:ref=\w+|active|cursor=\w+)\]", "", line) for line in _lines(text)]

    changed = [
        line
        for line in difflib.unified_diff(plain(before), plain(now), n=0, lineterm="")
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    if len(changed) > most:
        return [*changed[:most], f"… and {len(changed) - most} more lines"]
    return changed


def _lines(text: str) -> Sequence[str]:
    return text.splitlines()

"""Why a step failed, most likely first, from the evidence that was gathered. Pure."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.failure.digest import cut, short_url
from pilothouse.e2e.failure.symptoms import Nearness, Symptom, Weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.e2e.browser.errors import Trouble
    from pilothouse.e2e.failure.digest import DigestExchange

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]{2,}")
_ITEM = re.compile(r"^\s*- (.*)$")
MOST_CAUSES = 5
_NO_NAME = frozenset("button link text role div span input locator has nth css xpath name".split())


@dataclass(slots=True)
class Evidence:
    """All that was found at the moment of a failure; what could not be had is said in `missing`."""

    trouble: Trouble
    selector: str = ""
    screenshot: dict[str, Any] | None = None
    """Place of the picture of the page, and when it was taken."""
    thumbnail: bytes = b""
    """The same as a JPEG that is small enough for an answer."""
    snapshot: str = ""
    baseline: str = ""
    hit: dict[str, Any] | None = None
    overlay: str = ""
    console: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[DigestExchange, str]] = field(default_factory=list)
    """Failed or slow requests, newest first, each with the beginning of its body."""
    symptoms: list[Symptom] = field(default_factory=list)
    """Things that went wrong round the step, the likeliest cause first."""
    led_to: str = ""
    """The action that led to another page, and which, where something went wrong before it did."""
    has_log: bool = False
    """True if it is known where a server of the session writes its errors."""
    server_lines: list[str] = field(default_factory=list)
    """The newest lines that the servers wrote to stderr."""
    since_step: int = 0
    """Number of these lines, the last ones, that were written since the step began."""
    stdout_lines: list[str] = field(default_factory=list)
    """Lines that the servers wrote to stdout round the step."""
    untimed_lines: list[str] = field(default_factory=list)
    """New lines of stderr that were read from a file, so that their times are not known."""
    server_exit: dict[str, Any] | None = None
    refusals: list[str] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    is_silent: bool = False
    """True if the page answered nothing that it was asked."""
    awaited: DigestExchange | None = None
    """The page that was to come: its server has not answered yet, and no other page will."""


def rank(evidence: Evidence, base: str, most: int = 300) -> list[str]:
    """Return likely causes in words, the likeliest first; what is not certain is labelled."""
    found = [
        cause.line(most) if isinstance(cause, Symptom) else cut(cause, most)
        for cause in _causes(evidence, base)
    ]
    return list(dict.fromkeys(found))[:MOST_CAUSES]


def _causes(evidence: Evidence, base: str) -> list[str | Symptom]:
    trouble = evidence.trouble
    near, far = _selector(evidence)
    aside = [one for one in evidence.symptoms if one.weight >= Weight.SIDE]
    return [
        *_certain(evidence, base),
        *_of(evidence.symptoms, Nearness.ACTION, aside),
        *near,
        *_of(aside, Nearness.ACTION),
        *_of(evidence.symptoms, Nearness.EARLIER, aside),
        *far,
        *(
            [f"{trouble.cover} is where the element was when it was pressed"]
            if _is_taken(trouble)
            else []
        ),
        *(
            ["the selector fits several elements; take one of the candidates"]
            if trouble.kind == "ambiguous"
            else []
        ),
        *_of(aside, Nearness.EARLIER),
        *_of(evidence.symptoms, Nearness.BACKGROUND),
        *([evidence.led_to] if evidence.led_to else []),
        *_of(evidence.symptoms, Nearness.LEFT),
    ]


def _of(
    symptoms: Sequence[Symptom], nearness: Nearness, without: Sequence[Symptom] = ()
) -> list[Symptom]:
    return [one for one in symptoms if one.nearness is nearness and one not in without]


def _certain(evidence: Evidence, base: str) -> list[str]:
    """Return what stops a step, whatever else went wrong."""
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
    return found + _way(evidence)


def _selector(evidence: Evidence) -> tuple[list[str], list[str]]:
    """Return what is like the selector, or else that nothing is."""
    trouble = evidence.trouble
    if trouble.kind != "not_found" or not evidence.selector or evidence.is_silent:
        return [], []
    near = similar(evidence.selector, evidence.snapshot)
    if near:
        return [f"nothing matches the selector; the page has {'; '.join(near)}"], []
    return [], ["nothing in the page resembles the selector: it may be another page"]


def _is_taken(trouble: Trouble) -> bool:
    return trouble.kind == "missed" and bool(trouble.cover)


def covering(evidence: Evidence) -> str:
    """Return what takes the click; the page's answer counts only if Playwright gave no reason."""
    trouble, hit = evidence.trouble, evidence.hit or {}
    return trouble.cover or ("" if trouble.obstacle else str(hit.get("cover", "")))


def _way(evidence: Evidence) -> list[str]:
    """Return what stood in the way of an element that is there."""
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


def similar(selector: str, snapshot: str) -> list[str]:
    """Return lines of a snapshot that share a word with the selector, or nearly."""
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
    """Return what a snapshot has more and less than an earlier one; refs do not count."""
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

"""Reads what Playwright says: why a step failed, what stood in its way, what a selector is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

type TroubleKind = Literal[
    "timeout",
    "busy",
    "not_found",
    "ambiguous",
    "missed",
    "not_built",
    "syntax",
    "navigation",
    "script",
    "replaced",
    "closed",
    "crashed",
    "other",
]

DOWNLOAD = "it is a download, not a page"

_REF = re.compile(r"(?:aria-ref=|\[?ref=)?((?:f\d+)?e\d+)\]?")
_ANY_FRAME = re.compile(r"internal:control=any-frame >> |frame_locator\(\)\.")
"""Words that say where a selector is looked for, which is not what an agent asked for."""
_SEVERAL_FRAMES = "matched elements in multiple frames"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CALL = re.compile(r"^(?:\w+\.)+\w+: ")
_LIMIT = re.compile(r"Timeout (\d+)ms exceeded")
_SOUGHT = re.compile(r'waiting for locator\((".*")\)$', re.MULTILINE)
_RESOLVED = re.compile(r"resolved to (?:(hidden|visible) )?(<.*>)")
_COVERED = re.compile(
    r"(?P<cover><.*>)(?: from (?P<outer><.*>) subtree)? intercepts pointer events"
)
_AMBIGUOUS = re.compile(
    r'(?:locator\((?P<selector>".*")\) )?resolved to (?P<count>\d+) elements:\n'
    r"(?P<list>(?:\s+\d+\) .*\n?)+)"
)
_CANDIDATE = re.compile(r"\s+\d+\) (<.*>) aka (.*)")
_NET = re.compile(r"(net::ERR_\w+|NS_ERROR_\w+|Navigation .* interrupted by another navigation)")
_BAD_SELECTOR = re.compile(
    r"while parsing (?:css )?selector|Unknown engine|is not a valid selector"
    r"|Unexpected token .* while parsing|Malformed selector|InvalidSelectorError"
)
_SEEN_AS = {"hidden": "it is not visible", "visible": "it is still visible"}
_IN_THE_WAY = (
    ("element is not visible", "it is not visible"),
    ("element is not enabled", "it is disabled"),
    ("element is not editable", "it is read-only"),
    ("element is not stable", "it keeps moving"),
    ("element is outside of the viewport", "it is outside of the viewport"),
    ("element was detached", "it is taken out of the page again and again"),
    ("did not find some options", "it has no such option"),
    ("waiting for element to be checked", "it did not become checked"),
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One failure of Playwright, understood."""

    kind: TroubleKind
    message: str
    """First line of the error, without the name of the call and without colours."""
    matched: str = ""
    """The element that the selector found, as HTML."""
    cover: str = ""
    """The element that takes the click instead."""
    obstacle: str = ""
    """Reason why the element could not be acted on, in words."""
    candidates: tuple[str, ...] = ()
    """The elements that an ambiguous selector found, each with a selector that finds it alone."""
    found: int = 0
    sought: str = ""
    """The selector that found nothing, or too much, where the step may have more than one."""


def ref_of(selector: str) -> str:
    """Return the ref of a snapshot (`e12`, `f1e3`, `ref=e12`), empty for any other selector."""
    match = _REF.fullmatch(selector.strip())
    return match[1] if match else ""


def in_several_frames(text: str) -> bool:
    """Tell whether an error says that more than one frame has what was looked for."""
    return _SEVERAL_FRAMES in text


def read_error(name: str, text: str) -> Trouble:
    """Read an error of Playwright: `name` is its class, `text` all that it says."""
    text = _ANSI.sub("", text)
    if in_several_frames(text):
        return Trouble("ambiguous", "elements in several frames match")
    text = _ANY_FRAME.sub("", text)
    message, _, log = text.partition("\nCall log:")
    message = _CALL.sub("", message.strip())
    first = message.split("\n", 1)[0]
    if "Target crashed" in first or "Page crashed" in first:
        return Trouble("crashed", first)
    if name == "TargetClosedError" or "has been closed" in first or "Connection closed" in first:
        return Trouble("closed", first)
    if "strict mode violation" in message:
        return _ambiguous(message)
    if _BAD_SELECTOR.search(message):
        return Trouble("syntax", first.removeprefix("Error: "))
    if net := _NET.search(message):
        return Trouble("navigation", net[1])
    if "Download is starting" in first:
        return Trouble("navigation", DOWNLOAD)
    if "Execution context was destroyed" in first:
        return Trouble("replaced", "another page was loaded meanwhile")
    if name == "TimeoutError" or _LIMIT.search(first):
        return _timeout(first, log)
    return Trouble("other", first.removeprefix("Error: "), *_seen(log))


def _ambiguous(message: str) -> Trouble:
    found = _AMBIGUOUS.search(message + "\n")
    if found is None:
        return Trouble("ambiguous", message.split("\n", 1)[0])
    # Playwright names them in Python, which no selector can be.
    elements = [line[1] for line in _CANDIDATE.finditer(found["list"])]
    selector = _unquoted(found["selector"] or "")
    candidates = tuple(
        f"{selector} >> nth={number} is {element}" if selector else element
        for number, element in enumerate(elements)
    )
    count = found["count"]
    return Trouble(
        "ambiguous",
        f"{count} elements match",
        candidates=candidates,
        found=int(count),
        sought=selector,
    )


def _unquoted(text: str) -> str:
    """Return the text of a quoted string; empty for what is none, such as a chain of locators."""
    try:
        return str(json.loads(text))
    except ValueError:
        return ""


def _timeout(first: str, log: str) -> Trouble:
    *before, last = _SOUGHT.split(log)
    if len(before) > 2 and before[-1] not in before[:-1] and "resolved to" not in last:
        # What is dragged was there, but not where it is to be dropped.
        return Trouble("not_found", first, sought=_unquoted(before[-1]))
    matched, cover, obstacle = _seen(log)
    kind: TroubleKind = "timeout" if matched or not _waits(log) else "not_found"
    return Trouble(kind, first, matched, cover, obstacle)


def _waits(log: str) -> bool:
    """Tell whether the time went by looking for an element."""
    # A picture of the page waits for its fonts.
    looked = log.replace("waiting for fonts", "")
    return "waiting for" in looked and "navigating to" not in looked


def _seen(log: str) -> tuple[str, str, str]:
    """Return what a call log last says: the element, what covers it, what stood in the way."""
    matched = cover = obstacle = ""
    for line in log.splitlines():
        if resolved := _RESOLVED.search(line):
            matched = resolved[2]
            # Said only where the wait is for the opposite.
            obstacle = _SEEN_AS.get(resolved[1], obstacle)
        if covered := _COVERED.search(line):
            cover = covered["outer"] or covered["cover"]
            obstacle = "another element covers it"
        for sign, meaning in _IN_THE_WAY:
            if sign in line:
                obstacle, cover = meaning, ""
    return matched, cover, obstacle


def script_message(text: str) -> str:
    """Return what a script threw, without the frames of the machinery that ran it."""
    message = _CALL.sub("", _ANSI.sub("", text).strip())
    kept = [
        line
        for line in message.splitlines()
        if "UtilityScript" not in line and "eval at evaluate" not in line
    ]
    return "\n".join(line for line in kept if line.strip() != "at eval (<anonymous>)")

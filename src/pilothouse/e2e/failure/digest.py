"""What a step caused, in about ten lines, out of what the observer recorded meanwhile."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pilothouse.core.timeline.attribution import ids_of, sent_at
from pilothouse.core.timeline.lanes import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SLOW_MS = 1_000
MOST_LINES = 6
CANCELLED = "cancelled"
MOST_CHARACTERS = 200
_QUIET_TYPES = frozenset({"Image", "Stylesheet", "Script", "Font", "Media", "Manifest", "Other"})
"""Kinds of requests that are only counted while they go well."""


@dataclass(slots=True)
class DigestExchange:
    """One request with what became of it."""

    request_id: str
    method: str
    url: str
    kind: str
    seq: int
    at: float
    status: int = 0
    error: str = ""
    ended_at: float = 0.0
    mime_type: str = ""
    post_data: str = ""
    ids: frozenset[str] = frozenset()
    """Ids by which servers name it in their log."""
    is_download: bool = False

    @property
    def failed(self) -> bool:
        return bool(self.error) or self.status >= 400

    @property
    def took(self) -> float:
        return max(0.0, self.ended_at - self.at) if self.ended_at else 0.0

    @property
    def outcome(self) -> str:
        if self.is_download:
            return "download"
        return self.error or (str(self.status) if self.status else "pending")

    def line(self, base: str = "") -> str:
        took = f" in {self.took:.0f} ms" if self.took >= SLOW_MS else ""
        return f"{self.method} {short_url(self.url, base)} → {self.outcome}{took}"


def exchanges(events: Iterable[Mapping[str, Any]]) -> list[DigestExchange]:
    """Return the requests among events, each with its end where that came too."""
    found: dict[str, DigestExchange] = {}
    hops: list[DigestExchange] = []
    downloads: set[str] = set()
    for event in events:
        kind, request_id = event["kind"], event.get("requestId", "")
        if event.get("type") == "downloadBegun":
            downloads.add(str(event.get("url")))
            continue
        if kind == "request" and str(event.get("url")).endswith("/favicon.ico"):
            continue  # the browser's own wish, not the app's
        if kind == "request":
            if request_id in found:  # a redirect: what sent the request stands for itself
                hops.append(found.pop(request_id))
            found[request_id] = DigestExchange(
                request_id,
                event.get("method") or "GET",
                event.get("url") or "",
                event.get("resourceType") or "",
                event["seq"],
                sent_at(event["ts"], event.get("wallTime")),
                post_data=event.get("postDataPreview") or "",
                ids=frozenset(ids_of(event.get("headers") or {})),
            )
            continue
        known = found.get(request_id)
        if known is None:
            continue
        if kind == "response":
            known.status = event.get("status") or 0
            # A page that does not read a body never hears of its end; how long it waited counts.
            known.ended_at = event["ts"]
            known.mime_type = event.get("mimeType") or ""
            known.ids |= ids_of(event.get("headers") or {})
        elif kind == "loadingFailed":
            known.ended_at = event["ts"]
            if known.status >= 400:
                continue  # a script that is not there is cancelled then: its status says more
            # What the page itself gave up is no failure of anybody's.
            known.error = CANCELLED if event.get("canceled") else event.get("errorText") or ""
        elif kind == "loadingFinished":
            known.ended_at = event["ts"]
    whole = sorted((*hops, *found.values()), key=lambda e: e.seq)
    for exchange in whole:
        if exchange.error == CANCELLED and exchange.url in downloads:
            exchange.error, exchange.is_download = "", True  # the browser took it from the page
    return whole


def console_lines(
    events: Iterable[Mapping[str, Any]], levels: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return console lines, log entries and exceptions, of these levels or of all but debug."""
    return [
        dict(event)
        for event in events
        if event["kind"] in ("console", "log")
        # A failed request is listed as a request.
        and event.get("source") != "network"
        and (event.get("type") in levels if levels else event.get("type") != "debug")
    ]


def short_url(url: str, base: str = "") -> str:
    """Return a URL without the app's own origin, cut."""
    if base and url.startswith(base):
        url = url[len(base) :] or "/"
    if url.startswith("data:"):
        url = url[:40] + "…"
    return url if len(url) <= MOST_CHARACTERS else url[: MOST_CHARACTERS - 1] + "…"


def path_of(url: str) -> str:
    """Return the path of a URL, without its query; the URL itself where it has none."""
    try:
        return urlsplit(url).path or "/"
    except ValueError:
        return url


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    return one_line(text, most)


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


@dataclass(slots=True)
class DomChanges:
    """Changes in the document, as the page's own watcher counted them."""

    added: int = 0
    removed: int = 0
    changed: int = 0
    texts: list[str] = field(default_factory=list)
    password: bool | None = None
    """True if a password field was typed into; None where a frame may have one."""
    aim: dict[str, Any] | None = None
    """The elements that took the pointer's events, if the page was asked to notice
    (e2e/browser/elements/landing.py)."""
    earlier: DomChanges | None = None
    """Changes before the step began, if there were any."""
    value: str | None = None
    """Value of the field that was typed into or chosen from; None of a password, and where the
    page cannot tell."""
    chooser: bool = False
    """True if a file field of the document was clicked, which opens a file chooser."""

    def joined(self, later: DomChanges | None) -> DomChanges:
        """Return these and what changed after them, as one."""
        if later is None:
            return self
        return DomChanges(
            self.added + later.added,
            self.removed + later.removed,
            self.changed + later.changed,
            [*self.texts, *later.texts],
            self.password or later.password,
            earlier=self.earlier or later.earlier,
            value=self.value if later.value is None else later.value,
            chooser=self.chooser or later.chooser,
        )

    def line(self) -> str:
        counts = ", ".join(
            f"{count} {name}"
            for count, name in (
                (self.added, "added"),
                (self.removed, "removed"),
                (self.changed, "changed"),
            )
            if count
        )
        texts = " | ".join(cut(text, 80) for text in self.texts[:3] if text.strip())
        return f"{counts}: {texts}" if counts and texts else counts


@dataclass(frozen=True, slots=True)
class Digest:
    """The effects of one step so far."""

    requests: list[str]
    console: list[str]


def digest(events: Sequence[Mapping[str, Any]], base: str) -> Digest:
    """Return the requests and console lines worth showing; what is left out is counted."""
    all_requests = exchanges(events)
    told = [e for e in all_requests if e.failed or e.kind not in _QUIET_TYPES]
    quiet = len(all_requests) - len(told)
    requests = [e.line(base) for e in _first(told)]
    if len(told) > MOST_LINES:
        requests.append(f"and {len(told) - MOST_LINES} more")
    if quiet:
        requests.append(f"{quiet} static file{'s' if quiet > 1 else ''} loaded")
    return Digest(requests, _console(console_lines(events)))


def noteworthy(events: Sequence[Mapping[str, Any]], base: str) -> list[str]:
    """Return what came after an answer and should be known: errors and failed requests only."""
    failed = [e.line(base) for e in exchanges(events) if e.failed and e.error != CANCELLED]
    return [*failed[:3], *_console(console_lines(events, ("error", "warn")))[:3]]


def _first(told: list[DigestExchange]) -> list[DigestExchange]:
    """Return the first of them: failures, then the others in order."""
    return sorted(told, key=lambda e: (not e.failed, e.seq))[:MOST_LINES]


def _console(lines: list[dict[str, Any]]) -> list[str]:
    ranked = sorted(lines, key=lambda e: (_RANK.get(str(e.get("type")), 2), e["seq"]))
    shown = [f"{e.get('type')}: {cut(_located(e))}" for e in ranked[:MOST_LINES]]
    if len(ranked) > MOST_LINES:
        shown.append(f"and {len(ranked) - MOST_LINES} more")
    return shown


def _located(event: Mapping[str, Any]) -> str:
    """Return a line's text; its place in the sources, if known, stands for served positions."""
    text = str(event.get("text", ""))
    place = (event.get("stack") or {}).get("original")
    if not place:
        return text
    name = f"{place['name']}, " if place.get("name") else ""
    return f"{_FRAMES.sub('', text)} ({name}{place['source']}:{place['line']})"


_RANK = {"error": 0, "warn": 1}
_FRAMES = re.compile(r"\n    at [^\n]*")

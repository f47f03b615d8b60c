"""Gathers evidence at the moment a step fails, all of it at once and within a deadline.

Whatever cannot be had is named in `missing`; it never hides the error itself.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pilothouse.core.timeline.clock import iso
from pilothouse.core.timeline.lanes import line_of
from pilothouse.e2e.app_server.logs.reader import since, tail
from pilothouse.e2e.browser.elements.candidates import candidates
from pilothouse.e2e.browser.page_scripts import HIT_TEST, OVERLAY_TEXT
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.browser.screenshots import FAILURE, capture, thumbnail
from pilothouse.e2e.failure.causes import Evidence
from pilothouse.e2e.failure.digest import SLOW_MS, console_lines, cut, exchanges, short_url
from pilothouse.e2e.failure.symptoms import (
    Nearness,
    Scene,
    acting_before,
    complaints,
    solicited,
    symptoms,
    untimed,
)
from pilothouse.e2e.model import LogFileNotFound, LogReadFailed
from pilothouse.e2e.session import LOG_LINES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from pilothouse.core.timeline.timeline import Moment
    from pilothouse.e2e.browser.errors import Trouble
    from pilothouse.e2e.failure.digest import DigestExchange
    from pilothouse.e2e.session import E2eSession
    from pilothouse.e2e.step import Step
    from pilothouse.e2e.tab import Tab

WITHIN_S = 1.0
"""Seconds after which evidence is left out. A page that can answer does so within a tenth of it; a
machine under load should cost an agent a moment rather than its evidence."""
SILENT_S = 1.0
"""Seconds after that in which a page that is merely slow answers something."""
BEFORE_MS = 2_000
BODIES = 3
_REPORTED = frozenset(
    {
        "StepFinished",
        "ServerLogged",
        "ConsoleLogged",
        "EntryLogged",
        "RequestSent",
        "ResponseReceived",
        "LoadingFailed",
        "BrowserNoted",
    }
)
"""Events that say something about why a step failed."""
_MASKED = (
    *("snapshot", "baseline", "overlay", "hit", "refusals", "missing"),
    *("server_lines", "stdout_lines"),
)
"""Fields of the evidence that are masked when all of it is there."""


async def gather(
    session: E2eSession,
    tab: Tab,
    step: Step,
    trouble: Trouble,
    *,
    pictured: bool = True,
    shown: bool = True,
) -> Evidence:
    """Return all that can be found of a failure; `pictured` and `shown` ask for its pictures."""
    evidence = Evidence(trouble, selector=trouble.sought or step.selector, baseline=tab.baseline)
    everything = tab.events(0)
    events = [event for event in everything if event["seq"] >= tab.shown_seq]
    alive = not (tab.crashed or tab.dialog or tab.page.is_closed() or session.browser_gone())
    alive = alive and trouble.kind != "busy"  # it would not answer
    # The picture first: it is what takes longest, and what changes soonest.
    if alive:
        _, *answers = await asyncio.gather(
            _pictures(session, tab, step, evidence, pictured=pictured, shown=shown),
            _within(_snapshot(session, tab, evidence), "snapshot", evidence),
            _within(_overlay(tab, evidence), "overlay", evidence),
            _within(_hit(tab, step, evidence), "element", evidence),
            _within(_requests(tab, events, step, evidence), "bodies", evidence),
            _within(_console(tab, events, evidence), "console", evidence),
        )
        evidence.is_silent = not any(answers[:2]) and not await _answers(tab)
    else:
        evidence.missing.append("screenshot and snapshot: the page does not answer")
        await _within(_console(tab, events, evidence), "console", evidence)
        evidence.is_silent = trouble.kind == "busy"
    if (evidence.is_silent or trouble.kind == "timeout") and not tab.is_busy:
        evidence.awaited = _awaited(tab, step)
    tab.is_busy = evidence.is_silent and not evidence.awaited
    _server(session, step, evidence)
    _symptoms(session, tab, step, everything, evidence)
    tab.shown_seq = tab.next_seq
    session.dossier_at = step.ended_at
    if session.proxy is not None:
        # What an earlier document was refused says nothing about this one.
        begin = max(step.began_at - BEFORE_MS, tab.document_since)
        evidence.refusals = [
            f"{refusal.url or refusal.host} ({refusal.reason})"
            for refusal in session.proxy.refusals
            if refusal.at >= begin
        ]
    around = session.timeline.around(step.ended_at, before=BEFORE_MS, after=0)
    evidence.moments = [line for moment in around[-60:] if (line := _line(session, moment, step))]
    # Before anything is cut: half of a secret would not be known as one.
    for name in _MASKED:
        setattr(evidence, name, session.mask(getattr(evidence, name)))
    return evidence


async def _within(work: Awaitable[None], name: str, evidence: Evidence) -> bool:
    """Wait for some evidence; tell whether there was an answer in time, be it a refusal."""
    try:
        async with asyncio.timeout(WITHIN_S):
            await work
    except TimeoutError:
        evidence.missing.append(f"{name}: the page did not give it in time")
        return False
    except Exception as error:
        if not error_name(error) and not isinstance(error, OSError):
            raise
        evidence.missing.append(f"{name}: {cut(str(error), 80)}")
    return True


async def _answers(tab: Tab) -> bool:
    """Tell whether the page answers at all; to be asked only where it has not so far."""
    try:
        async with asyncio.timeout(SILENT_S):
            await tab.page.evaluate("0")
    except TimeoutError:
        return False
    except Exception as error:
        if not error_name(error):
            raise
    return True


def _awaited(tab: Tab, step: Step) -> DigestExchange | None:
    """Return the request for the tab's next page, if its server has not answered it.

    While there is one, Playwright asks the page that is still there for nothing.
    """
    # A page that another step asked for may have been on its way since long before.
    since_seq = step.first_seq if step.tool in ("navigate", "goBack") else 0
    documents = [e for e in exchanges(tab.events(since_seq)) if e.kind == "Document"]
    newest = documents[-1] if documents else None
    return newest if newest and not (newest.ended_at or newest.status) else None


async def _pictures(
    session: E2eSession, tab: Tab, step: Step, evidence: Evidence, *, pictured: bool, shown: bool
) -> None:
    if pictured and not await _within(
        _screenshot(session, tab, step, evidence), "screenshot", evidence
    ):
        return
    if shown:
        await _within(_thumbnail(tab, evidence), "image", evidence)


async def _screenshot(session: E2eSession, tab: Tab, step: Step, evidence: Evidence) -> None:
    name = FAILURE.format(step.number)
    path = session.save(name, await capture(tab))
    evidence.screenshot = {
        "uri": session.uri(name),
        "path": str(path),
        "capturedAt": iso(session.clock()),
    }


async def _thumbnail(tab: Tab, evidence: Evidence) -> None:
    # In the session that is there: to leave one of its own would cost bodies (decision 20).
    if tab.recording is not None:
        evidence.thumbnail = await thumbnail(tab.recording.ask)


async def _snapshot(session: E2eSession, tab: Tab, evidence: Evidence) -> None:
    if evidence.trouble.kind == "ambiguous" and evidence.selector:
        lines = session.mask(await candidates(tab, evidence.selector))
        evidence.trouble = replace(evidence.trouble, candidates=tuple(lines))
    evidence.snapshot = await tab.page.aria_snapshot(mode="ai")


async def _overlay(tab: Tab, evidence: Evidence) -> None:
    said = await tab.page.evaluate(OVERLAY_TEXT)
    if isinstance(said, list):
        evidence.overlay = str(said[1])


async def _hit(tab: Tab, step: Step, evidence: Evidence) -> None:
    if evidence.trouble.kind != "timeout" or not step.selector:
        return
    locator = tab.locator(step.selector).first
    if await locator.count():
        evidence.hit = await locator.evaluate(HIT_TEST, timeout=WITHIN_S * 1000)


async def _console(tab: Tab, events: list[dict[str, Any]], evidence: Evidence) -> None:
    errors = console_lines(events, ("error",))[::-1][:12]
    evidence.console = errors
    if tab.recording is not None:
        evidence.console = await tab.recording.mapped(errors)


async def _requests(tab: Tab, events: list[dict[str, Any]], step: Step, evidence: Evidence) -> None:
    told = [
        e
        for e in exchanges(events)
        if (e.failed and e.error != "cancelled")
        or e.took >= SLOW_MS
        or (not e.ended_at and not e.status and step.ended_at - e.at >= SLOW_MS)
    ]
    told.sort(key=lambda e: -e.seq)
    evidence.requests = [(exchange, "") for exchange in told]
    bodies = await asyncio.gather(*(_body(tab, exchange) for exchange in told[:BODIES]))
    evidence.requests[:BODIES] = list(zip(told, bodies, strict=False))


async def _body(tab: Tab, exchange: DigestExchange) -> str:
    if tab.recording is None or exchange.error:
        return ""
    return (await tab.recording.body(exchange.request_id))[:2_000]


def _symptoms(
    session: E2eSession, tab: Tab, step: Step, events: list[dict[str, Any]], evidence: Evidence
) -> None:
    """Add what went wrong to the evidence, by how near it is to the step, requests included."""
    acting = acting_before(session.steps, step)
    written = [event for event in session.server_lines if event.at <= step.ended_at]
    scene = Scene(
        events,
        tab.shown_seq,
        [*complaints(written), *untimed(evidence.untimed_lines)],
        session.dossier_at,
        acting[-1] if acting else None,
        solicited(acting),
        {event["seq"]: event for event in evidence.console},
    )
    # Before anything is cut: half of a secret would not be known as one.
    evidence.symptoms = [
        replace(one, text=session.mask(one.text)) for one in symptoms(scene, session.base)
    ]
    if any(one.nearness is Nearness.LEFT for one in evidence.symptoms):
        page = short_url(session.mask(tab.url), session.base)
        evidence.led_to = f"{acting[-1].name} led to another page, {page}"


def _server(session: E2eSession, step: Step, evidence: Evidence) -> None:
    # Up to now: what the step made a server write may be read a moment after its end.
    errors = list(session.server_errors)
    before = [event.line for event in errors if event.at < step.began_at]
    during = [event.line for event in errors if event.at >= step.began_at]
    for older, newer in _foreign_lines(session, step):
        before, during = [*older, *before], [*newer, *during]
    evidence.has_log = any(server.info.logs.stderr for server in session.servers)
    evidence.server_lines = [*before, *during][-LOG_LINES:]
    evidence.since_step = min(len(during), LOG_LINES)
    begin = step.began_at - BEFORE_MS
    written = [event for event in session.server_lines if begin < event.at <= step.ended_at]
    said = [event.line for event in written if event.stream == "stdout"]
    evidence.stdout_lines = said[-LOG_LINES:]
    evidence.untimed_lines = tails(session)
    for server in session.servers:
        if server.exit_code is not None:
            evidence.server_exit = {"type": "server_exited", "exitCode": server.exit_code}


def _foreign_lines(session: E2eSession, step: Step) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the newest lines of each log that a server writes itself: before the step, since it."""
    for path in session.foreign_logs:
        with suppress(LogFileNotFound, LogReadFailed):
            lines = tail(path, LOG_LINES, within=session.log_folders).text.splitlines()
            known = step.log_sizes.get(str(path), 0)
            new = since(path, known, within=session.log_folders).text.splitlines()
            split = max(0, len(lines) - len(new))
            yield lines[:split], lines[split:]


def tails(session: E2eSession) -> list[str]:
    """Return what no dossier has shown yet of the logs that servers write themselves."""
    lines: list[str] = []
    began = time.monotonic()
    for path in session.foreign_logs:
        if time.monotonic() - began > WITHIN_S:
            break
        with suppress(LogFileNotFound, LogReadFailed):
            known = session.log_ends.get(str(path), 0)
            new = since(path, known, within=session.log_folders)
            session.log_ends[str(path)] = new.offset
            lines += new.text.splitlines()
    return lines[-LOG_LINES:]


def _line(session: E2eSession, moment: Moment, step: Step) -> str:
    """Return a moment of the timeline in a few words, with the time before the failure."""
    event = moment.event
    if event.name not in _REPORTED:
        return ""
    ago = f"{(event.at - step.ended_at) / 1000:+.1f} s"
    return f"{ago} {cut(session.mask(line_of(event.name, event.facts())), 160)}"

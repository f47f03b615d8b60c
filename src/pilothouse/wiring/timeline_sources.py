"""What the timeline group asks of the rest of Pilothouse.

The agent's timeline, what of it belongs to one browser session, and when an element goes from a
page.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from pilothouse.core.timeline.lanes import OWNER_CHARACTERS, TAB
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.model import BrowserCrashed, TabNotFound
from pilothouse.e2e.model import SessionNotFound as NoSession
from pilothouse.e2e.ports import Sessions
from pilothouse.timeline.model import BadWatch, BrowserSessionNotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.core.timeline.timeline import Moment
    from pilothouse.e2e.session import E2eSession
    from pilothouse.e2e.tab import Tab
    from pilothouse.server.session import Session

ANSWERS_S = 5.0
"""Seconds that a page has to show that it understands a selector; a busier one is not asked."""


class SessionMoments:
    """Implements the timeline's `Moments` and `Vanishing` for one agent."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.timeline = session.timeline
        self.clock = session.clock

    def mask(self, text: str) -> str:
        return self._session.redactor.text(text)

    def scope(self, session_id: str | None) -> SessionScope | None:
        if session_id is None:
            return None
        own = [
            moment.event
            for moment in self.timeline
            if getattr(moment.event, "session_id", "") == session_id
        ]
        live: E2eSession | None = None
        # One that has ended still has its events.
        with suppress(BrowserSessionNotFound):
            live = self._find(session_id)
            live.touch()
        if live is None and not own:
            raise BrowserSessionNotFound(
                f"no session {session_id[:80]!r} is or was open here",
                hint="leave sessionId out for everything, or call startSession first",
                sessionId=session_id[:80],
            )
        stepped_in = {str(getattr(event, "target_id", ""))[:OWNER_CHARACTERS] for event in own}
        return SessionScope(session_id, stepped_in - {""}, live)

    def _find(self, session_id: str | None) -> E2eSession:
        sessions: Sessions | None = self._session.opened(Sessions)
        if sessions is None:
            raise BrowserSessionNotFound("there is no session", hint="call startSession first")
        try:
            return sessions.find(session_id)
        except (NoSession, BrowserCrashed) as fault:
            raise BrowserSessionNotFound(fault.message, hint=fault.hint, **fault.details) from None

    async def gone(self, session_id: str | None, selector: str) -> AsyncIterator[str]:
        try:
            tab = self._find(session_id).tab(None)
        except TabNotFound as fault:
            raise BrowserSessionNotFound(fault.message, hint=fault.hint) from None
        try:
            async with asyncio.timeout(ANSWERS_S):
                await tab.locator(selector).count()
        except TimeoutError:
            pass  # a dialog is open, say: it is waited for all the same
        except Exception as error:
            if not error_name(error):
                raise
            raise BadWatch(
                f"when: {selector[:80]!r} is no selector that the page understands",
                hint="pass a CSS selector, as click takes it",
                expected="a CSS selector",
                received=selector[:80],
            ) from None
        return _goings(tab, selector)


class SessionScope:
    """Implements the timeline's `Scope`."""

    def __init__(self, session_id: str, stepped_in: set[str], live: E2eSession | None) -> None:
        self._id = session_id
        self._stepped_in = stepped_in
        self._live = live

    @property
    def is_over(self) -> bool:
        return self._live is None

    def has(self, moment: Moment) -> bool:
        if moment.source.startswith(TAB):
            owner = moment.source.removeprefix(TAB)
            return owner in self._stepped_in or self._is_open(owner)
        # Packets are the agent's: which of its browsers sent one is known by its exchange alone.
        return moment.event.name == "PacketRecorded" or (
            getattr(moment.event, "session_id", "") == self._id
        )

    def _is_open(self, owner: str) -> bool:
        tabs = self._live.tabs.values() if self._live is not None else ()
        return any(tab.target_id.startswith(owner) for tab in tabs)


async def _goings(tab: Tab, selector: str) -> AsyncIterator[str]:
    """Yield the page's address for each time that an element was to be seen and is no more."""
    element = tab.locator(selector).first
    while not tab.page.is_closed():
        try:
            await element.wait_for(state="visible", timeout=0)
            await element.wait_for(state="hidden", timeout=0)
            # Between two documents nothing is to be seen: what the next one has is not gone.
            await tab.page.wait_for_load_state("load", timeout=0)
            is_gone = not await element.is_visible()
        except Exception as error:
            if not error_name(error):
                raise
            return  # the tab or its browser has gone
        if is_gone:
            yield tab.url

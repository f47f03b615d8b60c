"""One tab of a session: its page, its recording, and what interrupts a step in it."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pilothouse.e2e.browser.elements.selectors import for_playwright
from pilothouse.e2e.browser.errors import ref_of
from pilothouse.e2e.browser.page_scripts import READ_CHANGES, READ_FRAME, REST
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.failure.digest import DomChanges

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.e2e.browser.playwright import CDPSession, Dialog, Frame, Locator, Page, Response
    from pilothouse.e2e.ports import Recording
    from pilothouse.e2e.step import Step

    type WaitUntil = Literal["load", "domcontentloaded", "networkidle"]

GONE_S = 0.3
"""Seconds in which a page that has gone fails its steps, unless they were done already."""
CHANGES_S = 1.0
"""Seconds after which a silent page is busy; its changes are reported with the next answer."""
FRAME_S = 0.5
"""The same of a frame of another origin."""
REST_S = 1.0
"""Seconds after which a page whose timers have not run is busy, or they wait for a dialog."""
STOP_S = 1.0
"""Seconds for a page to be stopped, on its way or come; then it is left for the next one."""
TRIES = 2
"""Number of times that a navigation is begun anew which another one interrupted."""
TITLE_FRESH_S = 0.05
"""Seconds for which a title that was asked for before a page is loaded is its title still."""

_COUNTS = ("added", "removed", "changed")


class Interrupted(Exception):  # not an error: something else came first
    """A dialog opened, or the tab went away, before the step was done."""


class Missed(Exception):  # not an error of ours: something else was under the pointer
    """Another element took the event of a step; it is named by the message."""


class NotBuilt(Exception):  # not an error of ours: the app's source has one
    """The edit that was waited for does not compile; the message is the compiler's."""


class RefGone(Exception):  # not an error of ours: the page has changed
    """The element of this ref has gone, and the ref with it: no other will ever have it."""


@contextmanager
def suppress_interrupted() -> Iterator[None]:
    """Pass over the failure of a navigation that another one came before."""
    try:
        yield
    except Exception as error:
        if not error_name(error) or "interrupted by another navigation" not in str(error):
            raise


@dataclass(eq=False)
class Tab:
    """A tab, whose `id` is short, stable and never used twice in a session."""

    id: str
    page: Page
    clock: Clock
    target_id: str = ""
    recording: Recording | None = None
    own: bool = False
    """True if it was opened by us, not by the app."""
    in_any_frame: set[str] = field(default_factory=set)
    """Selectors of the newest step that are looked for in frames, too
    (e2e/browser/elements/frames.py)."""
    opener: str = ""
    """The tab whose popup this is."""
    opening: asyncio.Future[None] | None = None
    """The session's own opening of the app's page, in its first tab."""
    dialog: Dialog | None = None
    crashed: bool = False
    is_busy: bool = False
    """True while a script keeps the document from answering anything, as far as is known."""
    navigations: int = 0
    step: Step | None = None
    """The step under way, or the newest one."""
    step_began_at: float = 0
    """Time when the newest step in this tab began."""
    failure_reported_at: float = 0
    """Time when a dossier last showed the document as it was then."""
    document_since: float = 0
    """Time when the step began in or after which the tab got the document that it shows."""
    reported_seq: int = 0
    """Seq before which everything that was recorded has been reported to the agent."""
    hot_seq: int = 0
    """Seq before which hot updates that were recorded have been waited for."""
    shown_seq: int = 0
    """Seq before which every error that was recorded has been in a dossier."""
    baseline: str = ""
    """The accessibility snapshot after the last good step."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock for one step at a time; a second call waits for the first."""
    held_up: tuple[Step, asyncio.Future[Any]] | None = None
    """The step that a dialog interrupted: it goes on when the dialog is answered."""
    unfinished: bool = False
    """True if handlers of the last step set timers that had not run when it answered."""
    _page_ahead: float = 0.0
    """Milliseconds by which the page's clock is ahead of ours, as far as answers tell."""
    unreported: DomChanges | None = None
    """Changes of a step whose answer had no place for them."""
    _reported: DomChanges | None = None
    _cdp: CDPSession | None = None
    _stirred: asyncio.Future[None] | None = None
    """Future of the step under way: done when something interrupts it."""

    @property
    def url(self) -> str:
        return self.page.url

    @property
    def next_seq(self) -> int:
        return self.recording.next_seq if self.recording else 0

    def events(self, since: int) -> list[dict[str, Any]]:
        return self.recording.since(since) if self.recording else []

    def renew(self, page: Page) -> None:
        """Live on in another page; what was recorded of the old one is not of this one."""
        self.page, self.recording, self._cdp = page, None, None
        self.dialog, self.crashed, self.is_busy = None, False, False
        self.reported_seq = self.hot_seq = self.shown_seq = 0
        self.baseline, self.unreported, self.unfinished = "", None, False

    def interrupt(self) -> None:
        """Wake whoever waits for a step: a dialog has opened, or the page is gone."""
        if self._stirred is not None:
            _wake(self._stirred)

    async def go(self, url: str, wait_until: WaitUntil, limit_ms: float) -> Response | None:
        """Navigate, and return the main document's response."""
        goto = partial(self.page.goto, url, wait_until=wait_until, timeout=limit_ms)
        is_opening = self.opening is not None and not self.opening.done()
        for _ in range(TRIES if is_opening else 0):
            # The session's own page, when it comes just now, interrupts the one that is asked for.
            await self._stop_loading()
            with suppress_interrupted():
                return await goto()
        return await goto()

    async def _stop_loading(self) -> None:
        if self.recording is not None and self.opening is not None:
            with suppress(OSError):
                await self.recording.ask("Page.stopLoading", {})
            await asyncio.wait((self.opening,), timeout=STOP_S)

    def locator(self, selector: str) -> Locator:
        """Return the locator of CSS, a Playwright selector, `label=`, `placeholder=`, or a ref."""
        ref = ref_of(selector)
        if ref:
            return self.page.get_by_ref(ref)
        scope = self.page.frame_locator() if selector in self.in_any_frame else self.page
        return scope.locator(for_playwright(selector))

    def keep(self, cdp: CDPSession) -> None:
        """Take over a DevTools session that is open anyway."""
        self._cdp = cdp

    async def cdp(self) -> CDPSession | None:
        """Return a DevTools session of our own, which only Chromium has. It is opened when it is
        needed: each one that is open makes every document cost more."""
        if self._cdp is None and self.target_id:
            self._cdp = await self.page.context.new_cdp_session(self.page)
        return self._cdp

    async def race[T](self, doing: Coroutine[Any, Any, T], step: Step) -> T:
        """Return a step's value, unless something interrupts it.

        Raises:
            Interrupted: the step may still be under way in the browser; its end is not waited for.
        """
        loop = asyncio.get_running_loop()
        self._stirred = stirred = loop.create_future()
        # Begun at once: its first message to the browser need not wait for a turn of the loop.
        task = asyncio.Task(doing, loop=loop, eager_start=True)
        task.add_done_callback(lambda _: _wake(stirred))
        try:
            await stirred
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done() and self.dialog is None:
            await asyncio.wait((task,), timeout=GONE_S)
        if not task.done():
            # A click that opened a dialog ends when the dialog does; its outcome tells nothing.
            task.add_done_callback(_ignore)
            self.held_up = (step, task) if self.dialog is not None else None
            raise Interrupted
        return task.result()

    async def title(self) -> str:
        title = await self.recording.title() if self.recording else None
        return await self.page.title() if title is None else title

    @contextmanager
    def title_asked_early(self) -> Iterator[Callable[[], Awaitable[str]]]:
        """Ask for the title of a navigation when the document is parsed, so that it is known when
        that is loaded. What was asked long before is asked again."""
        asked: tuple[float, asyncio.Future[str]] | None = None

        def ask(_: object) -> None:
            nonlocal asked
            asked = (time.monotonic(), asyncio.ensure_future(self.title()))
            asked[1].add_done_callback(_ignore)

        async def title() -> str:
            if asked and time.monotonic() - asked[0] < TITLE_FRESH_S:
                return await asked[1]
            return await self.title()

        self.page.on("domcontentloaded", ask)
        try:
            yield title
        finally:
            self.page.remove_listener("domcontentloaded", ask)

    async def changes(self) -> DomChanges | None:
        """Return what changed in the document since the last time, if the page can say."""
        if self.dialog is not None or self.crashed:
            return None
        moments = self.moments_in_page
        asked = READ_CHANGES % moments
        asked_at = self.clock()
        try:
            async with asyncio.timeout(CHANGES_S):
                # The observer's way to the page is the shorter one, where there is one.
                said = await self.recording.value(asked) if self.recording else None
                if said is None:
                    said = await self.page.evaluate(asked)
        except TimeoutError:
            return None
        except Exception as error:
            if not error_name(error):
                raise
            return None  # it is navigating, or has gone
        told = self.read_changes(said, asked_at)
        if told is None or not said.get("frames"):
            return told
        return await self._with_frames(told, moments)

    async def all_changes(self, *, look: bool, keep: bool) -> DomChanges | None:
        """Return what changed since the last answer that had a place for it; `look` asks the page
        for the rest of it, and `keep` has the next answer tell it again."""
        changes = self.take_changes()
        if look:
            later = await self.changes()
            changes = changes.joined(later) if changes else later
        if self.unreported is not None:
            changes, self.unreported = self.unreported.joined(changes), None
        if keep:
            self.unreported = changes
        return changes

    async def _with_frames(self, told: DomChanges, moments: tuple[int, int]) -> DomChanges:
        """Add what changed in frames of other origins, which the page cannot look into."""

        async def ask(frame: Frame) -> DomChanges | None:
            try:
                async with asyncio.timeout(FRAME_S):
                    said = await frame.evaluate(READ_FRAME % moments)
                    return changes_of(said) if isinstance(said, dict) else None
            except TimeoutError:
                return None
            except Exception as error:
                if not error_name(error):
                    raise
                return None  # it is navigating, or has gone

        inner = await asyncio.gather(*(ask(frame) for frame in self.page.frames[1:]))
        password = told.password
        for each in inner:
            if each is not None:
                told = replace(told.joined(each), aim=told.aim)
        # Of a frame that did not answer it is not known whether it has a password.
        passwords = [each.password for each in inner if each is not None]
        known = len(passwords) == len(inner) and None not in passwords
        return replace(told, password=password or (any(passwords) if known else None))

    async def ask_before_leaving(self) -> None:
        """Learn whether a script keeps the document busy, which could then not be left.

        While a tab waits for its next page, the browser asks the old one nothing.
        """
        if self.recording is not None:
            self.is_busy = True
            await self.recording.value("1")
            self.is_busy = False

    async def answers(self, limit_s: float) -> bool:
        """Tell whether the page answers anything in time.

        The observer can ask it also while the tab waits for its next page; Playwright cannot.
        """
        try:
            async with asyncio.timeout(limit_s):
                if self.recording is None or await self.recording.value("1") is None:
                    await self.page.evaluate("1")
        except TimeoutError:
            return False
        except Exception as error:
            if not error_name(error):
                raise
        return True

    def keep_kind(self, selector: str, kind: str) -> None:
        """Keep what kind of field the step under way acts on."""
        if self.step is not None and self.step.target == selector:
            self.step.kind = kind

    @property
    def moments_in_page(self) -> tuple[int, int]:
        """Times of the last reported failure and the newest step's start, by the page's clock."""
        ahead = self._page_ahead
        return int(self.failure_reported_at + ahead), int(self.step_began_at + ahead)

    def read_changes(self, said: Any, asked_at: float) -> DomChanges | None:
        """Read what the page answered about its changes when it was asked at `asked_at`."""
        if not isinstance(said, dict):
            return None
        at = float(said["at"])
        self._page_ahead = min(0.0, at - asked_at) or max(0.0, at - self.clock())
        self.unfinished = bool(said.get("unfinished"))
        return changes_of(said)

    async def rest(self) -> None:
        """Wait for the short timers that the last step left in the page."""
        if not self.unfinished:
            return
        self.unfinished = False
        try:
            async with asyncio.timeout(REST_S):
                await self.page.evaluate(REST)
        except TimeoutError:
            return
        except Exception as error:
            if not error_name(error):
                raise  # else it is navigating, or has gone

    def keep_changes(self, told: DomChanges | None) -> None:
        """Keep the changes that a step has asked the page for itself."""
        self._reported = told

    def take_changes(self) -> DomChanges | None:
        told, self._reported = self._reported, None
        return told


def changes_of(said: dict[str, Any]) -> DomChanges:
    """Return the changes that the page's own watcher tells of."""
    texts = [str(text) for text in said.get("texts", ())]
    added, removed, changed = (int(said.get(name, 0)) for name in _COUNTS)
    password = None if said.get("frames") else bool(said.get("password"))
    return DomChanges(
        added,
        removed,
        changed,
        texts,
        password,
        said.get("aim"),
        changes_of(said["earlier"]) if said.get("earlier") else None,
        said.get("value"),
        bool(said.get("chooser")),
    )


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _ignore(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()

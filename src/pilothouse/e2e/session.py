"""One e2e session: its servers, its browser, its tabs, and the steps that were taken in it."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.faults import Fault
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.e2e.announcements import announced
from pilothouse.e2e.app_server.logs.reader import sizes
from pilothouse.e2e.browser.busy_pages import Busy, unless_busy
from pilothouse.e2e.browser.elements.cover import Covered
from pilothouse.e2e.browser.elements.frames import aim, is_stale
from pilothouse.e2e.browser.elements.test_locators import Locating
from pilothouse.e2e.browser.errors import ref_of
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.failure.digest import DomChanges, digest, noteworthy, origin
from pilothouse.e2e.model import (
    BrowserCrashed,
    BrowserNoted,
    FileNotAllowed,
    ServerLogged,
    SessionNotFound,
    StepFinished,
    TabNotFound,
    browser_crashed,
)
from pilothouse.e2e.session_files import SessionFiles
from pilothouse.e2e.session_log import log_browser, log_crash
from pilothouse.e2e.step import (
    LEAVING,
    LOOKING,
    Step,
    StepOutcome,
    dialog_facts,
    dialog_open,
    needs_rest,
    selectors_of,
)
from pilothouse.e2e.tab import Interrupted, Missed, NotBuilt, RefGone, Tab

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from pilothouse.core.net.url_policy import Address, Policy
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.core.timeline.timeline import Timeline
    from pilothouse.e2e.browser.playwright import Dialog, Download, DrivenBrowser, Page
    from pilothouse.e2e.browser.routes import BrowserRoutes
    from pilothouse.e2e.egress_proxy.proxy import FilteringProxy
    from pilothouse.e2e.model import EndReason
    from pilothouse.e2e.ports import AppServer, Entrance, TabRecorder

    type Explain = Callable[[E2eSession, Tab, Step, BaseException], Awaitable[BaseException]]

BASELINE_AFTER_S = 0.15
"""Seconds until a snapshot to compare with: the agent is thinking then, and does not act."""
STEPS_KEPT = 2_000
LOG_LINES = 100
"""Lines of stderr that a failed step shows, as the spec has it."""
CRASH = "browser_crashed"
"""The note of a session that ended with its browser."""
SAVED_S = 0.3
"""Seconds for a download; one that takes longer is reported before it is saved."""
MOST_REMEMBERED = 256
"""Characters of a text that is masked once and not each time: every step reports an address."""
OWN_TROUBLES = (Busy, Covered, Interrupted, Missed, NotBuilt, RefGone, TimeoutError)
"""Exceptions that end a step beside Playwright's own errors."""
VIDEOS = "unmasked-videos"
"""Folder in which videos are recorded."""
GONE_S = 0.25
"""Most seconds after its tabs until a browser that ends is known to be gone."""


@lru_cache(maxsize=1_024)
def _masked(redactor: Redactor, text: str) -> str:
    return str(redactor.value(text))


@dataclass(eq=False)
class E2eSession:
    """A session, in a state of the spec: CREATED, ACTIVE while a call runs, IDLE, TERMINATED."""

    id: str
    clock: Clock
    folder: Path
    """Private folder: logs, screenshots, downloads, exports."""
    timeline: Timeline
    """Timeline of its own events and tabs alone: an agent may have several sessions."""
    recorder: TabRecorder
    explain: Explain
    """Maker of the fault of a failed step, with its dossier."""
    servers: list[AppServer] = field(default_factory=list)
    server_names: list[str] = field(default_factory=list)
    """Names of the servers, in their order."""
    browser: DrivenBrowser | None = None
    proxy: FilteringProxy | None = None
    entrance: Entrance | None = None
    """Proxy that the browser speaks to: that of the session, or one that intercepts before it."""
    policy: Callable[[], Policy] | None = None
    origins: dict[str, tuple[Address, ...]] = field(default_factory=dict)
    """URLs that were judged to be its own servers', and where each led then."""
    claim: Callable[[str], Awaitable[None]] | None = None
    """Function that judges a server's URL and makes it the session's own; raises UrlNotAllowed."""
    url: str = ""
    log_folders: tuple[Path, ...] = ()
    file_roots: tuple[Path, ...] = ()
    records: frozenset[str] = frozenset()
    """Kinds of recordings from the start on: `trace`, `video`."""
    started_at: float = 0.0
    last_activity: float = 0.0
    running: int = 0
    ended: EndReason | None = None
    end_note: str = ""
    tabs: dict[str, Tab] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    notices: list[dict[str, Any]] = field(default_factory=list)
    """Notices to be given once, with the next answer."""
    downloads: list[dict[str, Any]] = field(default_factory=list)
    opened: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Tabs that there ever were: which one opened each, and when."""
    routes: BrowserRoutes | None = None
    """Rules for requests, once there was one."""
    server_errors: deque[ServerLogged] = field(default_factory=lambda: deque(maxlen=LOG_LINES))
    """The newest lines of stderr, which no flood of stdout drives out."""
    dossier_at: float = 0.0
    """Time up to which server lines have been shown."""
    log_ends: dict[str, int] = field(default_factory=dict)
    """Offsets up to which log files that others write have been shown."""
    idle_sec: int = 600
    redactor: Redactor = field(default_factory=Redactor)
    tracing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock that is held while a trace is written: the next one begins where it ends."""
    traces: set[asyncio.Task[Any]] = field(default_factory=set)
    """Traces being written, never cancelled: what the driver writes unmasked has to be removed."""
    traces_written: int = 0
    current: str = ""
    """The tab that tools act in when they name none; a popup never takes over."""

    def __post_init__(self) -> None:
        self._next_tab = 0
        self._next_step = 0
        self._own_pages = 0
        self._noted: list[tuple[float, str]] = []
        self._background: set[asyncio.Task[Any]] = set()
        self._news = asyncio.Event()
        self.locating = Locating()
        self.files = SessionFiles(self.folder, self.clock)
        self._baseline: asyncio.TimerHandle | None = None
        self._opening: dict[Page, asyncio.Task[Tab]] = {}

    # State

    @property
    def state(self) -> str:
        if self.ended is not None:
            return "TERMINATED"
        if self.running:
            return "ACTIVE"
        return "IDLE" if self.steps else "CREATED"

    @property
    def base(self) -> str:
        """The app's own origin, left out where URLs are shown."""
        return origin(self.url)

    @property
    def watched_at(self) -> float:
        """Time when a recording of this session was last read."""
        return max((t.recording.touched_at for t in self.tabs.values() if t.recording), default=0.0)

    def server_wrote(self, logged: ServerLogged) -> None:
        """Take a line of a server's output into the timeline."""
        self.timeline.emit(logged)
        if logged.stream == "stderr":
            self.server_errors.append(logged)

    @property
    def server_lines(self) -> list[ServerLogged]:
        """The newest lines that its servers wrote."""
        return [event for _, event in self.timeline.ring(ServerLogged.source)]

    @property
    def foreign_logs(self) -> list[Path]:
        """Logs of stderr that servers write themselves: their lines are not on the timeline."""
        paths = [Path(path) for server in self.servers if (path := server.info.logs.stderr)]
        return [path for path in paths if not path.is_relative_to(self.folder)]

    @property
    def failed_steps(self) -> dict[int, str]:
        """Steps that failed, by their numbers, in a few words."""
        failed = [step for step in self.steps if step.ended_at and not step.ok]
        return {step.number: f"{step.tool} {step.target}".strip() for step in failed}

    def touch(self) -> None:
        self.last_activity = self.clock()

    def note(self, what: str, detail: str, at: float | None = None) -> None:
        """Note something that the browser did by itself, for the next answer."""
        at = self.clock() if at is None else at
        self._noted.append((at, f"{what}: {detail}" if detail else what))
        self._news.set()
        self.timeline.emit(BrowserNoted(at=at, what=what, detail=detail, session_id=self.id))

    # Files

    def save(self, name: str, content: bytes) -> Path:
        """Keep a file of this session; only its owner may read it.

        Of pictures, and of all else that cannot be masked, the name says `unmasked`.
        """
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        self.files.keep(name)
        return path

    def uri(self, name: str) -> str:
        return f"e2e://artifact/{self.id}/{name}"

    def readable(self, path: str) -> Path:
        """Return the path of a file that this session may hand to a page.

        Raises:
            FileNotAllowed: it is outside of the session's folders, or no file.
        """
        if "\0" in path:
            raise FileNotAllowed(
                "no file has a NUL character in its name", hint="check the path", path=path
            )
        roots = [root.resolve() for root in self.file_roots]
        found = (roots[0] / path).resolve() if roots else self.folder / path
        if not any(found.is_relative_to(root) for root in roots):
            raise FileNotAllowed(
                f"{path} is outside of the folders of this session",
                hint=f"use a file in {roots[0]}, or add its folder to PILOTHOUSE_ROOTS"
                if roots
                else "",
                path=path,
            )
        if not os.path.isfile(found):  # which takes names that no system takes
            raise FileNotAllowed(f"there is no file {found}", hint="check the path", path=path)
        return found

    def mask(self, value: Any) -> Any:
        """Return a value as it may be shown."""
        if isinstance(value, str) and len(value) <= MOST_REMEMBERED:
            return _masked(self.redactor, value)
        return self.redactor.value(value) if value else value

    def keep_secret(self, text: str) -> None:
        """Make a text one that is masked wherever something is shown."""
        if text:
            self.redactor.teach(text)

    # Tabs

    async def adopt(self, page: Page, opener: str = "") -> Tab:
        """Make a page one of the session's tabs and record it."""
        waiting = self._opening.get(page)
        if waiting is None:
            waiting = asyncio.ensure_future(self._adopt(page, opener))
            self._opening[page] = waiting
        # Several may wait for it: whoever gives up must not end it for the others.
        return await asyncio.shield(waiting)

    async def wait_adopted(self, tab: Tab, at_most_s: float) -> None:
        """Wait until a tab that is just opening has its target id and is recorded."""
        if opening := self._opening.get(tab.page):
            await asyncio.wait((opening,), timeout=at_most_s)

    async def _adopt(self, page: Page, opener: str) -> Tab:
        self._next_tab += 1
        tab = Tab(f"t{self._next_tab}", page, self.clock, opener=opener)
        self.tabs[tab.id] = tab
        self.opened[tab.id] = (opener, self.clock())
        self.current = self.current or tab.id
        return await self._attach(tab, page)

    async def _attach(self, tab: Tab, page: Page) -> Tab:
        """Listen to what happens in the page of a tab, and record it."""
        page.on("dialog", lambda dialog: self._on_dialog(tab, dialog))
        page.on("download", lambda download: self._spawn(self._on_download(tab, download)))
        page.on("crash", lambda _: self._on_crash(tab))
        page.on("close", lambda _: self._on_close(tab, page))
        page.on("framenavigated", lambda frame: self._on_navigated(tab, frame))
        assert self.browser is not None
        tab.target_id, asked = await self.browser.target_id(page)
        if asked is not None and tab.opener:
            tab.keep(asked)  # it is recorded already, which leaving a session would disturb
        elif asked is not None:
            await asked.detach()
        if tab.target_id and self.browser.is_recorded:
            tab.recording = await self.recorder.record(
                self.id, tab.target_id, and_popups=not self.browser.is_users
            )
            self.timeline.adopt(f"tab {tab.id}", tab.recording.ring)
        return tab

    async def _revive(self, tab: Tab) -> None:
        """Give a tab that crashed another page: Playwright never uses the old one again."""
        assert self.browser is not None
        assert self.browser.context is not None
        old = tab.page
        self._own_pages += 1
        try:
            page = await self.browser.context.new_page()
            tab.renew(page)
            self._opening[page] = asyncio.ensure_future(self._attach(tab, page))
            await self._opening[page]
        finally:
            self._own_pages -= 1
        self._opening.pop(old, None)
        self._spawn(old.close())

    def on_page(self, page: Page) -> None:
        """Make a tab of a page that the app opened, and note that for the agent."""

        at = self.clock()

        async def take() -> None:
            opener = await page.opener()
            if page in self._opening or (opener is None and self._own_pages):
                return
            held = next((t.id for t in self.tabs.values() if t.page is opener), "")
            tab = await self.adopt(page, held)
            self.note("tab opened", f"{tab.id} by {held or 'the page'} ({page.url})", at)

        self._spawn(take())

    async def new_tab(self) -> Tab:
        """Open a tab of our own; unlike a popup it is news to nobody."""
        assert self.browser is not None
        assert self.browser.context is not None
        self._own_pages += 1
        try:
            tab = await self.adopt(await self.browser.context.new_page())
        finally:
            self._own_pages -= 1
        tab.own = True
        return tab

    def tab(self, tab_id: str | None) -> Tab:
        """Return a tab, by default the current one. Raises TabNotFound."""
        wanted = tab_id or self.current
        found = self.tabs.get(wanted)
        if found is None:
            open_now = ", ".join(self.tabs) or "none"
            raise TabNotFound(
                f"tab {wanted} {'is closed' if wanted in self.opened else 'never was'}"
                if wanted
                else "this session has no open tab",
                hint=f"call tabs to see what is open (now: {open_now}), or tabs with action new",
                tabId=wanted,
            )
        return found

    def _on_dialog(self, tab: Tab, dialog: Dialog) -> None:
        tab.dialog = dialog
        self.note("dialog", f"{dialog.type} in {tab.id}: {dialog.message}")
        tab.interrupt()

    def _on_crash(self, tab: Tab) -> None:
        tab.crashed = True
        self.note("tab crashed", tab.id)
        log_crash(self.id, "tab_crashed", tab=tab.id)
        tab.interrupt()

    def _on_close(self, tab: Tab, page: Page) -> None:
        if page is not tab.page:
            return  # the tab lives on in another
        if self.tabs.pop(tab.id, None) is not None and self.ended is None:
            self.note("tab closed", tab.id)
        self._opening.pop(tab.page, None)
        if self.current == tab.id:
            self.current = tab.opener if tab.opener in self.tabs else next(iter(self.tabs), "")
        tab.dialog = None
        tab.interrupt()

    def _on_navigated(self, tab: Tab, frame: Any) -> None:
        if frame == tab.page.main_frame:
            tab.navigations += 1
            tab.document_since = tab.step_began_at
            tab.dialog, tab.crashed, tab.is_busy = None, False, False

    async def _on_download(self, tab: Tab, download: Download) -> None:
        folder = self.folder / "downloads"
        folder.mkdir(mode=0o700, exist_ok=True)
        # The name is the page's; only its last part counts, and never twice.
        name = download.suggested_filename.replace("/", "_").replace("\\", "_").lstrip(".")
        path = folder / f"{len(self.downloads) + 1}-{name[:100] or 'file'}"
        entry = {"url": download.url, "name": name, "path": str(path), "tab": tab.id}
        self.downloads.append(entry)
        self.record("download", tab.id, name=name)
        at = self.clock()
        saving = asyncio.ensure_future(download.save_as(path))
        done, _ = await asyncio.wait((saving,), timeout=SAVED_S)
        if not done:
            self.note("download", f"{name} is being saved as {path}", at)
        try:
            await saving
        except Exception as error:
            entry["error"] = str(error).split("\n", 1)[0]
        saved = f"{name} saved as {path}" if "error" not in entry else f"{name} was not saved"
        self.note("download", saved, at if done else None)

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let work go on beside the session's calls; it ends with the session."""
        return self._spawn(work)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    # Steps

    def check_alive(self) -> None:
        """Check that the browser has not gone. Raises BrowserCrashed."""
        if self.browser is not None and self.browser.gone.is_set():
            raise browser_crashed(self.id)

    async def perform[T](
        self,
        tool: str,
        do: Callable[[Tab], Awaitable[T]],
        *,
        tab_id: str | None = None,
        target: str = "",
        args: dict[str, Any] | None = None,
        settle: float = 0,
        look: bool = True,
        tells: bool = True,
        within_ms: int | None = None,
    ) -> StepOutcome[T]:
        """Take a step and tell what it caused; a failure carries its dossier.

        `look=False` is for steps that cannot change the page, or that asked it themselves.
        `tells=False` keeps what happened for an answer that has a place for it.
        `within_ms` is for steps that a busy page must not hold up for longer.
        """
        tells = tells and tool not in LOOKING
        self.check_alive()
        tab = self.tab(tab_id)
        async with tab.turn:
            if needs_rest(tool, tab.step.tool if tab.step else ""):
                await tab.rest()
            if tab.dialog is not None:
                raise dialog_open(tab)
            self._forget_baseline_timer()
            if tab.crashed and tool == "navigate":
                await self._revive(tab)
            if tool in LEAVING and (tab.step is None or tab.step.ok):
                self._spawn(tab.ask_before_leaving())
            step = self._begin(tool, tab, target, args or {})
            earlier = noteworthy(tab.events(tab.reported_seq), self.base)
            navigations, value = tab.navigations, None
            await self.locating.before(step, tab)
            try:
                doing = self._aimed(tab, step, do)
                if within_ms is not None:
                    doing = unless_busy(tab, doing, within_ms, tool)
                value = await tab.race(doing, step)
            except Interrupted:
                if tab.dialog is None:  # the tab, the browser or the session has gone
                    if tab.page.is_closed():
                        await self.browser_went()
                    raise await self._failed(step, tab, Interrupted()) from None
                if step.looks:
                    # A dialog that such a step cannot have opened: it was not done.
                    self._end(step, tab, ok=False)
                    raise dialog_open(tab) from None
            except Exception as error:
                raise await self._failed(step, tab, error) from None
            if settle:
                await asyncio.sleep(settle / 1000)
            changes = await tab.all_changes(look=look, keep=not tells and not step.looks)
            return await self._done(
                step, tab, value, changes, earlier=earlier, navigations=navigations, tells=tells
            )

    async def answer_dialog[T](
        self, tab: Tab, args: dict[str, Any], answer: Callable[[], Awaitable[T]]
    ) -> StepOutcome[T]:
        """Take the step that answers a tab's dialog; what it held up goes on and is not waited for
        any longer than `answer` does."""
        async with tab.turn:
            step = self._begin("handleDialog", tab, "", args)
            earlier = noteworthy(tab.events(tab.reported_seq), self.base)
            navigations = tab.navigations
            try:
                value = await answer()
            except Exception as error:
                raise await self._failed(step, tab, error) from None
            asked, later = tab.take_changes(), await tab.changes()  # by what was held up, and now
            changes = asked.joined(later) if asked else later
            return await self._done(
                step, tab, value, changes, earlier=earlier, navigations=navigations, tells=True
            )

    async def _events_of(self, step: Step, tab: Tab) -> list[dict[str, Any]]:
        """Wait a moment for what is about to be known of a step, and return its events."""
        if step.looks:
            events = tab.events(step.first_seq)
        else:
            events = await announced(step, tab, self._news, lambda: self._noted)
        if tab.recording is not None and await tab.recording.explained():
            return tab.events(step.first_seq)
        return events

    async def _aimed[T](self, tab: Tab, step: Step, do: Callable[[Tab], Awaitable[T]]) -> T:
        """Take the step, unless its ref is stale: refs never come back, and waiting is no use.

        Raises:
            RefGone: it is.
        """
        if step.tool == "exists" or step.tool.startswith("wait"):
            return await do(tab)
        if ref_of(step.target) and await is_stale(tab, step.target):
            raise RefGone
        await aim(tab, selectors_of(step))
        if tab.in_any_frame and len(tab.page.frames) > 1:
            self.locating.ask_for(step, tab)  # the selector alone does not say in which frame
        return await do(tab)

    def lost(self) -> SessionNotFound | BrowserCrashed | None:
        """Return why a call under way cannot have been done, if browser or session are gone."""
        if self.ended is not None and self.end_note != CRASH:
            return SessionNotFound(
                f"session {self.id} ended while this call was under way",
                hint="call startSession for a new one",
                sessionId=self.id,
                reason=self.ended,
            )
        return browser_crashed(self.id) if self.browser_gone() else None

    async def browser_went(self) -> bool:
        """Tell whether the browser has ended, for a call whose tab is gone: that is known first."""
        if self.browser is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(GONE_S):
                    await self.browser.gone.wait()
        return self.browser_gone()

    def browser_gone(self) -> bool:
        return self.browser is None or self.browser.gone.is_set()

    def _begin(self, tool: str, tab: Tab, target: str, args: dict[str, Any]) -> Step:
        self._next_step += 1
        step = Step(self._next_step, tool, target, args, tab.id, self.clock(), tab.next_seq)
        step.log_sizes = sizes(self.foreign_logs)
        tab.step, tab.step_began_at = step, step.began_at
        self.steps.append(step)
        del self.steps[:-STEPS_KEPT]
        return step

    def record(self, tool: str, tab_id: str = "", **args: Any) -> None:
        """Keep what was done outside of a page, for the test that is written from the steps."""
        self._next_step += 1
        now = self.clock()
        step = Step(self._next_step, tool, "", args, tab_id, now, 0, ended_at=now, ok=True)
        self.steps.append(step)

    def _end(self, step: Step, tab: Tab, *, ok: bool) -> None:
        step.ended_at, step.ok, step.url = self.clock(), ok, tab.url
        step.navigations = tab.navigations
        log_browser(
            self.id,
            "step_finished" if ok else "step_failed",
            tool=step.tool,
            target=step.target,
            tab=tab.id,
            durationMs=round(step.ended_at - step.began_at, 1),
            url=step.url,
        )
        self.timeline.emit(
            StepFinished(
                at=step.ended_at,
                keys=frozenset((f"step:{step.number}",)),
                step=step.number,
                tool=step.tool,
                target=step.target,
                ok=ok,
                duration_ms=round(step.ended_at - step.began_at, 1),
                url=step.url,
                session_id=self.id,
                tab_id=tab.id,
                target_id=tab.target_id,
                looks=step.looks,
            )
        )

    async def _failed(self, step: Step, tab: Tab, error: BaseException) -> BaseException:
        fault = await self._fault(step, tab, error)
        step.fault = fault.code if isinstance(fault, Fault) else ""
        return fault

    async def _fault(self, step: Step, tab: Tab, error: BaseException) -> BaseException:
        self._end(step, tab, ok=False)
        tab.reported_seq = tab.next_seq  # the dossier tells it
        tab.failure_reported_at = step.ended_at
        if isinstance(error, asyncio.CancelledError):
            return error
        if error_name(error):
            log_browser(self.id, "playwright_failed", tool=step.tool, error=str(error))
        ours = isinstance(error, OWN_TROUBLES)
        if not (ours or error_name(error)):
            return error
        return self.lost() or await self.explain(self, tab, step, error)

    async def _done[T](
        self,
        step: Step,
        tab: Tab,
        value: T | None,
        changes: DomChanges | None,
        *,
        earlier: list[str],
        navigations: int,
        tells: bool,
    ) -> StepOutcome[T]:
        """Finish a step before which the tab had navigated so often and `earlier` had happened."""
        events = await self._events_of(step, tab)
        navigated = tab.navigations > navigations
        self._end(step, tab, ok=True)
        caused = digest(events, self.base)
        noted: list[str] = []
        if tells:
            tab.reported_seq = tab.next_seq
            # What came before the step is not of its making, nor what comes while one only looks.
            began = step.ended_at if step.looks else step.began_at
            earlier += self.mask([text for at, text in self._noted if at < began][:6])
            noted = [text for at, text in self._noted if at >= began]
            self._noted = []
        self._remember_later(tab)
        if changes is not None:
            changes.texts = self.mask(changes.texts)
            if changes.chooser:
                noted.append("file chooser opened: uploadFile gives the field its files")
            if tells and changes.earlier is not None:
                changes.earlier.texts = self.mask(changes.earlier.texts)
                earlier.append(f"dom: {changes.earlier.line()}")
        return StepOutcome(
            value=value,
            step=step.number,
            url=self.mask(tab.url),
            navigated=navigated,
            dom=changes,
            requests=caused.requests,
            console=caused.console,
            browser=self.mask(noted[:6]),
            earlier=earlier,
            notices=self.mask(self.take_notices()) if tells else [],
            dialog=self.mask(dialog_facts(tab)) if tab.dialog else None,
        )

    def take_notices(self) -> list[dict[str, Any]]:
        notices, self.notices = self.notices, []
        return notices

    # The snapshot to compare with when the next step fails

    def _remember_later(self, tab: Tab) -> None:
        loop = asyncio.get_running_loop()
        self._baseline = loop.call_later(BASELINE_AFTER_S, lambda: self._spawn(self._remember(tab)))

    async def _remember(self, tab: Tab) -> None:
        self.locating.ask()
        if tab.dialog is None and not tab.crashed and not tab.turn.locked():
            tab.baseline = await tab.page.aria_snapshot(mode="ai", timeout=2_000)
            log_browser(self.id, "state_remembered", tab=tab.id)

    def _forget_baseline_timer(self) -> None:
        if self._baseline is not None:
            self._baseline.cancel()
            self._baseline = None

    async def close(self) -> None:
        """End all tasks of this session; its browser and servers are the owner's to end."""
        self._forget_baseline_timer()
        self.locating.close()
        for task in list(self._background):
            task.cancel()
        for tab in list(self.tabs.values()):
            tab.interrupt()
            if self.browser is not None and self.browser.is_users and tab.own:
                with suppress(Exception):  # in a browser of the user's own we clean up after us
                    await tab.page.close()

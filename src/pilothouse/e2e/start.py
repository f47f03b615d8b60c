"""Brings up a session: its servers and its browser at the same time, then the first tab."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from pilothouse.core.net.url_policy import Host, Policy, loopback_only, target_of
from pilothouse.e2e.app_server.start import own_addresses, own_origins
from pilothouse.e2e.browser.flags import bypass_list, feature_flag, policy_flags, trust_flags
from pilothouse.e2e.browser.playwright import (
    BrowserLaunch,
    ContextOptions,
    error_name,
    launch_faults,
)
from pilothouse.e2e.egress_proxy.app_addresses import (
    addresses_of,
    judged_addresses,
    known_addresses,
)
from pilothouse.e2e.failure.evidence import tails
from pilothouse.e2e.model import BrowserLaunchFailed, BrowserNoted, ServerLogged, UrlNotAllowed
from pilothouse.e2e.session import VIDEOS
from pilothouse.e2e.session_log import LoggedSpawn, log_browser, log_crash, log_open_port
from pilothouse.machine.net.local_users import tells_callers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from pilothouse.core.net.url_policy import Address
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.settings import Settings
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.core.timeline.timeline import Timeline
    from pilothouse.e2e.app_server.start import Starter, StartRequest
    from pilothouse.e2e.browser.playwright import DrivenBrowser, PlaywrightDriver, SharePipe
    from pilothouse.e2e.ports import Entrance, Intercept, TabRecorder
    from pilothouse.e2e.session import E2eSession, Explain
    from pilothouse.e2e.tab import Tab

OPEN_S = 0.5
"""Most seconds that a start waits for the app's page to begin; nobody waits for its load."""
TAIL = 15
"""Lines of its log that are shown with a server's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeps:
    """Dependencies of sessions; handed in, because they are the rest of Pilothouse."""

    settings: Settings
    clock: Clock
    timeline: Timeline
    recorder: TabRecorder
    intercept: Intercept
    starter: Starter
    explain: Explain
    make_folder: Callable[[str], Path]
    why_swept: Callable[[str], str]
    """Function that says when and why a session's files were removed; empty if they were not."""
    state_folder: Callable[[], Path]
    """Folder in which saved logins outlive their sessions."""
    find_browser: Callable[[], str]
    """Path of the Chromium to start; empty leaves it to Playwright."""
    driver_environ: Callable[[], Mapping[str, str]]
    """All the variables of Playwright's driver."""
    share_pipe: SharePipe
    chromium_flags: tuple[str, ...]
    listeners: set[int]
    """Pilothouse's own ports, where no page has any business; ours are added to them."""
    redactor: Redactor
    client_roots: Callable[[], Awaitable[Iterable[Path]]]
    """Folders that the client works in: commands may run there too."""


class Builder:
    """Makes sessions ready; `held` are all that there are, those that start or end included."""

    def __init__(
        self, deps: SessionDeps, engine: PlaywrightDriver, held: Callable[[], Iterable[E2eSession]]
    ) -> None:
        self._deps = deps
        self._engine = engine
        self._held = held

    async def bring_up(
        self, session: E2eSession, request: StartRequest, report: Callable[[str], None]
    ) -> None:
        """Start servers and browser, and open the first tab.

        Raises ServerStartFailed, CommandNotAllowed, UrlNotAllowed, BrowserLaunchFailed."""
        deps = self._deps
        if request.browser == "webkit" and not tells_callers():
            raise BrowserLaunchFailed(
                "webkit cannot be used here: the system does not tell whose process connects to the"
                " session's proxy, and webkit would send the proxy's password to servers",
                hint="leave out `browser` for Chromium, or ask for firefox",
                browser="webkit",
            )
        if request.url:
            session.origins[request.url] = await judged_addresses(request.url, self.policy(session))
        if request.cdp:
            request = replace(request, cdp=await self._joined(request.cdp))
        roots = (*deps.starter.roots, *await deps.client_roots())
        spawn = LoggedSpawn(deps.starter.spawn, session.id)
        starter = replace(deps.starter, roots=roots, spawn=spawn)
        # No browser for what may not be started anyway.
        cwds = [starter.check(spec) for spec in request.services]
        _set_folders(session, starter, cwds)
        assert session.entrance is not None
        launching = asyncio.ensure_future(self._launch(session, request, session.entrance))
        try:
            await self._start_servers(session, starter, request, report)
            for server in session.servers:
                await self.claim(session, server.info.url)
            # Not cancelled with us: a browser that comes up later would belong to nobody.
            session.browser = await asyncio.shield(launching)
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(BrowserLaunchFailed):
                session.browser = await launching
            raise
        browser = session.browser
        options = _context_options(session, session.entrance, request)
        with launch_faults(request.browser):
            context = await browser.open_context(options)
            await deps.recorder.claim(
                session.id, browser.debug_port, browser.pipe, shared=browser.is_users
            )
            if "trace" in request.records:
                await context.tracing.start(screenshots=True, snapshots=True, sources=False)
            context.on("page", session.on_page)
            tab = await session.new_tab()
            session.current = tab.id
        log_browser(session.id, "browser_launched", browser=request.browser, tab=tab.id)
        if request.debug_port:
            log_open_port(session.id, browser.debug_port)
        if request.url:
            tab.opening = session.in_background(_open(session, tab, request.url))
            await asyncio.wait((tab.opening,), timeout=OPEN_S)

    async def claim(self, session: E2eSession, url: str) -> None:
        """Make what a command prints as its address the session's own, where it leads now.

        Raises UrlNotAllowed: it is neither this machine's nor one that a browser may visit."""
        if url in session.origins:
            return
        target, policy = target_of(url), self.policy(session, own=False)
        if target.host.is_localhost and target.port not in policy.blocked_ports:
            session.origins[url] = tuple(await addresses_of(target.host))
        else:
            session.origins[url] = await judged_addresses(url, policy)

    async def _find(self, session: E2eSession, url: str) -> tuple[Address, ...]:
        """Return where a session's own app may be asked whether it runs."""
        try:
            # One that led nowhere when the session began is judged each time.
            return session.origins[url] or await judged_addresses(url, self.policy(session))
        except UrlNotAllowed:
            return ()

    async def _joined(self, cdp: str) -> str:
        """Return where to join a browser: it must be this machine's, and not another agent's."""
        target = target_of(cdp)
        if target.port in self._deps.recorder.foreign_ports():
            raise BrowserLaunchFailed(
                f"port {target.port} belongs to another session's browser",
                hint="start a session of your own, without cdp",
                cdp=cdp,
            )
        if self._deps.settings.cdp_security_localonly:
            found = await known_addresses(target.host)
            verdict = loopback_only(target.host.name, found)
            if not verdict.allowed:
                raise BrowserLaunchFailed(verdict.reason, hint="use 127.0.0.1:9222", cdp=cdp)
            if not target.host.is_localhost:  # a name that could lead elsewhere the next time
                first = min(found, key=lambda address: address.version)
                return f"http://{Host(str(first), first)}:{target.port}"
        return cdp

    async def _launch(
        self, session: E2eSession, request: StartRequest, entrance: Entrance
    ) -> DrivenBrowser:
        flags: tuple[str, ...] = ()
        if request.browser == "chromium":
            flags = (
                *self._deps.chromium_flags,
                *([feature_flag()] if request.headless else []),
                *policy_flags(entrance.port),
                *trust_flags(entrance.trusted_key),
                *(["--remote-debugging-port=0"] if request.debug_port else []),
                "--enable-automation",
            )
        launch = BrowserLaunch(
            kind=request.browser,  # type: ignore[arg-type]
            executable=self._deps.find_browser() if request.browser == "chromium" else "",
            headless=request.headless,
            flags=flags,
            cdp=request.cdp,
            debug_port=request.debug_port,
            folder=session.folder,
        )
        return await self._engine.launch(launch, meanwhile=self._deps.recorder.prepare)

    async def _start_servers(
        self,
        session: E2eSession,
        starter: Starter,
        request: StartRequest,
        report: Callable[[str], None],
    ) -> None:
        deps = self._deps

        def on_line(service: str, stream: str, line: str) -> None:
            session.server_wrote(
                ServerLogged(
                    at=deps.clock(),
                    service=service,
                    stream="stderr" if stream == "stderr" else "stdout",
                    line=line,
                    session_id=session.id,
                )
            )

        def on_exit(service: str, code: int) -> None:
            self._server_ended(session, service, code)

        starts = [
            asyncio.ensure_future(starter.start(spec, session.folder, on_line, on_exit, report))
            for spec in request.services
        ]
        try:
            for start in asyncio.as_completed(starts):
                session.servers.append(await start)
        except BaseException:
            for task in starts:
                task.cancel()
            for outcome in await asyncio.gather(*starts, return_exceptions=True):
                if not isinstance(outcome, BaseException) and outcome not in session.servers:
                    session.servers.append(outcome)
            raise
        # In the order in which they were asked for: the first is the app's own address.
        session.servers = [start.result() for start in starts]
        session.server_names = [spec.name for spec in request.services]
        if request.url:
            find = partial(self._find, session, request.url)
            joined = starter.join(request.url, find, request.logs)
            if (await joined.health()).status == "stopped":
                report(f"nothing answers at {request.url} yet: start it, then navigate there.")
            session.servers.insert(0, joined)
            session.server_names.insert(0, "url")
        session.url = session.servers[0].info.url if session.servers else ""

    def _server_ended(self, session: E2eSession, service: str, code: int) -> None:
        if session.ended is not None:
            return
        lines = [event.line for event in session.server_lines if event.service == service]
        lines = lines or tails(session)  # of a command that writes files of its own
        session.notices.append(
            {"type": "server_exited", "service": service, "exitCode": code, "log": lines[-TAIL:]}
        )
        log_crash(session.id, "server_exited", service=service, exitCode=code)
        # Not as a note too: that would be shown when another server runs already.
        session.timeline.emit(
            BrowserNoted(
                at=self._deps.clock(),
                what="server exited",
                detail=f"{service} with code {code}",
                session_id=session.id,
            )
        )

    def policy(self, session: E2eSession, *, own: bool = True) -> Policy:
        """Return where the session's browser may go; without its own servers, if `own` is False."""
        blocked = self._deps.listeners | self._deps.recorder.foreign_ports()
        # No page may drive a browser: neither its own, nor that of the agent's other sessions.
        browsers = (session.browser for session in self._held())
        blocked |= {one.debug_port for one in browsers if one is not None and one.debug_port}
        settings = self._deps.settings
        urls = [server.info.url for server in session.servers] if own else []
        # What a server prints when it is restarted is its own once it has been judged.
        origins = {url: session.origins[url] for url in urls if url in session.origins}
        return Policy(
            own_origins=own_origins(origins),
            own_addresses=own_addresses(origins),
            allowed_hosts=settings.allowed_hosts,
            development=not settings.production,
            blocked_ports=frozenset(blocked),
        )


def _context_options(
    session: E2eSession, entrance: Entrance, request: StartRequest
) -> ContextOptions:
    direct = () if entrance.intercepts else session.origins
    return ContextOptions(
        proxy_server=f"http://127.0.0.1:{entrance.port}",
        proxy_bypass=bypass_list(own_origins(direct)),
        proxy_secret="" if tells_callers() else entrance.secret,
        trusts_all=entrance.intercepts and request.browser != "chromium",
        width=request.width,
        height=request.height,
        storage_state=request.storage_state,
        video_folder=str(session.folder / VIDEOS) if "video" in request.records else "",
    )


async def _open(session: E2eSession, tab: Tab, url: str) -> None:
    """Open the app's page in the first tab, unless the agent was quicker to go elsewhere."""
    try:
        await tab.page.goto(url, wait_until="commit")
    except Exception as error:
        reason = str(error).split("\n", 1)[0]
        elsewhere = "interrupted by another navigation" in reason or "ERR_ABORTED" in reason
        if error_name(error) and not elsewhere and session.ended is None:
            session.notices.append({"type": "navigation_failed", "url": url, "reason": reason})


def _set_folders(session: E2eSession, starter: Starter, cwds: list[Path]) -> None:
    """Set where its logs may lie, and which files it may hand to a page."""
    session.log_folders = tuple(
        folder
        for cwd in cwds or starter.roots[:1]
        for folder in starter.log_folders(session.folder, cwd)
    )
    session.file_roots = (*starter.roots, session.folder)

"""The e2e sessions of one agent: starting, finding and ending them, whatever happens.

Each session is kept by a task of its own that holds its proxy, browser and servers. Whoever ends
the session only asks that task; leaving it, on any path, leaves nothing running.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.current_call import note_session
from pilothouse.core.timeline.events import SessionStarted, SessionTerminated
from pilothouse.core.timeline.timeline import Timeline
from pilothouse.e2e.browser.playwright import PlaywrightDriver, error_name
from pilothouse.e2e.egress_proxy.proxy import open_proxy
from pilothouse.e2e.ended_sessions import EndedSessions
from pilothouse.e2e.model import (
    BrowserCrashed,
    BrowserLaunchFailed,
    ServerStartFailed,
    SessionNotFound,
    TabNotFound,
)
from pilothouse.e2e.ports import Entrance
from pilothouse.e2e.session import CRASH, E2eSession
from pilothouse.e2e.start import Builder, SessionDeps
from pilothouse.machine.held_folders import held

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from pilothouse.core.timeline.events import Event
    from pilothouse.e2e.app_server.start import StartRequest
    from pilothouse.e2e.egress_proxy.proxy import FilteringProxy
    from pilothouse.e2e.ended_sessions import FailedLogs
    from pilothouse.e2e.model import EndReason, Past
    from pilothouse.e2e.ports import AppServer

SWEEP_S = 0.5
GRACE_S = 5.0
TRACE_S = 4.0
"""Seconds for a trace that is being written as its session ends; a hub gives its workers 5 s."""


@dataclass(frozen=True, slots=True)
class ServerEnd:
    """The fate of a server at its session's end, where there is something to say."""

    left: str = ""
    forced: str = ""


@dataclass(slots=True, eq=False)
class _HostedSession:
    """The task that holds a session, and how to ask it to let go."""

    session: E2eSession
    over: asyncio.Event
    done: asyncio.Event
    stop_server: bool | None = None
    remove_logs: bool = False
    report: dict[str, Any] | None = None


class AgentSessions:
    """Implements the `Sessions` port for one agent."""

    def __init__(self, deps: SessionDeps, tasks: TaskGroup) -> None:
        self._deps = deps
        self._tasks = tasks
        self._engine = PlaywrightDriver(deps.driver_environ, deps.share_pipe)
        self._builder = Builder(
            deps, self._engine, lambda: [hosted.session for hosted in self._holding]
        )
        self._hosted: dict[str, _HostedSession] = {}
        self._holding: set[_HostedSession] = set()
        """Sessions that are open, still starting, or ending."""
        self._ended = EndedSessions(deps.why_swept)

    # Finding

    @property
    def sessions(self) -> list[E2eSession]:
        return [hosted.session for hosted in self._hosted.values()]

    @property
    def past(self) -> list[Past]:
        return self._ended.past

    @property
    def state_folder(self) -> Path:
        return self._deps.state_folder()

    def find(self, session_id: str | None) -> E2eSession:
        """Return the session of an id; without one, the only session there is.
        Raises SessionNotFound, BrowserCrashed."""
        session = self._find(session_id)
        note_session(session.id)
        return session

    def _find(self, session_id: str | None) -> E2eSession:
        if session_id is None:
            if len(self._hosted) == 1:
                return next(iter(self._hosted.values())).session
            if self._hosted:
                raise SessionNotFound(
                    "several sessions are open",
                    hint=f"pass sessionId: one of {', '.join(self._hosted)}",
                )
            raise self._ended.last_fault()
        hosted = self._hosted.get(session_id)
        if hosted is not None:
            return hosted.session
        raise self._ended.fault(session_id)

    def failed_logs(self, session_id: str | None) -> FailedLogs:
        """Return the logs of a start that failed; without an id, if that was the last session."""
        if session_id is None and self._hosted:
            return {}, ()
        return self._ended.failed_logs(session_id or self._ended.last)

    def why_swept(self, session_id: str | None) -> str:
        """Return when and why the files of an ended session were removed, if they were."""
        return self._ended.why_swept(session_id or self._ended.last)

    def mask(self, text: str) -> str:
        """Return a text as it may be shown."""
        return str(self._deps.redactor.value(text))

    @asynccontextmanager
    async def using(self, session_id: str | None) -> AsyncIterator[E2eSession]:
        """Hold a session for the length of a call: it is not idle meanwhile."""
        session = self.find(session_id)
        session.running += 1
        session.touch()
        try:
            yield session
        except Exception as error:
            # Whatever a call stumbled over while the browser died under it, that is the reason.
            if isinstance(error, TabNotFound) or error_name(error) == "TargetClosedError":
                await session.browser_went()
                if lost := session.lost():
                    raise lost from None
            raise
        finally:
            session.running -= 1
            session.touch()

    # Starting

    async def start(self, request: StartRequest, report: Callable[[str], None]) -> E2eSession:
        """Start a session, and return it when it is ready.

        Raises ServerStartFailed, CommandNotAllowed, UrlNotAllowed, BrowserLaunchFailed."""
        session_id = str(uuid.uuid4())
        note_session(session_id)
        folder = self._deps.make_folder(session_id)
        deps = self._deps
        session = E2eSession(
            session_id,
            deps.clock,
            folder,
            _part_of(deps.timeline),
            deps.recorder,
            deps.explain,
            records=request.records,
            started_at=deps.clock(),
            last_activity=deps.clock(),
            idle_sec=deps.settings.session_idle_sec,
            redactor=deps.redactor,
        )
        session.policy = lambda: self._builder.policy(session)
        session.claim = lambda url: self._builder.claim(session, url)
        session.running = 1  # starting is no idling
        hosted = _HostedSession(session, asyncio.Event(), asyncio.Event())
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._holding.add(hosted)
        self._tasks.start_soon(self._keep, hosted, request, report, started)
        try:
            await asyncio.shield(started)
        except asyncio.CancelledError:
            hosted.over.set()
            raise
        except ServerStartFailed as failed:
            self._ended.add_failed_start(session, failed)
            raise
        finally:
            session.running = 0
            session.touch()
        deps.timeline.emit(SessionStarted(at=deps.clock(), session_id=session_id, url=session.url))
        return session

    async def _keep(
        self,
        hosted: _HostedSession,
        request: StartRequest,
        report: Callable[[str], None],
        started: asyncio.Future[None],
    ) -> None:
        session = hosted.session
        try:
            with held(session.folder):
                await self._hold(hosted, request, report, started)
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)
        finally:
            if not started.done():
                started.set_exception(SessionNotFound("the session was ended while it started"))
            started.exception()  # nobody may be waiting for it any more
            self._holding.discard(hosted)
            hosted.done.set()

    async def _hold(
        self,
        hosted: _HostedSession,
        request: StartRequest,
        report: Callable[[str], None],
        started: asyncio.Future[None],
    ) -> None:
        session = hosted.session
        async with (
            open_proxy(
                lambda: self._builder.policy(session),
                lambda refusal: session.note("refused", refusal.reason),
                clock=self._deps.clock,
            ) as proxy,
            self._entrance(session, request, proxy) as session.entrance,
        ):
            session.proxy = proxy
            own_ports = {proxy.port, session.entrance.port}
            self._deps.listeners.update(own_ports)
            try:
                await _unless(hosted.over, self._builder.bring_up(session, request, report))
                self._hosted[session.id] = hosted
                if not started.done():
                    started.set_result(None)
                await self._until_over(hosted)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._take_down(hosted)
                self._deps.listeners.difference_update(own_ports)

    @asynccontextmanager
    async def _entrance(
        self, session: E2eSession, request: StartRequest, proxy: FilteringProxy
    ) -> AsyncIterator[Entrance]:
        onward = Entrance(proxy.port, proxy.secret)
        if not request.intercept:
            yield onward
            return
        async with self._deps.intercept(session.id, onward) as entrance:
            yield entrance

    # Ending

    async def _until_over(self, hosted: _HostedSession) -> None:
        session = hosted.session
        assert session.browser is not None
        over = asyncio.ensure_future(hosted.over.wait())
        gone = asyncio.ensure_future(session.browser.gone.wait())
        try:
            await asyncio.wait((over, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            gone.cancel()
        if not hosted.over.is_set():
            session.ended, session.end_note = "error", CRASH

    async def _take_down(self, hosted: _HostedSession) -> None:
        """End browser and servers at the same time; what fails is reported, never left running."""
        session, deps = hosted.session, self._deps
        session.ended = session.ended or "error"
        self._hosted.pop(session.id, None)
        # Before the servers have ended, which may take a while: calls meanwhile shall know of it.
        self._ended.add(session, deps.clock())
        await session.close()
        stops = [self._stop(server, hosted) for server in session.servers]
        closing = _close_browser(session)
        releasing = deps.recorder.release(session.id)
        *stopped, _, _ = await asyncio.gather(*stops, closing, releasing, return_exceptions=True)
        failures = [str(each) for each in stopped if isinstance(each, BaseException)]
        told = [each for each in stopped if isinstance(each, ServerEnd)]
        hosted.report = {
            "failures": failures,
            "left": [each.left for each in told if each.left],
            "forced": [each.forced for each in told if each.forced],
        }
        if hosted.remove_logs:
            await asyncio.to_thread(shutil.rmtree, session.folder, True)
        deps.timeline.emit(
            SessionTerminated(at=deps.clock(), session_id=session.id, reason=session.ended)
        )

    async def _stop(self, server: AppServer, hosted: _HostedSession) -> ServerEnd:
        ours_to_stop = hosted.stop_server and server.info.pid
        url = server.info.url
        if server.info.status == "already_running" and not ours_to_stop:
            return ServerEnd(left=f"{url} ran before the session and was left running")
        if await server.stop(GRACE_S):
            return ServerEnd()
        if why := server.not_asked:
            return ServerEnd(forced=f"{url} was ended by force: its command may not run: {why}")
        return ServerEnd(forced=f"{url} did not stop when asked and was ended by force")

    async def end(
        self,
        session_id: str | None,
        reason: EndReason = "manual",
        note: str = "",
        *,
        stop_server: bool | None = None,
        remove_logs: bool = False,
    ) -> dict[str, Any]:
        """End a session, wait until it is gone, and return what was left running or failed.

        Raises:
            SessionNotFound, BrowserCrashed
        """
        hosted = self._hosted[self.find(session_id).id]
        session = hosted.session
        session.ended, session.end_note = reason, note
        hosted.stop_server, hosted.remove_logs = stop_server, remove_logs
        hosted.over.set()
        await hosted.done.wait()
        return hosted.report or {}

    def sweep(self) -> list[str]:
        """End the sessions that have been idle or open for too long, and return their ids."""
        now, settings = self._deps.clock(), self._deps.settings
        due = []
        for session in self.sessions:
            if session.running or session.ended is not None:
                continue
            idle = (now - max(session.last_activity, session.watched_at)) / 1000
            if idle >= settings.session_idle_sec:
                due.append((session.id, f"idle for {idle:.0f} s"))
            elif (now - session.started_at) / 1000 >= settings.session_max_sec:
                due.append((session.id, f"open for {settings.session_max_sec} s"))
        for session_id, why in due:
            self._tasks.start_soon(self._expire, session_id, why)
        return [session_id for session_id, _ in due]

    async def _expire(self, session_id: str, why: str) -> None:
        with suppress(SessionNotFound, BrowserCrashed):
            await self.end(session_id, "timeout", why)

    async def keep_swept(self) -> None:
        while True:
            await anyio.sleep(SWEEP_S)
            self.sweep()

    async def close(self) -> None:
        """End all sessions at once; the engine last, or their browsers would end by force."""
        all_hosted = list(self._holding)
        for hosted in all_hosted:
            if hosted.session.ended is None:
                hosted.session.ended, hosted.session.end_note = "manual", "Pilothouse ended"
            hosted.over.set()
        await asyncio.gather(*(hosted.done.wait() for hosted in all_hosted))
        await self._engine.close()


async def _close_browser(session: E2eSession) -> None:
    if session.traces:  # of which the browser has a part to write
        await asyncio.wait(session.traces, timeout=TRACE_S)
    if session.browser:
        await session.browser.close()


async def _unless(over: asyncio.Event, work: Any) -> None:
    """Do the work, unless the session is ended before it is done."""
    task = asyncio.ensure_future(work)
    ended = asyncio.ensure_future(over.wait())
    try:
        await asyncio.wait((task, ended), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise BrowserLaunchFailed("the session was ended while it started")
        task.result()
    finally:
        ended.cancel()
        if not task.done():
            task.cancel()
            # Shielded, or it would go on beside the taking down of what it brings up.
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,))


def _part_of(whole: Timeline) -> Timeline:
    """Return a timeline of its own, all of which is passed on to the whole one."""
    part = Timeline()

    def pass_on(event: Event) -> None:
        whole.emit(event)

    part.listen(pass_on)
    return part


@asynccontextmanager
async def open_sessions(deps: SessionDeps) -> AsyncIterator[AgentSessions]:
    """Open the e2e sessions of an agent for as long as the block lasts."""
    async with anyio.create_task_group() as tasks:
        sessions = AgentSessions(deps, tasks)
        tasks.start_soon(sessions.keep_swept)
        try:
            yield sessions
        finally:
            with anyio.CancelScope(shield=True):
                await sessions.close()
            tasks.cancel_scope.cancel()

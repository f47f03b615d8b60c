"""The targets that one session observes: connecting, losing and finding browsers again."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.declare.faults import Fault
from pilothouse.observe.cdp.client import CdpError, CdpGone, CdpTimeout
from pilothouse.observe.cdp.endpoint import START_HINT
from pilothouse.observe.cdp.target_choice import bodiless, choose, unattachable
from pilothouse.observe.connections import NO_PORT, CdpConnections
from pilothouse.observe.metrics import NAMES, totals_of
from pilothouse.observe.model import (
    AlreadyObserving,
    Body,
    BodyNotAvailable,
    BrowserUnreachable,
    E2eSessionUnknown,
    NotObserving,
)
from pilothouse.observe.record.observation import Observation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from anyio.abc import TaskGroup

    from pilothouse.core.call_priority import CallPriority
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.settings import Settings
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.core.timeline.timeline import Timeline
    from pilothouse.machine.chromium.shared_pipe import BrowserPipe
    from pilothouse.observe.cdp.browser import Browser
    from pilothouse.observe.connections import Key
    from pilothouse.observe.model import Filters, Target
    from pilothouse.observe.record.observation import Keep, State

RETRY_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Pauses between attempts to reach a browser that went away; the last one repeats."""
SWEEP_S = 15.0
MOST_DROPPED = 10_000
"""Targets whose last seq is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverDeps:
    """Dependencies of an observatory, handed in because they are the rest of Pilothouse."""

    settings: Settings
    clock: Clock
    changed: Callable[[str], None]
    redactor: Redactor
    timeline: Timeline
    environ: Mapping[str, str]
    count: Callable[[str, int], None]
    """Adds to a counter of /metrics."""
    keep: Keep | None
    """Store that all events go to beside the ring."""
    debug_port: Callable[[str], int | None]
    """Gives the port of an e2e session of this agent."""
    foreign_ports: Callable[[], frozenset[int]]
    """Gives the ports of other agents' e2e sessions."""
    priority: CallPriority
    """Makes floods of events wait for calls."""


class Observatory:
    """Implements the `Observer` port for one session."""

    def __init__(self, tasks: TaskGroup, deps: ObserverDeps) -> None:
        self._tasks = tasks
        self._deps = deps
        self.redactor = deps.redactor
        self._counted: dict[str, int] = {}
        self._observations: dict[str, Observation] = {}
        self._expired: dict[str, float] = {}
        """Targets whose time to live was over, each with it in seconds; the newest last."""
        self._next_seqs: dict[str, int] = {}
        """Next seq of targets whose observation was dropped: it goes on, and never begins again."""
        self._connections = CdpConnections(
            deps.settings, deps.environ, deps.foreign_ports, deps.priority, self._opened
        )
        self._retired: Counter[str] = Counter()
        """Counts of observations that are gone."""

    # Browsers

    def _opened(self, key: Key, browser: Browser) -> None:
        self._tasks.start_soon(self._serve, key, browser)

    async def _serve(self, key: Key, browser: Browser) -> None:
        """Serve a connection; when it is lost, come back for what was observed."""
        try:
            await browser.run()
        finally:
            await browser.close()
        if self._connections.get(key) is not browser:
            return  # closed by us
        self._connections.retire(key)
        lost = [o for o in self._of(key) if o.state in ("observing", "crashed")]
        for observation in lost:
            observation.state = "disconnected"
            observation.note("disconnected", reason="the connection to the browser was lost")
        if lost:
            await self._come_back(key)

    async def _come_back(self, key: Key) -> None:
        """Try until nothing is disconnected any more. Whatever answers there meanwhile, also what
        is no browser or may not be attached to, ends no more than the attempt."""
        told: set[str] = set()
        attempt = 0
        while any(o.state == "disconnected" for o in self._of(key)):
            await anyio.sleep(RETRY_S[min(attempt, len(RETRY_S) - 1)])
            attempt += 1
            try:
                async with self._connections.using(*key) as browser:
                    open_now = {target.id for target in await browser.targets()}
                    for observation in [o for o in self._of(key) if o.state == "disconnected"]:
                        await self._resume(browser, observation, open_now, told)
            except (Fault, CdpError):
                continue

    @staticmethod
    async def _resume(
        browser: Browser, observation: Observation, open_now: set[str], told: set[str]
    ) -> None:
        if observation.target_id not in open_now:
            observation.state = "closed"
            observation.note("detached", reason="the tab is gone after a reconnect")
            return
        if observation.target_id not in told:
            # Before the first event of the new connection: what came between is lost.
            observation.note("gap", reason="events while disconnected are lost")
            told.add(observation.target_id)
        observation.go_on()
        observation.state = "observing"
        try:
            await browser.attach(observation)
        except (CdpError, TimeoutError):
            observation.state = "disconnected"

    def _of(self, key: Key) -> list[Observation]:
        return [o for o in self._observations.values() if (o.host, o.port) == key]

    # The port

    async def targets(self, host: str | None, port: int | None) -> list[Target]:
        async with self._connections.using(host, port) as browser:
            return await self._targets_of(browser)

    @staticmethod
    async def _targets_of(browser: Browser) -> list[Target]:
        try:
            return await browser.targets()
        except CdpError as error:
            raise BrowserUnreachable(
                "the browser does not list its targets", hint=START_HINT, cause=str(error)
            ) from None

    async def observe(
        self,
        host: str | None,
        port: int | None,
        target_id: str | None,
        url_includes: str | None,
        *,
        include_workers: bool,
        include_iframes: bool,
        buffer_size: int | None,
        ttl_sec: int | None,
    ) -> Observation:
        known = self._observations.get(target_id or "")
        if known is not None and host is None and port is None:
            host, port = known.host, known.port  # a tab of an e2e session, say
        async with self._connections.using(host, port) as browser:
            key = (browser.endpoint.host, browser.endpoint.port)
            target = choose(
                await self._targets_of(browser), target_id, url_includes, browser.endpoint
            )
            held = self._observations.get(target.id) or self._stored(target.id)
            if held is not None and held.implicit and held.state in ("observing", "crashed"):
                held.implicit = False  # the recording that runs is adopted, with all it has
                held.limit(buffer_size, ttl_sec)
                return held
            if held is not None and held.state in ("observing", "crashed"):
                raise AlreadyObserving(
                    f"this session observes {target.id} already",
                    hint=f"read it with cdp_read_events, or cdp_stop_observe {target.id} first",
                    targetId=target.id,
                )
            observation = held or self._new(target.id, key, buffer_size, ttl_sec)
            before = observation.state
            observation.include_workers = include_workers
            observation.include_iframes = include_iframes
            if held is not None:
                observation.host, observation.port = key
                observation.go_on(buffer_size, ttl_sec)
                observation.note("gap", reason="events between stop and observe are not recorded")
            observation.state = "observing"
            self._observations[target.id] = observation
            try:
                await browser.attach(observation)
            except (CdpError, TimeoutError) as error:
                self._forget_failed(observation, before if held else None)
                raise unattachable(target, error, browser) from None
            self._deps.timeline.adopt(f"tab {target.id[:6]}", observation.ring)
            return observation

    def _new(
        self,
        target_id: str,
        key: Key,
        buffer_size: int | None = None,
        ttl_sec: int | None = None,
    ) -> Observation:
        return Observation(
            target_id,
            *key,
            self._deps.clock,
            self._deps.changed,
            buffer_size or self._deps.settings.default_buffer_size,
            ttl_sec or self._deps.settings.default_ttl_sec,
            keep=self._deps.keep,
            first_seq=self._next_seqs.get(target_id, 0),
        )

    def share(self, session_id: str, pipe: BrowserPipe) -> Key:
        key = (session_id, NO_PORT)
        self._connections.pipes[key] = pipe
        return key

    async def record(self, key: Key, target_id: str, *, and_popups: bool) -> Observation:
        """Observe a tab of an e2e session from its first request on."""
        async with self._connections.using(*key) as browser:
            if and_popups:
                browser.take_page = partial(self._take_page, key)
            observation = await self.observe(
                *key,
                target_id,
                None,
                include_workers=True,
                include_iframes=True,
                buffer_size=None,
                ttl_sec=None,
            )
        observation.implicit = True
        return observation

    def _take_page(self, key: Key, target_id: str) -> Observation:
        """Observe a page that the app opened, before anybody knows of it."""
        observation = self._new(target_id, key)
        observation.implicit, observation.state = True, "observing"
        self._observations[target_id] = observation
        self._deps.timeline.adopt(f"tab {target_id[:6]}", observation.ring)
        return observation

    async def leave(self, key: Key) -> None:
        for observation in self._of(key):
            if observation.state in ("observing", "crashed", "disconnected"):
                observation.state = "closed"
                observation.note("detached", reason="the session has ended")
        await self._connections.close(key)
        self._connections.pipes.pop(key, None)

    def place(
        self, session_id: str | None, host: str | None, port: int | None
    ) -> tuple[str | None, int | None]:
        if session_id is None:
            return host, port
        key = (session_id, NO_PORT)
        if key in self._connections.pipes:
            return key
        own_port = self._deps.debug_port(session_id)
        if own_port is None:
            raise E2eSessionUnknown(
                f"Session {session_id} not found",
                hint="call startSession, or leave sessionId out",
                sessionId=session_id,
            )
        return host, own_port

    def _forget_failed(self, observation: Observation, before: State | None) -> None:
        """Forget an observation that failed, or return it to its state `before`, if it had one."""
        if before is None:
            del self._observations[observation.target_id]
        else:
            observation.state = before

    def find(self, target_id: str) -> Observation:
        self.sweep()
        observation = self._observations.get(target_id) or self._stored(target_id)
        if observation is None and target_id in self._expired:
            raise NotObserving(
                f"the recording of {target_id} was forgotten: nothing was added to it for longer"
                f" than its ttlSec of {self._expired[target_id]:g}",
                hint="call cdp_observe again, with a longer ttlSec",
                targetId=target_id,
                cause="ttl_over",
            )
        if observation is None:
            stored = self._deps.keep.targets() if self._deps.keep is not None else []
            known = ", ".join(dict.fromkeys([*self._observations, *stored])) or "none"
            raise NotObserving(
                f"this session does not observe {target_id}",
                hint=f"call cdp_observe first (observed now: {known})",
                targetId=target_id,
            )
        observation.touched_at = self._deps.clock()
        return observation

    def _stored(self, target_id: str) -> Observation | None:
        """Return a target that an earlier run recorded, if there is one."""
        if self._deps.keep is None or not self._deps.keep.holds(target_id):
            return None
        observation = self._new(
            target_id, (self._deps.settings.cdp_host, self._deps.settings.cdp_port)
        )
        observation.state = "stored"
        self._observations[target_id] = observation
        return observation

    async def stop(self, target_id: str, *, drop_buffer: bool) -> None:
        observation = self.find(target_id)
        if observation.state == "stopped" and not drop_buffer:
            raise NotObserving(
                f"observing {target_id} was stopped already; its events are still readable",
                hint="call cdp_observe to go on, or cdp_stop_observe with dropBuffer",
                targetId=target_id,
            )
        await self._detach(observation)
        observation.state = "stopped"
        if drop_buffer:
            observation.clear()
            self._drop(observation)

    async def _detach(self, observation: Observation) -> None:
        key = (observation.host, observation.port)
        browser = self._connections.get(key)
        if browser is not None:
            browser.detach(observation)
            await self._connections.close_unused(key)

    def _drop(self, observation: Observation) -> None:
        """Drop it from memory; what a store keeps stays there until cdp_clear_events."""
        self._retired += totals_of(observation)
        self._observations.pop(observation.target_id, None)
        self._next_seqs[observation.target_id] = observation.ring.next_seq
        if len(self._next_seqs) > MOST_DROPPED:
            del self._next_seqs[next(iter(self._next_seqs))]
        self._deps.timeline.abandon(observation.ring)

    def set_filters(self, target_id: str, filters: Filters) -> None:
        self.find(target_id).filters = replace(filters)

    async def title(self, target_id: str) -> str | None:
        browser = self._browser_of(target_id)
        return await browser.title(target_id) if browser else None

    async def value(self, target_id: str, expression: str) -> Any:
        browser = self._browser_of(target_id)
        return await browser.value(target_id, expression) if browser else None

    async def ask(self, target_id: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        browser = self._browser_of(target_id)
        try:
            if browser is None:
                raise CdpGone(method, "the tab is not observed")
            return await browser.ask(target_id, method, params)
        except CdpError as error:
            raise BrowserUnreachable(
                str(error), hint="call getSessionStatus", targetId=target_id
            ) from None

    async def picture(self, target_id: str) -> bytes:
        browser = self._browser_of(target_id)
        return await browser.picture(target_id) if browser else b""

    def _browser_of(self, target_id: str) -> Browser | None:
        # Not by `find`: who only looks at the page reads nothing of what was recorded.
        observation = self._observations.get(target_id)
        if observation is None or observation.state != "observing":
            return None
        return self._connections.get((observation.host, observation.port))

    async def body(self, target_id: str, request_id: str) -> Body:
        observation = self.find(target_id)
        with observation.kept_bodies() as kept_body:
            kept = kept_body(request_id)
        if kept is not None:
            return kept
        browser = self._connections.get((observation.host, observation.port))
        if browser is None or observation.state in ("stopped", "closed", "disconnected"):
            raise BodyNotAvailable(
                f"the body of {request_id} was not kept and the target is {observation.state}",
                hint="bodies of text are kept while observing, within a budget of bytes",
                requestId=request_id,
            )
        try:
            return await browser.body(observation, request_id)
        except CdpGone as error:
            why = error.message
        except CdpTimeout:
            why = "the browser did not answer in time"
        except CdpError as error:
            why = error.message
        raise BodyNotAvailable(
            f"the browser has no body for {request_id}: {bodiless(observation, request_id) or why}",
            hint="redirects, 204s, streams, cancelled and very large responses have none",
            requestId=request_id,
            cause=why,
        )

    # Numbers

    def report(self) -> None:
        """Bring the counters of /metrics up to date; nothing is counted on the hot path twice."""
        totals = self._retired + self._connections.totals()
        for observation in self._observations.values():
            totals += totals_of(observation)
        for name in NAMES:  # also those that are still zero: a rate begins there
            self._deps.count(name, totals[name] - self._counted.get(name, 0))
            self._counted[name] = totals[name]

    # Time to live

    def sweep(self) -> list[Observation]:
        """Forget observations that nothing was added to for longer than their time to live."""
        now = self._deps.clock()
        expired = [o for o in self._observations.values() if o.expired(now)]
        for observation in expired:
            browser = self._connections.get((observation.host, observation.port))
            if browser is not None and observation.state in ("observing", "crashed"):
                browser.detach(observation)
            self._drop(observation)
            self._expired.pop(observation.target_id, None)
            self._expired[observation.target_id] = observation.ttl_sec
            if len(self._expired) > MOST_DROPPED:
                del self._expired[next(iter(self._expired))]
        return expired

    async def keep_swept(self) -> None:
        while True:
            await anyio.sleep(SWEEP_S)
            for observation in self.sweep():
                await self._connections.close_unused((observation.host, observation.port))

    @property
    def observations(self) -> list[Observation]:
        return list(self._observations.values())


@asynccontextmanager
async def open_observatory(
    deps: ObserverDeps, at_scrape: Callable[[Callable[[], None]], Callable[[], None]]
) -> AsyncIterator[Observatory]:
    """Open the observatory of one session for the block; `at_scrape` registers what brings its
    counters up to date before /metrics is read."""
    async with anyio.create_task_group() as tasks:
        observatory = Observatory(tasks, deps)
        tasks.start_soon(observatory.keep_swept)
        forget = at_scrape(observatory.report)
        try:
            yield observatory
        finally:
            observatory.report()
            forget()
            tasks.cancel_scope.cancel()

"""The targets that one session observes: connecting, losing and finding browsers again."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.observe.browser import Browser
from pilothouse.observe.cdp import CdpError, CdpGone, CdpTimeout
from pilothouse.observe.choosing import choose, unattachable
from pilothouse.observe.endpoint import START_HINT, find_endpoint
from pilothouse.observe.model import (
    AlreadyObserving,
    Body,
    BodyNotAvailable,
    BrowserUnreachable,
    NotObserving,
    SecurityBlocked,
    SessionUnknown,
)
from pilothouse.observe.numbers import counted, totals_of
from pilothouse.observe.observation import Observation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from anyio.abc import TaskGroup

    from pilothouse.core.clock import Clock
    from pilothouse.core.redact import Redactor
    from pilothouse.core.settings import Settings
    from pilothouse.core.timeline import Timeline
    from pilothouse.observe.model import Filters, Target
    from pilothouse.observe.observation import Keep

RETRY_S = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Pauses between attempts to reach a browser that went away; the last one repeats."""
SWEEP_S = 15.0
MOST_DROPPED = 10_000
"""Targets whose last seq is remembered."""


class Observatory:
    """Implements the `Observer` port for one session."""

    def __init__(
        self,
        tasks: TaskGroup,
        settings: Settings,
        clock: Clock,
        changed: Callable[[str], None],
        redactor: Redactor,
        timeline: Timeline,
        environ: Mapping[str, str],
        count: Callable[[str, int], None],
        keep: Keep | None,
        debug_port: Callable[[str], int | None] = lambda _: None,
        foreign_ports: Callable[[], frozenset[int]] = frozenset,
    ) -> None:
        """`count` adds to a counter of /metrics, `keep` is where all events go beside the ring.

        `debug_port` gives the port of an e2e session of this agent, `foreign_ports` those of
        other agents' sessions.
        """
        self._debug_port = debug_port
        self._foreign_ports = foreign_ports
        self._keep = keep
        self.redactor = redactor
        self._count = count
        self._counted: dict[str, int] = {}
        self._tasks = tasks
        self._settings = settings
        self._clock = clock
        self._changed = changed
        self._timeline = timeline
        self._environ = environ
        self._observations: dict[str, Observation] = {}
        self._next_seqs: dict[str, int] = {}
        """Of targets whose observation was dropped: their seq goes on, it never begins again."""
        self._browsers: dict[tuple[str, int], Browser] = {}
        self._connecting = asyncio.Lock()
        self._retired: Counter[str] = Counter()
        """Counts of observations and browsers that are gone."""

    # Browsers

    async def _browser(self, host: str | None, port: int | None) -> Browser:
        key = (host or self._settings.cdp_host, port or self._settings.cdp_port)
        if key[1] in self._foreign_ports():
            raise SecurityBlocked(
                f"port {key[1]} belongs to another session's browser",
                hint="observe your own session's tabs: cdp_list_targets with its sessionId",
                host=key[0],
                port=key[1],
            )
        async with self._connecting:
            browser = self._browsers.get(key)
            if browser is None:
                browser = await self._open(key)
                self._browsers[key] = browser
                self._tasks.start_soon(self._serve, key, browser)
            return browser

    async def _open(self, key: tuple[str, int]) -> Browser:
        host, port = key
        endpoint = await find_endpoint(
            host,
            port,
            local_only=self._settings.cdp_security_localonly,
            environ=self._environ,
        )
        browser = Browser(endpoint)
        try:
            await browser.open()
        except (OSError, TimeoutError, CdpError) as error:
            raise BrowserUnreachable(
                f"the browser on {host}:{port} refused the connection ({error})",
                hint=START_HINT,
                host=host,
                port=port,
            ) from None
        return browser

    async def _serve(self, key: tuple[str, int], browser: Browser) -> None:
        """Serve a connection; when it is lost, come back for what was observed."""
        try:
            await browser.run()
        finally:
            await browser.close()
        if self._browsers.get(key) is not browser:
            return  # closed by us
        self._retire(key)
        lost = [o for o in self._of(key) if o.state in ("observing", "crashed")]
        for observation in lost:
            observation.state = "disconnected"
            observation.note("disconnected", reason="the connection to the browser was lost")
        if lost:
            await self._come_back(key)

    async def _come_back(self, key: tuple[str, int]) -> None:
        attempt = 0
        while any(o.state == "disconnected" for o in self._of(key)):
            await anyio.sleep(RETRY_S[min(attempt, len(RETRY_S) - 1)])
            attempt += 1
            try:
                browser = await self._browser(*key)
                open_now = {target.id for target in await browser.targets()}
            except (BrowserUnreachable, CdpError):
                continue
            for observation in [o for o in self._of(key) if o.state == "disconnected"]:
                if observation.target_id not in open_now:
                    observation.state = "closed"
                    observation.note("detached", reason="the tab is gone after a reconnect")
                    continue
                try:
                    # Before the first event of the new connection: what came between is lost.
                    observation.note("gap", reason="events while disconnected are lost")
                    observation.go_on()
                    observation.state = "observing"
                    await browser.attach(observation)
                except (CdpError, TimeoutError):
                    observation.state = "disconnected"
            return

    def _of(self, key: tuple[str, int]) -> list[Observation]:
        return [o for o in self._observations.values() if (o.host, o.port) == key]

    def _retire(self, key: tuple[str, int]) -> None:
        counts = self._browsers.pop(key).cdp.counts
        self._retired += counted(counts)

    async def _close_unused(self, key: tuple[str, int]) -> None:
        browser = self._browsers.get(key)
        if browser is not None and not browser.is_used:
            self._retire(key)
            await browser.close()

    # The port

    async def targets(self, host: str | None, port: int | None) -> list[Target]:
        browser = await self._browser(host, port)
        try:
            return await self._targets_of(browser)
        finally:
            await self._close_unused((browser.endpoint.host, browser.endpoint.port))

    @staticmethod
    async def _targets_of(browser: Browser) -> list[Target]:
        try:
            return await browser.targets()
        except CdpError as error:
            raise BrowserUnreachable(str(error), hint=START_HINT) from None

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
        browser = await self._browser(host, port)
        key = (browser.endpoint.host, browser.endpoint.port)
        try:
            target = choose(
                await self._targets_of(browser), target_id, url_includes, browser.endpoint
            )
            held = self._observations.get(target.id)
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
                self._forget_failed(observation, held)
                raise unattachable(target, error) from None
            self._timeline.adopt(f"tab {target.id[:6]}", observation.ring)
            return observation
        finally:
            await self._close_unused(key)

    def _new(
        self,
        target_id: str,
        key: tuple[str, int],
        buffer_size: int | None = None,
        ttl_sec: int | None = None,
    ) -> Observation:
        return Observation(
            target_id,
            *key,
            self._clock,
            self._changed,
            buffer_size or self._settings.default_buffer_size,
            ttl_sec or self._settings.default_ttl_sec,
            keep=self._keep,
            first_seq=self._next_seqs.get(target_id, 0),
        )

    async def record(self, port: int, target_id: str, *, and_popups: bool) -> Observation:
        """Observe a tab of an e2e session from its first request on."""
        if and_popups:
            key = ("127.0.0.1", port)
            browser = await self._browser(*key)
            browser.take_page = partial(self._take_page, key)
        observation = await self.observe(
            "127.0.0.1",
            port,
            target_id,
            None,
            include_workers=True,
            include_iframes=True,
            buffer_size=None,
            ttl_sec=None,
        )
        observation.implicit = True
        return observation

    def _take_page(self, key: tuple[str, int], target_id: str) -> Observation:
        """One that the app opened: it is recorded before anybody knows of it."""
        observation = self._new(target_id, key)
        observation.implicit, observation.state = True, "observing"
        self._observations[target_id] = observation
        self._timeline.adopt(f"tab {target_id[:6]}", observation.ring)
        return observation

    async def leave(self, port: int) -> None:
        key = ("127.0.0.1", port)
        for observation in self._of(key):
            if observation.state in ("observing", "crashed", "disconnected"):
                observation.state = "closed"
                observation.note("detached", reason="the session has ended")
        browser = self._browsers.get(key)
        if browser is not None:
            self._retire(key)
            await browser.close()

    def port_of(self, session_id: str | None) -> int | None:
        if session_id is None:
            return None
        port = self._debug_port(session_id)
        if port is None:
            raise SessionUnknown(
                f"Session {session_id} not found",
                hint="call startSession, or leave sessionId out",
                sessionId=session_id,
            )
        return port

    def _forget_failed(self, observation: Observation, held: Observation | None) -> None:
        if held is None:
            del self._observations[observation.target_id]
        else:
            observation.state = "stopped"

    def find(self, target_id: str) -> Observation:
        self.sweep()
        observation = self._observations.get(target_id) or self._stored(target_id)
        if observation is None:
            stored = self._keep.targets() if self._keep is not None else []
            known = ", ".join(dict.fromkeys([*self._observations, *stored])) or "none"
            raise NotObserving(
                f"this session does not observe {target_id}",
                hint=f"call cdp_observe first (observed now: {known})",
                targetId=target_id,
            )
        observation.touched_at = self._clock()
        return observation

    def _stored(self, target_id: str) -> Observation | None:
        """A target that an earlier run recorded."""
        if self._keep is None or not self._keep.holds(target_id):
            return None
        observation = self._new(target_id, (self._settings.cdp_host, self._settings.cdp_port))
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
        browser = self._browsers.get(key)
        if browser is not None:
            browser.detach(observation)
            await self._close_unused(key)

    def _drop(self, observation: Observation) -> None:
        """Out of memory; what a store keeps stays there until cdp_clear_events."""
        self._retired += totals_of(observation)
        self._observations.pop(observation.target_id, None)
        self._next_seqs[observation.target_id] = observation.ring.next_seq
        if len(self._next_seqs) > MOST_DROPPED:
            del self._next_seqs[next(iter(self._next_seqs))]
        self._timeline.abandon(observation.ring)

    def set_filters(self, target_id: str, filters: Filters) -> None:
        self.find(target_id).filters = replace(filters)

    async def title(self, target_id: str) -> str | None:
        browser = self._browser_of(target_id)
        return await browser.title(target_id) if browser else None

    async def value(self, target_id: str, expression: str) -> Any:
        browser = self._browser_of(target_id)
        return await browser.value(target_id, expression) if browser else None

    def _browser_of(self, target_id: str) -> Browser | None:
        observation = self.find(target_id)
        if observation.state != "observing":
            return None
        return self._browsers.get((observation.host, observation.port))

    async def body(self, target_id: str, request_id: str) -> Body:
        observation = self.find(target_id)
        kept = observation.bodies.get(request_id)
        if kept is not None:
            return kept
        browser = self._browsers.get((observation.host, observation.port))
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
            f"the browser has no body for {request_id}: {why}",
            hint="redirects, 204s, streams, cancelled and very large responses have none",
            requestId=request_id,
        )

    # Numbers

    def report(self) -> None:
        """Bring the counters of /metrics up to date; nothing is counted on the hot path twice."""
        totals: Counter[str] = Counter(self._retired)
        for observation in self._observations.values():
            totals += totals_of(observation)
        for browser in self._browsers.values():
            totals += counted(browser.cdp.counts)
        for name, total in totals.items():
            self._count(name, total - self._counted.get(name, 0))
            self._counted[name] = total

    # Time to live

    def sweep(self) -> list[Observation]:
        """Forget observations that nothing was added to for longer than their time to live."""
        now = self._clock()
        expired = [o for o in self._observations.values() if o.expired(now)]
        for observation in expired:
            browser = self._browsers.get((observation.host, observation.port))
            if browser is not None and observation.state in ("observing", "crashed"):
                browser.detach(observation)
            self._drop(observation)
        return expired

    async def keep_swept(self) -> None:
        while True:
            await anyio.sleep(SWEEP_S)
            for observation in self.sweep():
                await self._close_unused((observation.host, observation.port))

    @property
    def observations(self) -> list[Observation]:
        return list(self._observations.values())


@asynccontextmanager
async def open_observatory(
    settings: Settings,
    clock: Clock,
    changed: Callable[[str], None],
    redactor: Redactor,
    timeline: Timeline,
    environ: Mapping[str, str],
    count: Callable[[str, int], None],
    at_scrape: Callable[[Callable[[], None]], Callable[[], None]],
    keep: Keep | None = None,
    debug_port: Callable[[str], int | None] = lambda _: None,
    foreign_ports: Callable[[], frozenset[int]] = frozenset,
) -> AsyncIterator[Observatory]:
    """The observatory of one session, until the block ends; `at_scrape` registers what brings its
    counters up to date before /metrics is read."""
    async with anyio.create_task_group() as tasks:
        observatory = Observatory(
            tasks,
            settings,
            clock,
            changed,
            redactor,
            timeline,
            environ,
            count,
            keep,
            debug_port,
            foreign_ports,
        )
        tasks.start_soon(observatory.keep_swept)
        forget = at_scrape(observatory.report)
        try:
            yield observatory
        finally:
            observatory.report()
            forget()
            tasks.cancel_scope.cancel()

"""One running Pilothouse: what is served, for which sessions, with which settings."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import anyio

from pilothouse.core.call_priority import CallPriority
from pilothouse.core.declare.faults import RateLimited
from pilothouse.core.declare.listing import Selection
from pilothouse.core.declare.registry import Registry
from pilothouse.core.rate_limit import RateLimit
from pilothouse.core.timeline.clock import Clock, anchored
from pilothouse.core.timeline.events import SessionStarted, SessionTerminated
from pilothouse.server.call import ToolCaller
from pilothouse.server.claimed_ports import DebugPorts, ListenerPorts, ServiceAddresses
from pilothouse.server.metrics import Metrics
from pilothouse.server.push import Pusher
from pilothouse.server.render import failure
from pilothouse.server.session import HostedSessions, Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from anyio.abc import TaskGroup

    from pilothouse.core.declare.listing import Listing
    from pilothouse.core.declare.tool import Tool
    from pilothouse.core.hub_port import HubPort
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.settings import Settings
    from pilothouse.core.timeline.events import Event
    from pilothouse.server.groups import AnyGroupSpec
    from pilothouse.server.logs import Log
    from pilothouse.server.render import Answer
    from pilothouse.server.session import Provider

TIMELINE_URI = "pilothouse://timeline"
TOOLS_LIST = "tools/list"
"""The topic of those who are notified that the list of tools has changed."""


@dataclass(kw_only=True)
class Runtime:
    """Everything that a transport needs to answer."""

    settings: Settings
    specs: Sequence[AnyGroupSpec]
    sessions: HostedSessions
    pusher: Pusher
    caller: ToolCaller
    metrics: Metrics
    redactor: Redactor
    log: Log
    clock: Clock
    started_at: float
    limits: CallLimits
    debug_ports: DebugPorts = field(default_factory=DebugPorts)
    """Debugging ports of all e2e sessions that are open."""
    listeners: ListenerPorts
    """Ports of this machine on which Pilothouse itself answers."""
    shared: Session = field(init=False)
    """Session that holds the ports that exist once in this process."""
    priority: CallPriority = field(default_factory=CallPriority)
    hub: HubPort | None = None
    paired: bool = False
    """Flag that a Chrome with the extension was paired in this home."""
    services: ServiceAddresses = field(default_factory=ServiceAddresses)
    """Services beside MCP, each with its address or why it is off."""
    _services_elsewhere: dict[str, str] = field(default_factory=dict)
    _tools: dict[str, Tool] = field(default_factory=dict)
    """Served tools of the groups that were imported, by name."""

    def learn(
        self,
        *,
        foreign: Iterable[int],
        listeners: Iterable[int],
        services: dict[str, str],
        paired: bool,
    ) -> None:
        """Learn which debugging ports other processes have and on which ports they answer, which
        services the hub has, and whether it knows of a paired Chrome."""
        if paired:
            self.learn_paired()
        self.debug_ports.elsewhere = frozenset(foreign)
        self.listeners.learn(listeners)
        self._services_elsewhere = services

    def learn_paired(self) -> None:
        """Serve bookmark tools from now on, and notify the clients of it."""
        if self.paired:
            return
        self.paired = True
        before = self.listings
        for name in ("listings", "unserved", "registry"):
            vars(self).pop(name, None)
        if self.listings != before:
            self.pusher.list_changed(TOOLS_LIST)

    @property
    def all_services(self) -> dict[str, str]:
        """Services beside MCP, those of the hub included."""
        if self.hub is not None and self.hub.lost is not None:
            return {**self.services, "hub": f"off: {self.hub.lost.message}"}
        return {**self.services, **self._services_elsewhere}

    @property
    def selection(self) -> Selection:
        return Selection.of(self.settings, paired=self.paired)

    @cached_property
    def listings(self) -> dict[str, Listing]:
        """The tools that are served, by name; nothing is imported for it."""
        listed = (listing for spec in self.specs for listing in spec.listings)
        return {listing.name: listing for listing in listed if self.selection.serves(listing)}

    @cached_property
    def unserved(self) -> dict[str, Listing]:
        """The tools that exist beside those that are served, by name."""
        listed = (listing for spec in self.specs for listing in spec.listings)
        return {one.name: one for one in listed if one.name not in self.listings}

    def tool(self, name: str) -> Tool | None:
        """Return a served tool, ready to be called: the first use imports its group alone."""
        if name not in self._tools and name in self.listings:
            spec = next(p for p in self.specs if any(name == one.name for one in p.listings))
            self._tools |= {tool.name: tool for tool in spec.tools if tool.name in self.listings}
        return self._tools.get(name)

    @cached_property
    def registry(self) -> Registry:
        """All that is served, ready to be called: the first use imports all groups."""
        whole = Registry.of(
            (tool for spec in self.specs for tool in spec.tools),
            (resource for spec in self.specs for resource in spec.resources),
            (prompt for spec in self.specs for prompt in spec.prompts),
        )
        return whole.served(self.selection)


class CallLimits:
    """The limits on how often a principal may call; off unless production or asked for."""

    def __init__(self, settings: Settings) -> None:
        def per_minute(asked: int, default: int) -> RateLimit | None:
            number = asked if asked >= 0 else default if settings.production else 0
            return RateLimit(number, 60.0, clock=time.monotonic) if number else None

        self._calls = per_minute(settings.rate_calls_per_min, 100)
        self._sessions = per_minute(settings.rate_sessions_per_min, 10)

    @property
    def are_on(self) -> bool:
        return self._calls is not None or self._sessions is not None

    def admit(self, principal: str, tool: str) -> float:
        """Return 0.0, or the seconds until the principal may call this tool."""
        if self._sessions is not None and tool == "startSession":
            wait = self._sessions.admit(principal)
            if wait:
                return wait
        return 0.0 if self._calls is None else self._calls.admit(principal)


def too_many(runtime: Runtime, tool: Tool, wait: float) -> Answer:
    """Return the answer to a call that came too early, and count it."""
    fault = RateLimited(
        f"too many calls of {tool.name} in the last minute",
        hint=f"wait {wait:.0f} s, then call {tool.name} again",
        retryAfterSec=round(wait, 1),
    )
    runtime.metrics.called(tool.name, 0.0, fault.code)
    return failure(tool.group, fault, runtime.redactor, {})


@asynccontextmanager
async def open_runtime(
    specs: Sequence[AnyGroupSpec],
    settings: Settings,
    redactor: Redactor,
    log: Log,
    hub: HubPort | None = None,
    *,
    paired: bool = False,
) -> AsyncIterator[Runtime]:
    """Keep a runtime until the block ends; then every session's ports are closed.

    With a hub, what exists once on the machine is the hub's, and it knows what is `paired`.
    """
    clock = anchored(time.time, time.monotonic)
    metrics = Metrics()
    listeners = ListenerPorts()
    if hub is not None:
        listeners.on_change = lambda: hub.tell("house.listeners", ports=sorted(listeners.own))

    def could_not_close(key: str, error: Exception) -> None:
        log.error("session_close_failed", error, sessionId=key)

    # What sessions share is closed after the last of them.
    async with _tasks() as lasting, _tasks() as tasks:
        runtime = Runtime(
            settings=settings,
            specs=specs,
            sessions=HostedSessions(
                tasks, lambda key: _start_session(runtime, key), could_not_close
            ),
            pusher=Pusher(tasks),
            caller=ToolCaller(redactor, metrics, log.of("calls")),
            metrics=metrics,
            redactor=redactor,
            log=log,
            clock=clock,
            started_at=clock(),
            limits=CallLimits(settings),
            listeners=listeners,
            hub=hub,
            paired=paired,
        )
        shared = HostedSessions(lasting, lambda key: _new_session(runtime, key), could_not_close)
        runtime.shared = shared.get("shared")
        _add_gauges(runtime)
        yield runtime


def _new_session(runtime: Runtime, key: str, shared: Session | None = None) -> Session:
    return Session(
        key,
        runtime.settings,
        runtime.clock,
        runtime.redactor,
        runtime.metrics,
        lambda uri: runtime.pusher.changed(key, uri),
        lambda kind: _provider(runtime, kind),
        runtime.debug_ports,
        runtime.listeners,
        runtime.priority,
        runtime.services,
        shared=shared,
        hub=runtime.hub,
        unserved=lambda: runtime.unserved,
    )


def _start_session(runtime: Runtime, key: str) -> Session:
    """Make the session of an agent, and tell that it has started."""
    session = _new_session(runtime, key, runtime.shared)
    session.timeline.listen(lambda _: runtime.pusher.changed(key, TIMELINE_URI))
    session.timeline.listen(lambda event: _log_session(event, key, runtime.log))
    session.timeline.emit(SessionStarted(at=runtime.clock(), session_id=key))
    runtime.log.info("session_started", sessionId=key)
    return session


def _provider(runtime: Runtime, kind: type) -> Provider:
    """Return what opens a port of this type."""
    if kind is Runtime:
        return lambda _: nullcontext(runtime)
    # A tool asks for the ports of its own group mostly, which is there already.
    last_first = runtime.specs[::-1]
    ready_first = sorted(last_first, key=lambda spec: not spec.is_ready)
    return next(p.providers[kind] for p in ready_first if kind in p.providers)


def _add_gauges(runtime: Runtime) -> None:
    gauge = runtime.metrics.gauge
    gauge("sessions", "Sessions that are open", lambda: len(runtime.sessions))
    gauge("e2e_sessions", "E2E sessions that are open", lambda: len(runtime.debug_ports))
    gauge("subscribers", "Clients that listen for changes", lambda: len(runtime.pusher))
    gauge(
        "uptime_seconds",
        "Seconds since the start",
        lambda: (runtime.clock() - runtime.started_at) / 1000,
    )


@asynccontextmanager
async def _tasks() -> AsyncIterator[TaskGroup]:
    """Open a group of tasks that are cancelled when the block ends, and then waited for."""
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        finally:
            tasks.cancel_scope.cancel()


def _log_session(event: Event, key: str, log: Log) -> None:
    """Log the start or end of a session that an agent opened within its own."""
    if isinstance(event, SessionStarted) and event.session_id != key:
        log.info("session_started", sessionId=event.session_id, url=event.url)
    elif isinstance(event, SessionTerminated) and event.session_id != key:
        write = log.error if event.reason == "error" else log.info
        write("session_terminated", sessionId=event.session_id, reason=event.reason)

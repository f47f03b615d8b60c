"""One running Pilothouse: what is served, for which sessions, with which settings."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from pilothouse.core.clock import Clock, anchored
from pilothouse.core.events import SessionStarted
from pilothouse.core.rates import RateLimit
from pilothouse.core.registry import Registry
from pilothouse.server.call import Caller
from pilothouse.server.debug_ports import DebugPorts
from pilothouse.server.metrics import Metrics
from pilothouse.server.push import Pusher
from pilothouse.server.session import Session, Sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from pilothouse.core.redact import Redactor
    from pilothouse.core.resource import Resource
    from pilothouse.core.settings import Settings
    from pilothouse.core.tool import Tool
    from pilothouse.server.logs import Log
    from pilothouse.server.session import Provider

TIMELINE_URI = "pilothouse://timeline"


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one group brings to the house."""

    tools: Sequence[Tool]
    resources: Sequence[Resource] = ()
    providers: Mapping[type, Provider] = field(default_factory=dict)
    """Port type → how it is opened for a session."""


@dataclass(kw_only=True)
class House:
    """Everything that a transport needs to answer."""

    settings: Settings
    registry: Registry
    sessions: Sessions
    pusher: Pusher
    caller: Caller
    metrics: Metrics
    redactor: Redactor
    log: Log
    clock: Clock
    started_at: float
    limits: Limits
    debug_ports: DebugPorts
    """Of all e2e sessions that are open."""
    listeners: set[int] = field(default_factory=set)
    """Ports of this machine on which Pilothouse itself answers."""


class Limits:
    """How often a principal may call; off unless production or asked for."""

    def __init__(self, settings: Settings) -> None:
        def per_minute(asked: int, default: int) -> RateLimit | None:
            number = asked if asked >= 0 else default if settings.production else 0
            return RateLimit(number, 60.0, clock=time.monotonic) if number else None

        self._calls = per_minute(settings.rate_calls_per_min, 100)
        self._sessions = per_minute(settings.rate_sessions_per_min, 10)

    def admit(self, principal: str, tool: str) -> float:
        """0.0, or the seconds until the principal may call this tool."""
        if self._sessions is not None and tool == "startSession":
            wait = self._sessions.admit(principal)
            if wait:
                return wait
        return 0.0 if self._calls is None else self._calls.admit(principal)


@asynccontextmanager
async def open_house(
    parts: Sequence[Part], settings: Settings, redactor: Redactor, log: Log
) -> AsyncIterator[House]:
    """Run a house until the block ends; then every session's ports are closed."""
    whole = Registry.of(
        (tool for part in parts for tool in part.tools),
        (resource for part in parts for resource in part.resources),
    )
    providers = {kind: make for part in parts for kind, make in part.providers.items()}
    clock = anchored(time.time, time.monotonic)
    metrics = Metrics()
    debug_ports = DebugPorts()
    listeners: set[int] = set()
    async with anyio.create_task_group() as tasks:
        pusher = Pusher(tasks)

        def make_session(key: str) -> Session:
            def changed(uri: str) -> None:
                pusher.changed(key, uri)

            session = Session(
                key,
                settings,
                clock,
                redactor,
                metrics,
                changed,
                {**providers, House: provide_house},
                debug_ports,
                listeners,
            )
            session.timeline.listen(lambda _: changed(TIMELINE_URI))
            session.timeline.emit(SessionStarted(at=clock(), session_id=key))
            log.info("session_started", sessionId=key)
            return session

        def could_not_close(key: str, error: Exception) -> None:
            log.error("session_close_failed", error, sessionId=key)

        @asynccontextmanager
        async def provide_house(_: Session) -> AsyncIterator[House]:
            yield house

        house = House(
            settings=settings,
            registry=whole.served(
                settings.tools, "full" if settings.profile == "full" else "default"
            ),
            sessions=Sessions(tasks, make_session, could_not_close),
            pusher=pusher,
            caller=Caller(redactor, metrics, log.of("calls")),
            metrics=metrics,
            redactor=redactor,
            log=log,
            clock=clock,
            started_at=clock(),
            limits=Limits(settings),
            debug_ports=debug_ports,
            listeners=listeners,
        )
        metrics.gauge("sessions", "Sessions that are open", lambda: len(house.sessions))
        metrics.gauge("e2e_sessions", "E2E sessions that are open", lambda: len(debug_ports))
        metrics.gauge("subscribers", "Clients that listen for changes", lambda: len(pusher))
        metrics.gauge(
            "uptime_seconds", "Seconds since the start", lambda: (clock() - house.started_at) / 1000
        )
        try:
            yield house
        finally:
            tasks.cancel_scope.cancel()

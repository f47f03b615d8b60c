"""Joins what a hub is made of, and tells what goes on in it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pilothouse.hub.http.endpoint import McpEndpoint
from pilothouse.hub.http.listener import HttpListener, ListenerDeps
from pilothouse.hub.http.upstream import UpstreamPool
from pilothouse.hub.model import WorkerStartFailed
from pilothouse.hub.workers import StartFailed
from pilothouse.hub.workers.pool import RETRY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pilothouse.core.net.origins import OriginPolicy
    from pilothouse.hub.http.listener import Report
    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.model import Key, SessionRecord
    from pilothouse.hub.ports import (
        Admit,
        Authenticate,
        Throttle,
        TrafficObserver,
        Upstream,
        Workers,
    )
    from pilothouse.hub.sessions.peers import Peers
    from pilothouse.hub.sessions.registry import SessionRegistry
    from pilothouse.hub.workers import Kind
    from pilothouse.hub.workers.pool import Pool, PoolEntry

MOST_SEATS = 200
"""Sessions that are listed; all are counted."""
_LONGEST_NAME = 60


class Seat(NamedTuple):
    """A session as people see it."""

    name: str
    """Name for people: not its id, by which others could enter it."""
    client: str
    """Name that the client gives itself."""
    seen_s: float
    """Seconds since it was last used, as far as the hub saw it."""
    pid: int = 0
    """Process id of its worker, 0 without one."""
    state: str = ""
    """State of that worker."""
    memory: int = 0
    """Bytes that it uses with all below it; 0 before they were measured."""
    up_s: float = 0.0
    id: str = ""
    """Name by which programs tell it from others; it is no key to it either."""


class Hub:
    """Sessions, workers and the listener that leads to them."""

    def __init__(
        self,
        *,
        registry: SessionRegistry,
        pool: Pool,
        kind: Kind,
        pages: Upstream,
        origin_policy: OriginPolicy,
        clock: Callable[[], float],
        report: Report,
        authenticate: Authenticate | None = None,
        throttle: Throttle = lambda principal, tool: None,
        traffic: TrafficObserver = lambda method, seconds, outcome: None,
        workers: Workers | None = None,
        peers: Peers | None = None,
        admit: Admit | None = None,
    ) -> None:
        """Take the parts and make the listener of them.

        Args:
            registry: Of the sessions.
            pool: Of their workers.
            kind: Of all workers.
            pages: Where everything that is no MCP is served.
            origin_policy: Judges Host and Origin.
            clock: The registry's.
            report: Is told of what should never happen.
            authenticate: Knows the callers, if they must be known.
            throttle: How often they may call.
            traffic: Is told of what was passed to workers.
            workers: For HTTP clients, when not all of the pool's may be used.
            peers: Other gateways that know the same sessions.
            admit: Judges requests by whose process has connected.
        """
        self.registry = registry
        self.pool = pool
        self._kind = kind
        self._clock = clock
        self._relay = UpstreamPool()
        self._endpoint = McpEndpoint(
            registry=registry,
            workers=workers or pool,
            relay=self._relay,
            templates=self.template,
            clock=clock,
            throttle=throttle,
            traffic=traffic,
        )
        self.listener = HttpListener(
            ListenerDeps(
                endpoint=self._endpoint,
                relay=self._relay,
                pages=pages,
                origin_policy=origin_policy,
                report=report,
                authenticate=authenticate,
                peers=peers,
                admit=admit,
            )
        )

    async def template(self) -> Template:
        """Return what all workers answer alike. Raises WorkerStartFailed."""
        try:
            return await self._kind.template()
        except StartFailed as failed:
            why = f"the worker did not start: {failed}"
            raise WorkerStartFailed(why, retry_after=failed.retry_after or RETRY_S) from None

    def trouble(self) -> str:
        """Return why no worker can be started, as far as is known; empty: they can."""
        return self._kind.trouble()

    def tools_changed(self) -> None:
        """Tell clients that the template has another list of tools now."""
        self._endpoint.tools_changed()

    async def close(self) -> None:
        """Hang up on everybody; workers are the pool's to end."""
        self.listener.close()
        await self._endpoint.close()
        self._relay.close()

    @property
    def workers(self) -> int:
        return sum(entry.worker is not None for entry in self.pool.entries())

    @property
    def in_use(self) -> bool:
        """Tell whether somebody is connected by HTTP, or a worker runs or is about to."""
        return len(self.listener) > 0 or any(True for _ in self.pool.entries())

    def seats(self) -> Iterator[Seat]:
        """Yield the sessions that were used last, each with its worker."""
        entries = {entry.key: entry for entry in self.pool.entries()}
        for record in islice(self.registry.known(), MOST_SEATS):
            yield self._seat(record.key, entries.pop(record.key, None), record)
        for key, entry in islice(entries.items(), MOST_SEATS):
            yield self._seat(key, entry)

    def _seat(self, key: Key, entry: PoolEntry | None, record: SessionRecord | None = None) -> Seat:
        client = client_name(record.initialize) if record is not None else ""
        seen = max(0.0, self._clock() - record.last_seen) if record is not None else 0.0
        seat = Seat(key.shown, client, seen, id=key.name)
        if entry is None or entry.worker is None:
            return seat if entry is None else seat._replace(state="starting")
        return seat._replace(
            pid=entry.worker.pid,
            state=_state(key, entry, is_current=self.pool.running(key) is entry.worker),
            memory=entry.memory if entry.is_weighed else 0,
            up_s=self.pool.age(entry),
        )

    def status(self) -> dict[str, Any]:
        """Return the counts and the seats, as JSON can hold them."""
        return {
            "sessions": len(self.registry),
            "workers": self.workers,
            "queued": self.pool.queued,
            "memory": self.pool.memory,
            "requests": self.listener.requests,
            "seats": [seat._asdict() for seat in self.seats()],
        }


def _state(key: Key, entry: PoolEntry, *, is_current: bool) -> str:
    if not is_current:
        return "ending"
    if entry.leases:
        return "busy" if entry.leases == 1 else f"busy, {entry.leases} calls"
    # What a relay has it do is not seen from here.
    return "joined" if key.kind == "relay" else "idle"


def client_name(initialize: dict[str, Any]) -> str:
    """Return the name and version that a client gives itself, as much as fits."""
    info = initialize.get("clientInfo")
    if not isinstance(info, dict):
        return ""
    words = [info.get(name) for name in ("title", "version")]
    words[0] = words[0] or info.get("name")
    text = " ".join(word for word in words if isinstance(word, str))
    shown = "".join(one if one.isprintable() else "?" for one in text[: _LONGEST_NAME + 1])
    return shown if len(shown) <= _LONGEST_NAME else shown[:_LONGEST_NAME] + "…"

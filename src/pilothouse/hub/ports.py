"""What the hub's data path asks of the rest: workers by key, and somebody who knows the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.model import Key, SessionRecord
    from pilothouse.machine.net.local_users import Caller


@dataclass(frozen=True, slots=True)
class Upstream:
    """Address of a server: a unix socket by its path, or a TCP port."""

    host_header: str
    """Value of Host that it takes; empty: whatever the client sent."""
    path: str = ""
    host: str = ""
    port: int = 0
    endpoint: str = "/mcp"
    """The path of its MCP endpoint."""
    tls: bool = False
    """The server has a certificate, which this machine trusts."""
    lines: str = ""
    """Unix socket, by its path, on which it speaks JSON-RPC as well, one message a line."""


class Worker(Protocol):
    """A process that serves one key."""

    @property
    def address(self) -> Upstream: ...

    @property
    def pid(self) -> int: ...

    @property
    def died(self) -> asyncio.Future[None]:
        """Future that is done when the process is gone, for whatever reason."""
        ...


class Lease(Protocol):
    """A worker that is kept for as long as the block lasts: it is busy, so nobody stops it."""

    @property
    def worker(self) -> Worker: ...

    @property
    def is_fresh(self) -> bool:
        """Loss of the state of an earlier worker of this key. True for one lease alone: whoever
        holds it tells the client."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Workers(Protocol):
    """All workers of this hub."""

    async def get(self, key: Key, record: SessionRecord) -> Lease:
        """Return the key's worker, started if need be. Use as `async with await get(...)`.

        Raises:
            WorkerStartFailed: it did not start.
            TooBusy: there is no room for another one.
        """
        ...

    def running(self, key: Key) -> Worker | None:
        """Return the key's worker if one runs now; never start one, nor make it busy."""
        ...

    async def end(self, key: Key) -> None:
        """Stop the key's worker, if any: its session is over."""
        ...


class PlacedWorkers(Workers, Protocol):
    """Workers that run wherever there is room for them: in the pool of this hub, or elsewhere."""

    def drop(self, key: Key) -> None:
        """End a worker whose state is out of date. Who asks next gets a new one, and is told."""
        ...


class Fence(Protocol):
    """The keys that this gateway may serve, of those that several gateways know."""

    def holds(self, key: Key) -> bool:
        """Return whether the key may be served here now, for all that is known here."""
        ...

    async def token(self, key: Key) -> int:
        """Return a number that is the same for as long as no other gateway serves the key, and
        larger for each that does.

        Raises:
            Elsewhere: another one serves it.
            RegistryAway: nobody can tell.
            SessionUnknown: the session is over.
        """
        ...

    async def use(self, key: Key) -> bool:
        """Note that a worker is about to serve the key; return whether the client must be told that
        the state of an earlier one, of another gateway, is lost. True once."""
        ...


class Templates(Protocol):
    """The answers that the workers of HTTP clients give alike."""

    async def __call__(self) -> Template:
        """Return them. Raises WorkerStartFailed if they had to be captured, and could not be."""
        ...


class TooMany(NamedTuple):
    """A call that came too early, as it is answered."""

    result: str
    """Result of the tool, as JSON."""
    wait_s: float


class Throttle(Protocol):
    """The limit on how often a caller may call."""

    def __call__(self, principal: str, tool: str) -> TooMany | None:
        """Count a call that may be made now and return None, or return how it is refused."""
        ...


class TrafficObserver(Protocol):
    """Listener that gets each request that was passed to a worker."""

    def __call__(self, method: str, seconds: float, outcome: str) -> None:
        """Note a request; `outcome`: `answered`, a fault's name, or `left` when the client did."""
        ...


@dataclass(frozen=True, slots=True)
class Denied:
    """The refusal of a request that is not let in, as it is answered."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Admit(Protocol):
    """The check of requests by whose process has connected, or by a token all callers share."""

    def __call__(self, caller: Caller, head: RequestHead) -> Denied | None:
        """Return the refusal of a request that may not go on, None if it may."""
        ...


class Authenticate(Protocol):
    """The check of callers by their request. Without authentication there is no such object."""

    async def __call__(self, head: RequestHead) -> str | Denied:
        """Return the principal, one string for each caller and never empty, or the refusal."""
        ...

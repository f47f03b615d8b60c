"""What the hub knows of its clients' sessions, and how it says that it cannot serve one."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from pilothouse.hub.sessions.redis_leases import GatewayRecord

type KeyKind = Literal["session", "handle", "path", "principal", "local", "relay"]
type Era = Literal["2025", "2026"]


class Key(NamedTuple):
    """Identity of a worker: requests with the same key reach the same process, others never do."""

    kind: KeyKind
    value: str
    principal: str = ""
    """Owner when callers are authenticated: the same path key of two of them is two."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"

    @property
    def shown(self) -> str:
        """A name for people: it tells sessions apart, and whoever reads it can enter none."""
        if self.kind == "local":
            return "local user"
        from hashlib import blake2b  # a relay, which is to start at once, has no use for it

        mark = blake2b(f"{self.value}\0{self.principal}".encode(), digest_size=4).hexdigest()
        return f"{'stdio' if self.kind == 'relay' else self.kind} {mark}"

    @property
    def name(self) -> str:
        """Name for others, as the value itself may be all that is needed to join."""
        return f"{self.kind}-{sha256(repr(tuple(self)).encode()).hexdigest()[:12]}"


@dataclass(slots=True)
class SessionRecord:
    """One session, which outlives its workers. Only values, so that it can be kept elsewhere."""

    id: str
    """2025: the public `Mcp-Session-Id`. 2026: its key, as there is nothing else to know it by."""
    key: Key
    era: Era
    created: float
    last_seen: float
    principal: str = ""
    initialize: dict[str, Any] = field(default_factory=dict)
    """The client's own params of `initialize`, sent again to each worker that starts."""
    version: str = ""
    """The protocol version that was agreed on."""
    initialized: bool = False
    """The client has sent `notifications/initialized`."""
    log_level: str = ""
    subscriptions: dict[str, None] = field(default_factory=dict)
    """URIs in the order in which the client subscribed to them."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that this session's relay was started with; empty over HTTP."""
    cwd: str = ""
    worker_sid: str = ""
    """The session id by which the present worker knows this session."""


class GatewayFault(Exception):
    """The hub cannot serve a request; the client gets the message with the status."""

    status = 500
    name = "failed"
    """Name under which it is counted."""
    code = -32603
    """Code of the JSON-RPC error."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        """Seconds; 0 says nothing about it."""


class SessionUnknown(GatewayFault):
    """A session id that is unknown, or another principal's: nobody learns which."""

    status = 404
    name = "session_unknown"
    code = -32600

    def __init__(self) -> None:
        super().__init__("Session not found")


class WorkerStartFailed(GatewayFault):
    """The worker did not start, twice; the message ends with its last lines."""

    status = 503
    name = "worker_start_failed"


class TooBusy(GatewayFault):
    """Lack of room: all workers are in use and the queue is full, or too many sessions."""

    status = 503
    name = "too_busy"


class WorkerLost(GatewayFault):
    """The worker went away before it answered."""

    status = 502
    name = "worker_lost"


class RegistryAway(GatewayFault):
    """The registry that several gateways share cannot be reached."""

    status = 503
    name = "registry_away"


class Elsewhere(Exception):
    """The worker of this key lives at another gateway: the request is passed on to that one."""

    def __init__(self, gate: GatewayRecord) -> None:
        super().__init__(f"served by the gateway at {gate.url}")
        self.gate = gate

"""Ports of the intercept tools and the REST API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pilothouse.core.secrets.redactor import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAsk:
    """Request for a page of the history."""

    limit: int = 100
    offset: int = 0
    cursor: str = ""
    """Position where an earlier page ended; `offset` then counts from there."""
    filter: str = ""
    order: str = "id desc"
    session: str | None = None
    """Session whose packets, with those of listeners without one, are shown; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """Rows with every column of `packets`, `group` for `group_id`."""

    rows: list[dict[str, Any]]
    total_count: int
    total_is_exact: bool = True
    has_more: bool = False
    complete: bool = True
    """True unless the time for a scan was over; `next_cursor` then goes on."""
    next_cursor: str = ""
    warning: str = ""
    """Reasons why the filter is costly or hardly meant so, and what was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One packet of an exchange, whole as it is kept."""

    id: int
    time: float
    length: int
    head: bytes
    body: bytes
    body_length: int
    trailers: bytes = b""
    modified: bool = False
    original_head: bytes | None = None
    original_body: bytes | None = None
    chunks: tuple[int, ...] = ()
    """Sizes of the chunks of a body that was sent in several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """Both sides of the exchange that a packet belongs to."""

    row: dict[str, Any]
    """Row of the packet that was asked for."""
    request: Side | None = None
    response: Side | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAsk:
    level: str = "info"
    limit: int = 100
    since: str = ""
    filter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    logs: list[dict[str, Any]] = field(default_factory=list)
    """`timestamp`, `level`, `message`, `thread`, `class`, newest first."""
    total_count: int = 0
    has_more: bool = False


class Interceptor(Protocol):
    """The intercepting proxy as one agent sees it."""

    redactor: Redactor
    session: str
    """Session whose packets are shown unless all are asked for."""

    async def admit(self, token: str | None, *, writes: bool = False) -> None:
        """Let a call in; the token is checked first, then `--read-only`.

        Raises:
            TokenRefused, RateLimited, ReadOnly
        """

    async def admit_to_history(self, token: str | None) -> str:
        """Let a call in that reads a page; return what keeps packets out of the history right now,
        nothing if all is well.

        Raises:
            TokenRefused, RateLimited
        """

    async def history(self, ask: HistoryAsk) -> HistoryPage:
        """Return a page; raises BadFilter, EngineUnreachable, InvalidInput (bad order, cursor)."""

    async def detail(self, packet_id: int) -> Detail:
        """Return a packet's exchange; raises PacketNotFound, EngineUnreachable."""

    async def explain(self, filter: str) -> dict[str, Any]:
        """Explain how a filter is read and carried out; raises BadFilter."""

    async def config(self) -> dict[str, list[dict[str, Any]]]:
        """Return the four categories, each item with its id."""

    async def listeners(self) -> list[dict[str, Any]]:
        """Return each listen port with `running` and, where it is not, `reason`."""

    async def update_config(self, config: dict[str, Any], *, backup: bool) -> dict[str, Any]:
        """Replace the configuration; return the spec's success, backup_created, backup_info and
        config_updated, besides `listeners` and `warnings`. Raises BadConfig, EngineUnreachable."""

    async def restore_config(self, backup_id: str) -> dict[str, Any]:
        """Restore a backup; return the spec's answer. Raises BadConfig, EngineUnreachable."""

    async def backups(self) -> list[dict[str, Any]]:
        """Return `backup_id`, `timestamp` and `bytes` of each, newest first."""

    async def resend(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Send one packet, edited, so many times; return the spec's answer, with `job_id`.

        Raises:
            PacketNotFound, InvalidInput, RateLimited, EngineUnreachable
        """

    async def bulk_send(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Send several packets; raises as `resend`."""

    async def job(self, job_id: str) -> dict[str, Any]:
        """Return how far a job is; raises JobNotFound."""

    async def jobs(self) -> list[dict[str, Any]]: ...

    async def stop_job(self, job_id: str) -> dict[str, Any]:
        """Stop a job and return how far it came; raises JobNotFound."""

    async def logs(self, ask: LogAsk) -> LogPage:
        """Return a page of the log; raises InvalidInput for a bad level, filter or time."""

    async def set_rules(
        self, mocks: list[dict[str, Any]] | None, breakpoints: list[dict[str, Any]] | None
    ) -> dict[str, Any]:
        """Replace this session's mock rules and breakpoints, None leaves them; return all now set.

        Raises:
            InvalidInput, EngineUnreachable
        """

    async def held(self) -> list[dict[str, Any]]:
        """Return the exchanges that a breakpoint holds: `held_id`, what and since when."""

    async def decide(self, held_id: str, action: str, edit: dict[str, Any]) -> dict[str, Any]:
        """Forward (edited or not) or drop what is held; raises InvalidInput if it is not."""

"""An interceptor in memory, for tests of what tools and REST make of its answers.

It keeps what it was asked, and answers from lists. What is wrong with a filter, an order, a
configuration or a plan is judged by the product's own code; every sound filter matches everything.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pilothouse.core.faults import InvalidInput, RateLimited
from pilothouse.core.redact import Redactor
from pilothouse.intercept.asking import ABSENT
from pilothouse.intercept.config_model import read_config
from pilothouse.intercept.cursors import read_cursor, read_order
from pilothouse.intercept.filters import parse as parse_filter
from pilothouse.intercept.logbook import Logbook
from pilothouse.intercept.model import JobNotFound, PacketNotFound, ReadOnly, TokenRefused
from pilothouse.intercept.plans import bulk_plan, resend_plan
from pilothouse.intercept.ports import Detail, HistoryAsk, HistoryPage, LogAsk, LogPage, Side
from pilothouse.server.call import parse_args
from pilothouse.server.render import answer

if TYPE_CHECKING:
    from pilothouse.core.tool import Tool

TOKEN = "RightTokenOfTwenty"
START = 1_736_937_000_000.0
"""2025-01-15T10:30:00Z"""
CATEGORIES = ("listenPorts", "servers", "modifications", "sslPassThroughs")


def row(packet_id: int, **changes: Any) -> dict[str, Any]:
    """A row as the history gives it."""
    made: dict[str, Any] = {
        "id": packet_id,
        "group": packet_id,
        "is_response": 0,
        "connection": "c1",
        "session": "s1",
        "listener": 8080,
        "type": "HTTP",
        "encode": "HTTP",
        "alpn": "http/1.1",
        "scheme": "https",
        "server_name": "api.example.com",
        "client_ip": "192.168.1.100",
        "client_port": 50_000,
        "server_ip": "93.184.216.34",
        "server_port": 443,
        "method": "GET",
        "url": "/api/users",
        "version": "HTTP/1.1",
        "status": 200,
        "duration_ms": 245.25,
        "time": START + packet_id,
        "length": 1024,
        "modified": 0,
        "resend": 0,
        "job": "",
        "key": "",
        "error": "",
        "peer_id": packet_id + 1,
        "peer_time": START,
        "peer_length": 10,
        "peer_modified": 0,
    }
    return {**made, **changes}


def side(packet_id: int, head: bytes, body: bytes = b"", **changes: Any) -> Side:
    made = Side(
        id=packet_id,
        time=START,
        length=len(head) + len(body),
        head=head,
        body=body,
        body_length=len(body),
    )
    return replace(made, **changes)


def exchange(
    packet_id: int,
    request_body: bytes = b"",
    response_body: bytes = b"{}",
    content_type: str = "application/json",
    **changes: Any,
) -> Detail:
    """Both packets of a plain exchange."""
    kind = content_type.encode()
    request = (
        b"GET /api/users HTTP/1.1\r\nHost: api.example.com\r\nAuthorization: Bearer abcdef\r\n"
    )
    response = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n\r\n"
    return Detail(
        row=row(packet_id, **changes),
        request=side(packet_id, request + b"Content-Type: " + kind + b"\r\n\r\n", request_body),
        response=side(packet_id + 1, response, response_body),
    )


@dataclass
class FakeInterceptor:
    """Implements `Interceptor`."""

    redactor: Redactor = field(default_factory=Redactor)
    session: str = "s1"
    filled_token: str = TOKEN
    read_only: bool = False
    wrong_tokens: int = 0
    details: dict[int, Detail] = field(default_factory=dict)
    page: HistoryPage | None = None
    stored: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {name: [] for name in CATEGORIES}
    )
    entries: list[dict[str, Any]] = field(default_factory=list)
    running_jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {"mocks": [], "breakpoints": []}
    )
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """What was asked for after admission, with its arguments."""

    def admit(self, token: str | None, *, writes: bool = False) -> None:
        if token is ABSENT:
            token = self.filled_token
        if self.wrong_tokens >= 1_000:
            raise RateLimited("too many wrong access tokens", retryAfterSec=12.5)
        if token != TOKEN:
            self.wrong_tokens += 1
            raise TokenRefused("the access token is missing or wrong", hint="pilothouse token")
        if writes and self.read_only:
            raise ReadOnly("Pilothouse was started with --read-only")

    def _ask(self, what: str, with_: Any = None) -> None:
        self.asked.append((what, with_))

    async def history(self, ask: HistoryAsk) -> HistoryPage:
        self._ask("history", ask)
        if ask.filter:
            parse_filter(ask.filter)
        read_cursor(ask.cursor, read_order(ask.order), (ask.filter, ask.session))
        if self.page is not None:
            return self.page
        rows = [detail.row for _, detail in sorted(self.details.items(), reverse=True)]
        shown = rows[ask.offset : ask.offset + ask.limit]
        more = ask.offset + len(shown) < len(rows)
        return HistoryPage(rows=shown, total_count=len(rows), has_more=more)

    async def detail(self, packet_id: int) -> Detail:
        self._ask("detail", packet_id)
        if packet_id not in self.details:
            raise PacketNotFound(f"there is no packet {packet_id}", hint="get_history lists them")
        return self.details[packet_id]

    async def explain(self, filter: str) -> dict[str, Any]:
        await self.history(HistoryAsk(filter=filter))
        return {"parsed": ["==", "method", "GET"], "plan": "index"}

    async def config(self) -> dict[str, list[dict[str, Any]]]:
        return self.stored

    async def listeners(self) -> list[dict[str, Any]]:
        return [{"id": 1, "port": 8080, "running": False, "reason": "taken"}]

    async def update_config(self, config: dict[str, Any], *, backup: bool) -> dict[str, Any]:
        self._ask("update_config", (config, backup))
        self.stored = read_config(config).dump()
        done: dict[str, Any] = {"success": True, "backup_created": backup, "config_updated": True}
        return {**done, "backup_info": {"backup_id": "backup_20250804_120000"}} if backup else done

    async def restore_config(self, backup_id: str) -> dict[str, Any]:
        self._ask("restore_config", backup_id)
        return {"success": True, "backup_id_restored": backup_id, "config_restored": True}

    async def backups(self) -> list[dict[str, Any]]:
        return [{"backup_id": "backup_20250804_120000", "timestamp": "2025-08-04T12:00:00Z"}]

    async def resend(self, plan: dict[str, Any]) -> dict[str, Any]:
        resend_plan(plan)
        self._ask("resend", plan)
        if plan["packet_id"] not in self.details:
            raise PacketNotFound(f"there is no packet {plan['packet_id']}")
        return self._sent(plan["count"], job_id="j1")

    async def bulk_send(self, plan: dict[str, Any]) -> dict[str, Any]:
        bulk_plan(plan)
        self._ask("bulk_send", plan)
        return self._sent(len(plan["packet_ids"]) * plan["count"], job_id="j2", mode=plan["mode"])

    def _sent(self, count: int, **more: Any) -> dict[str, Any]:
        return {
            "success": True,
            "sent_count": count,
            "failed_count": 0,
            "packet_ids": list(range(100, 100 + count)),
            "execution_time_ms": 21,
            **more,
        }

    async def job(self, job_id: str) -> dict[str, Any]:
        if job_id not in self.running_jobs:
            raise JobNotFound(f"there is no job {job_id}")
        return self.running_jobs[job_id]

    async def jobs(self) -> list[dict[str, Any]]:
        return list(self.running_jobs.values())

    async def stop_job(self, job_id: str) -> dict[str, Any]:
        self._ask("stop_job", job_id)
        return {**await self.job(job_id), "status": "stopped"}

    async def logs(self, ask: LogAsk) -> LogPage:
        self._ask("logs", ask)
        Logbook(lambda: START).read(ask)
        shown = self.entries[: ask.limit]
        return LogPage(
            logs=shown, total_count=len(self.entries), has_more=len(shown) < len(self.entries)
        )

    async def set_rules(
        self, mocks: list[dict[str, Any]] | None, breakpoints: list[dict[str, Any]] | None
    ) -> dict[str, Any]:
        self._ask("set_rules", (mocks, breakpoints))
        given = {"mocks": mocks, "breakpoints": breakpoints}
        self.rules |= {name: rules for name, rules in given.items() if rules is not None}
        return self.rules

    def hold(self, held_id: str, head: bytes, body: bytes) -> None:
        self.waiting[held_id] = {
            "held_id": held_id,
            "session": self.session,
            "side": "request",
            "method": "POST",
            "url": "https://shop.example/pay?token=hunter22",
            "since": START,
            "forwarded_at": START + 30_000,
            "head": b64encode(head).decode(),
            "body": b64encode(body).decode(),
            "body_length": len(body),
        }

    async def held(self) -> list[dict[str, Any]]:
        return list(self.waiting.values())

    async def decide(self, held_id: str, action: str, edit: dict[str, Any]) -> dict[str, Any]:
        self._ask("decide", (held_id, action, edit))
        if held_id not in self.waiting:
            raise InvalidInput(f"held_id: nothing is held as {held_id!r}", field="held_id")
        return {"held_id": held_id, "action": action, "edited": bool(edit)}


async def call(tool: Tool, interceptor: FakeInterceptor, **args: Any) -> dict[str, Any]:
    """What a call with the right token answers; `access_token=ABSENT` leaves it out."""
    raw = {"access_token": TOKEN, **args}
    if raw["access_token"] is ABSENT:
        del raw["access_token"]
    result = await tool.handler(parse_args(tool, raw), interceptor)
    return answer(tool, result).structured

"""The intercepting proxy as one agent sees it, or the REST API."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.faults import Fault
from pilothouse.intercept.engine_process import ANSWER_S
from pilothouse.intercept.tools.shared import ABSENT

if TYPE_CHECKING:
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.timeline.timeline import Timeline
    from pilothouse.intercept.ports import Detail, HistoryAsk, HistoryPage, LogAsk, LogPage
    from pilothouse.intercept.proxy import Proxy

TIMEOUT_MS = 30_000
"""Milliseconds for one send, unless the plan has another limit."""


@dataclass(eq=False)
class AgentInterceptor:
    """Implementation of `Interceptor` for one agent, and for the REST API."""

    proxy: Proxy
    session: str
    redactor: Redactor
    timeline: Timeline
    filled_token: str = ""
    """Token that stands in for an absent one, on stdio alone."""
    who: str = "an agent"

    async def admit(self, token: str | None, *, writes: bool = False) -> None:
        given = self.filled_token if token is ABSENT else token
        self.proxy.admit(given, self.who, writes=writes)

    async def admit_to_history(self, token: str | None) -> str:
        await self.admit(token)
        return await self.proxy.trouble()

    async def history(self, ask: HistoryAsk) -> HistoryPage:
        return await asyncio.to_thread(self.proxy.reader.page, ask)

    async def detail(self, packet_id: int) -> Detail:
        return await asyncio.to_thread(self.proxy.reader.detail, packet_id)

    async def explain(self, filter: str) -> dict[str, Any]:
        return await asyncio.to_thread(self.proxy.reader.explain, filter)

    async def config(self) -> dict[str, list[dict[str, Any]]]:
        return await self.proxy.config()

    async def listeners(self) -> list[dict[str, Any]]:
        return self.proxy.states

    async def update_config(self, config: dict[str, Any], *, backup: bool) -> dict[str, Any]:
        return await self.proxy.replace(config, backup=backup, who=self.who)

    async def restore_config(self, backup_id: str) -> dict[str, Any]:
        return await self.proxy.restore(backup_id, who=self.who)

    async def backups(self) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self.proxy.store.backups)

    async def resend(self, plan: dict[str, Any]) -> dict[str, Any]:
        return await self._send("resend", plan, f"packet {plan.get('packet_id')}")

    async def bulk_send(self, plan: dict[str, Any]) -> dict[str, Any]:
        return await self._send("bulk_send", plan, f"packets {plan.get('packet_ids')}")

    async def job(self, job_id: str) -> dict[str, Any]:
        return await self._ask("job", job_id=job_id, session=self._whose)

    async def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.proxy.engine.ask("jobs", session=self._whose)
        return found

    async def stop_job(self, job_id: str) -> dict[str, Any]:
        return await self._ask("stop_job", job_id=job_id, session=self._whose)

    async def logs(self, ask: LogAsk) -> LogPage:
        return self.proxy.book.read(ask)

    async def set_rules(
        self, mocks: list[dict[str, Any]] | None, breakpoints: list[dict[str, Any]] | None
    ) -> dict[str, Any]:
        return {
            kind: await self.proxy.rules(kind, self.session, rules, self.who)
            for kind, rules in (("mocks", mocks), ("breakpoints", breakpoints))
        }

    async def held(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.proxy.engine.ask("held", session=self.session)
        return found

    async def decide(self, held_id: str, action: str, edit: dict[str, Any]) -> dict[str, Any]:
        return await self._ask(
            "decide", held_id=held_id, action=action, edit=edit, session=self.session
        )

    @property
    def _whose(self) -> str | None:
        """The session whose jobs are meant; REST belongs to none, and sees those of all."""
        return self.session or None

    async def _send(self, do: str, plan: dict[str, Any], what: str) -> dict[str, Any]:
        sends = plan.get("count", 1) * len(plan.get("packet_ids", "1"))
        each_ms = plan.get("interval_ms", 0) + plan.get("timeout_ms", TIMEOUT_MS)
        within = ANSWER_S + sends * each_ms / 1000
        # Before it is sent, so that nothing is ever sent without an entry.
        self.proxy.book.audit(self.who, f"{what} sent again")
        try:
            sent: dict[str, Any] = await self.proxy.engine.ask(
                do, within=within, plan={**plan, "session": self.session}
            )
        except Fault as fault:
            self.proxy.book.audit(self.who, f"{what} not sent again after all: {fault.message}")
            raise
        return sent

    async def _ask(self, do: str, **args: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self.proxy.engine.ask(do, **args)
        return answer

"""The intercepting proxy of the hub, as a worker reaches it (intercept/hub_server.py is the other
end).

What belongs to the agent stays here: its timeline, its redactor, its own `--read-only`. The hub
lets a call in. The history is then read here, from its file: while one agent searches it, the
others are not to wait for the hub.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.core.hub_port import HubLost
from pilothouse.intercept.model import (
    ConfigChanged,
    EngineUnreachable,
    PacketRecorded,
    only_reads,
)
from pilothouse.intercept.ports import LogPage
from pilothouse.intercept.query.reader import HistoryReader
from pilothouse.intercept.tools.shared import ABSENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pilothouse.core.hub_port import HubPort
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.timeline.timeline import Timeline
    from pilothouse.intercept.ports import Detail, HistoryAsk, HistoryPage, LogAsk

EVENTS = {event.__name__: event for event in (PacketRecorded, ConfigChanged)}
"""Events that the hub sends, by their names."""


@asynccontextmanager
async def open_remote_proxy(hub: HubPort) -> AsyncIterator[RemoteProxy]:
    """Hold the hub's proxy for the block; one for all sessions of this process.

    Raises:
        EngineUnreachable: the hub is lost.
    """
    proxy = RemoteProxy(hub)
    stop = hub.listen("intercept", proxy.receive)
    try:
        async with proxy.holding("view") as path:
            with closing(HistoryReader(Path(path))) as proxy.reader:
                yield proxy
    finally:
        stop()


class RemoteProxy:
    """Access of a worker to the one `Proxy`."""

    reader: HistoryReader
    """Reader of the file that the hub's engine writes; opened when it is first used."""

    def __init__(self, hub: HubPort) -> None:
        self._hub = hub
        self._timelines: list[Timeline] = []

    @contextmanager
    def telling(self, timeline: Timeline) -> Iterator[None]:
        """Put what happens on this timeline until the block ends."""
        self._timelines.append(timeline)
        try:
            yield
        finally:
            self._timelines.remove(timeline)

    def receive(self, what: str, given: dict[str, Any]) -> None:
        event = EVENTS[what](**{**given, "keys": frozenset(given["keys"])})
        for timeline in self._timelines:
            timeline.emit(event)

    async def ask(self, method: str, /, **given: Any) -> Any:
        """Call a method of the proxy; raises Fault, EngineUnreachable when the hub is lost."""
        try:
            return await self._hub.call(f"intercept.{method}", **given)
        except HubLost as lost:
            raise _unreachable(lost) from None

    @asynccontextmanager
    async def holding(self, method: str, /, **given: Any) -> AsyncIterator[Any]:
        """Hold what a method gives; raises Fault, EngineUnreachable when the hub is lost."""
        async with AsyncExitStack() as stack:
            try:
                held = self._hub.hold(f"intercept.{method}", **given)
                value = await stack.enter_async_context(held)
            except HubLost as lost:
                raise _unreachable(lost) from None
            yield value

    @asynccontextmanager
    async def browser(
        self, name: str, session: str, upstream: int, secret: str
    ) -> AsyncIterator[int]:
        """Open a listener as `Proxy.browser` does; whose it is, the hub knows."""
        async with self.holding("browser", name=name, upstream=upstream, secret=secret) as port:
            yield port

    async def trusted_key(self) -> str:
        """Return the key's hash as `Proxy.trusted_key` does."""
        return str(await self.ask("trusted_key"))


@dataclass(eq=False)
class RemoteInterceptor:
    """Implementation of `Interceptor` for one agent of a worker."""

    proxy: RemoteProxy
    session: str
    redactor: Redactor
    filled_token: str = ""
    """Token that stands in for an absent one, on stdio alone."""
    read_only: bool = False
    """This agent's own setting; the hub has one, too."""

    async def admit(self, token: str | None, *, writes: bool = False) -> None:
        await self.proxy.ask("admit", token=self._given(token), writes=writes)
        if writes and self.read_only:
            raise only_reads()

    async def admit_to_history(self, token: str | None) -> str:
        return str(await self.proxy.ask("admit_to_history", token=self._given(token)))

    async def history(self, ask: HistoryAsk) -> HistoryPage:
        return await asyncio.to_thread(self.proxy.reader.page, ask)

    async def detail(self, packet_id: int) -> Detail:
        return await asyncio.to_thread(self.proxy.reader.detail, packet_id)

    async def explain(self, filter: str) -> dict[str, Any]:
        return await asyncio.to_thread(self.proxy.reader.explain, filter)

    async def config(self) -> dict[str, list[dict[str, Any]]]:
        return await self._ask("config")

    async def listeners(self) -> list[dict[str, Any]]:
        return await self._list("listeners")

    async def update_config(self, config: dict[str, Any], *, backup: bool) -> dict[str, Any]:
        return await self._ask("update_config", config=config, backup=backup)

    async def restore_config(self, backup_id: str) -> dict[str, Any]:
        return await self._ask("restore_config", backup_id=backup_id)

    async def backups(self) -> list[dict[str, Any]]:
        return await self._list("backups")

    async def resend(self, plan: dict[str, Any]) -> dict[str, Any]:
        return await self._ask("resend", plan=plan)

    async def bulk_send(self, plan: dict[str, Any]) -> dict[str, Any]:
        return await self._ask("bulk_send", plan=plan)

    async def job(self, job_id: str) -> dict[str, Any]:
        return await self._ask("job", job_id=job_id)

    async def jobs(self) -> list[dict[str, Any]]:
        return await self._list("jobs")

    async def stop_job(self, job_id: str) -> dict[str, Any]:
        return await self._ask("stop_job", job_id=job_id)

    async def logs(self, ask: LogAsk) -> LogPage:
        return LogPage(**await self.proxy.ask("logs", **asdict(ask)))

    async def set_rules(
        self, mocks: list[dict[str, Any]] | None, breakpoints: list[dict[str, Any]] | None
    ) -> dict[str, Any]:
        return await self._ask("set_rules", mocks=mocks, breakpoints=breakpoints)

    async def held(self) -> list[dict[str, Any]]:
        return await self._list("held")

    async def decide(self, held_id: str, action: str, edit: dict[str, Any]) -> dict[str, Any]:
        return await self._ask("decide", held_id=held_id, action=action, edit=edit)

    def _given(self, token: str | None) -> str | None:
        return self.filled_token if token is ABSENT else token

    async def _ask(self, method: str, /, **given: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self.proxy.ask(method, **given)
        return answer

    async def _list(self, method: str, /, **given: Any) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = await self.proxy.ask(method, **given)
        return answer


def _unreachable(lost: HubLost) -> EngineUnreachable:
    return EngineUnreachable(f"the proxy runs in the hub: {lost.message}", hint=lost.hint)

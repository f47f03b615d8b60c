"""The hub's intercepting proxy as it serves one worker (intercept/hub_client.py is the client)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.timeline.timeline import Timeline
from pilothouse.intercept.agent import AgentInterceptor
from pilothouse.intercept.ports import LogAsk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pilothouse.core.timeline.events import Event
    from pilothouse.intercept.proxy import Proxy

    type Tell = Callable[[str, dict[str, Any]], None]
    """Function that sends the worker an event, by its name and details."""

_AS_GIVEN = frozenset(
    {
        "admit", "admit_to_history", "backups", "bulk_send", "config", "decide", "held", "job",
        "jobs", "listeners", "resend", "restore_config", "set_rules", "stop_job", "update_config",
    }
)  # fmt: skip
"""Methods of `Interceptor` whose arguments are plain values."""


class ServedProxy:
    """The proxy for the agent of one worker."""

    def __init__(self, proxy: Proxy, session: str, tell: Tell) -> None:
        self._proxy = proxy
        self._session = session
        self._view = AgentInterceptor(
            proxy=proxy,
            session=session,
            redactor=Redactor(),  # the worker masks what it shows
            timeline=_Told(tell),
            who=f"session {session}",
        )

    async def call(self, method: str, given: dict[str, Any]) -> Any:
        """Call a method; raises Fault, and LookupError for a method that there is not."""
        match method:
            case "logs":
                return await self._view.logs(LogAsk(**given))
            case "trusted_key":
                return await self._proxy.trusted_key()
        if method not in _AS_GIVEN:
            raise LookupError(f"the proxy has no {method[:80]}")
        return await getattr(self._view, method)(**given)

    @asynccontextmanager
    async def hold(self, method: str, given: dict[str, Any]) -> AsyncIterator[Any]:
        """Hold a view or a listener; raises Fault, and LookupError for anything else."""
        if method == "view":
            async with self._proxy.view(self._view):
                yield str(self._proxy.reader.path)
        elif method == "browser":
            name, upstream, secret = given["name"], given["upstream"], given["secret"]
            async with self._proxy.browser(name, self._session, upstream, secret) as port:
                yield port
        else:
            raise LookupError(f"the proxy lends no {method[:80]}")


class _Told(Timeline):
    """Timeline that keeps nothing: events are sent to the worker, whose timeline keeps them."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, event: Event) -> int:
        self._tell(event.name, {field.name: getattr(event, field.name) for field in fields(event)})
        return 0

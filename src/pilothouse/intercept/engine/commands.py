"""The commands that the engine takes from its owner."""

from __future__ import annotations

import logging
import os
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import psutil

from pilothouse.core.declare.faults import InvalidInput, NotAvailable
from pilothouse.intercept.config.rules import ReadyRules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pilothouse.intercept.engine.flows.sockets import Live
    from pilothouse.intercept.engine.listeners import ProxyListeners
    from pilothouse.intercept.engine.own_ports import OwnPortGuard
    from pilothouse.intercept.engine.rules.apply import RuleApplier
    from pilothouse.intercept.engine.rules.breakpoints import Breakpoints
    from pilothouse.intercept.engine.rules.mocks import Mocks
    from pilothouse.intercept.history.writer import HistoryWriter
    from pilothouse.intercept.replay.jobs import Jobs

logger = logging.getLogger(__name__)


class Commands:
    """Each public method is a command; its arguments are the request's."""

    def __init__(
        self,
        *,
        changes: RuleApplier,
        listeners: ProxyListeners,
        guard: OwnPortGuard,
        mocks: Mocks,
        breakpoints: Breakpoints,
        live: Live,
        history: HistoryWriter,
        open_jobs: Callable[[], Jobs],
        spki: str = "",
    ) -> None:
        """Take what the commands use; `spki` is the hash of the key of all certificates shown."""
        self._spki = spki
        self._changes = changes
        self._listeners = listeners
        self._guard = guard
        self._mocks = mocks
        self._breakpoints = breakpoints
        self._live = live
        self._history = history
        self._open_jobs = open_jobs
        self._made_jobs: Jobs | None = None

    async def do(self, name: str, args: dict[str, Any]) -> Any:
        """Carry out a command by its name; raises Fault."""
        is_command = not name.startswith("_") and name not in ("do", "close")
        command = getattr(self, name, None) if is_command else None
        if command is None:
            raise InvalidInput(f"the engine has no command {name!r}")
        return await command(**args)

    @property
    def _jobs(self) -> Jobs:
        if self._made_jobs is None:
            self._made_jobs = self._open_jobs()
        return self._made_jobs

    async def ping(self) -> str:
        return "pong"

    async def state(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "history": self._history.state(),
            "listeners": self._listeners.states(),
            "browsers": self._listeners.browsers(),
            "spki": self._spki,
            "memory": psutil.Process().memory_info().rss,
        }

    async def history_state(self) -> dict[str, Any]:
        return self._history.state()

    async def flush(self) -> None:
        """Return when all that was recorded until now is in the file."""
        await self._history.flush()

    # Listeners

    async def configure(
        self,
        config: dict[str, Any],
        blocked_ports: Sequence[int] = (),
        allow_ports: Sequence[int] = (),
    ) -> list[dict[str, Any]]:
        self._changes.use(ReadyRules.of(config))
        self._guard.configure(blocked_ports, allow_ports)
        states = await self._listeners.configure(config)
        for state in states:
            if not state["running"] and state["reason"] != "disabled":
                logger.error("port %d is not listened on: %s", state["port"], state["reason"])
        return states

    async def open_browser(
        self,
        name: str,
        session: str,
        upstream: int | None = None,
        port: int = 0,
        secret: str = "",
    ) -> dict[str, Any]:
        """Open a listener for one browser, whose packets are its session's alone. `port` is the one
        that it had before the engine was started anew, or 0 for any.

        Raises:
            NotAvailable
        """
        listener = await self._listeners.open_browser(name, session, upstream, port, secret)
        if listener.instance is None:
            raise NotAvailable(f"the browser's proxy cannot listen: {listener.reason}")
        return {"port": listener.port}

    async def close_browser(self, name: str) -> None:
        await self._listeners.close_browser(name)

    async def end_session(self, session: str) -> None:
        """End a session's rules and jobs; what is held for it goes on."""
        self._mocks.set(session, [])
        self._breakpoints.set(session, [])
        self._breakpoints.release(session)
        if self._made_jobs:
            await self._made_jobs.stop(session)

    # Mocks and breakpoints

    async def mocks(
        self, session: str, rules: list[dict[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        return self._mocks.set(session, rules)

    async def breakpoints(
        self, session: str, rules: list[dict[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        return self._breakpoints.set(session, rules)

    async def held(self, session: str | None = None) -> list[dict[str, Any]]:
        return self._breakpoints.held(session)

    async def decide(
        self,
        held_id: str,
        action: str,
        edit: dict[str, Any] | None = None,
        session: str | None = None,
    ) -> dict[str, Any]:
        return self._breakpoints.decide(held_id, action, edit or {}, session)

    # Sending

    async def inject(
        self, connection: str, to_client: bool, payload_b64: str, is_text: bool = True
    ) -> None:
        await self._live.inject(
            connection,
            to_client=to_client,
            payload=b64decode(payload_b64),
            is_text=is_text,
            record=True,
        )

    async def resend(self, plan: dict[str, Any]) -> dict[str, Any]:
        return await self._jobs.resend(plan)

    async def bulk_send(self, plan: dict[str, Any]) -> dict[str, Any]:
        return await self._jobs.bulk_send(plan)

    # Without a session, the jobs of all sessions.

    async def job(self, job_id: str, session: str | None = None) -> dict[str, Any]:
        return self._jobs.job(job_id, session)

    async def jobs(self, session: str | None = None) -> list[dict[str, Any]]:
        return self._jobs.jobs(session)

    async def stop_job(self, job_id: str, session: str | None = None) -> dict[str, Any]:
        return await self._jobs.stop_job(job_id, session)

    async def close(self) -> None:
        """Stop what is being sent."""
        if self._made_jobs:
            await self._made_jobs.stop()

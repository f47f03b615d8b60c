"""The agents of one process as people see them: what a dashboard asks of a runtime.

Beside `e2e_recording.py` a file that knows both the browser sessions and what is observed of them.
A worker answers its hub by it, and a process without a hub the page itself. Looking is no use: it
keeps no session from being idle.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pilothouse.dashboard.ports import no_such_agent
from pilothouse.server.transports.pages import resident_bytes
from pilothouse.wiring.agent import ShownAgent, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.dashboard.ports import RowBatch
    from pilothouse.server.runtime import Runtime
    from pilothouse.server.session import Session


class Showing:
    """All agents of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._shown: WeakKeyDictionary[Session, ShownAgent] = WeakKeyDictionary()

    async def agents(self) -> list[dict[str, Any]]:
        """Return each agent with the name by which it is asked about, the oldest one first."""
        return [
            {"name": name_of(session), **await self._of(session).facts(self._runtime.started_at)}
            for session in self._runtime.sessions
        ]

    def find(self, name: str) -> ShownAgent:
        """Return the agent of a name, the oldest one without. Raises NoSuchAgent."""
        for session in self._runtime.sessions:
            if name in ("", name_of(session)):
                return self._of(session)
        raise no_such_agent(name)

    def _of(self, session: Session) -> ShownAgent:
        shown = self._shown.get(session)
        if shown is None:
            shown = self._shown[session] = ShownAgent(session)
        return shown

    # For a hub

    async def answer(self, what: str, given: dict[str, Any]) -> Any:
        """Answer what a hub asks on behalf of its pages. Raises NoSuchAgent, NoSuchThing,
        InvalidInput, and LookupError for what is not known here."""
        if what == "agents":
            return await self.agents()
        if what == "counts":
            return self._runtime.metrics.tally()
        agent = self.find(given.pop("agent"))
        match what:
            case "rows":
                return (await agent.rows(**given))._asdict()
            case "moment":
                return await agent.moment(**given)
            case "body":
                return await agent.body(**given)
            case "picture":
                return await agent.picture(**given)
            case "file":
                return await agent.file(**given)
        raise LookupError(f"nothing is shown as {what}")


class LocalAgents:
    """Implements the dashboard's `Agents` for the sessions of this process."""

    def __init__(self, runtime: Runtime, frame: Callable[[], dict[str, Any]]) -> None:
        self._showing = Showing(runtime)
        self._frame = frame

    async def overview(self) -> dict[str, Any]:
        memory = resident_bytes()
        agents = [
            {
                "id": told["name"],
                "client": told["name"],
                "state": "live",
                "pid": os.getpid(),
                "memory": memory,
                **told,
            }
            for told in await self._showing.agents()
        ]
        return {**self._frame(), "sessions": agents}

    async def rows(self, agent: str, cursor: str) -> RowBatch:
        return await self._showing.find(agent).rows(cursor)

    async def moment(self, agent: str, row: str) -> dict[str, Any]:
        return await self._showing.find(agent).moment(row)

    async def body(self, agent: str, request: str) -> dict[str, Any]:
        return await self._showing.find(agent).body(request)

    async def picture(self, agent: str, app: str, tab: str) -> bytes:
        return await self._showing.find(agent).picture(app, tab)

    async def file(self, agent: str, app: str, name: str) -> bytes:
        return await self._showing.find(agent).file(app, name)

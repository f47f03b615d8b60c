"""The agents of a hub as people see them: each worker is asked, while a page is open."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pilothouse.dashboard.ports import RowBatch, no_such_agent
from pilothouse.ipc.rpc import LineLost, ServiceBroke

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.hub.services.server import Services, WorkerPeer
    from pilothouse.hub.state import Hub, Seat

OVERVIEW_S = 2.0
"""Seconds that a worker may take to report its agents; a busy one is shown as it was before."""
ENDED_S = 900.0
"""Seconds for which an agent that has gone is still listed."""
MOST_ENDED = 20
PART = "~"
"""Separator between a worker's name and that of a further session in it."""


class HubShowing:
    """Implements the dashboard's `Agents` for all workers of a hub."""

    def __init__(
        self,
        hub: Hub,
        services: Services,
        frame: Callable[[], dict[str, Any]],
        clock: Callable[[], float],
    ) -> None:
        """Take `frame`, what an overview has beside the agents, and a `clock` in seconds."""
        self._hub = hub
        self._services = services
        self._frame = frame
        self._clock = clock
        self._last: dict[str, list[dict[str, Any]]] = {}
        """Answers of the workers to the newest overview, by session."""
        self._listed: dict[str, dict[str, Any]] = {}
        self._ended: dict[str, tuple[float, dict[str, Any]]] = {}

    async def overview(self) -> dict[str, Any]:
        peers = self._services.peers()
        told = await asyncio.gather(*(self._ask_agents(peer) for peer in peers.values()))
        self._last = dict(zip(peers, told, strict=True))
        listed = {one["id"]: one for seat in self._hub.seats() for one in self._agents(seat)}
        self._remember_ended(listed)
        ended = [agent for _, agent in self._ended.values()]
        return {**self._frame(), "sessions": [*listed.values(), *ended]}

    async def _ask_agents(self, peer: WorkerPeer) -> list[dict[str, Any]]:
        try:
            async with asyncio.timeout(OVERVIEW_S):
                told: list[dict[str, Any]] = await peer.show("agents")
                return told
        except (LineLost, ServiceBroke, TimeoutError):
            return self._last.get(peer.session, [])

    def _agents(self, seat: Seat) -> list[dict[str, Any]]:
        """Return the agents of a seat: mostly one, though there may be several in one worker."""
        told = self._last.get(seat.id)
        if not told:
            state = "live" if seat.id in self._last else "known"
            return [_agent(seat, seat.id, state, {})]
        ids = [seat.id, *(f"{seat.id}{PART}{one['name']}" for one in told[1:])]
        return [_agent(seat, id, "live", one) for id, one in zip(ids, told, strict=True)]

    def _remember_ended(self, listed: dict[str, dict[str, Any]]) -> None:
        now = self._clock()
        for id, agent in self._listed.items():
            if id not in listed:
                self._ended[id] = (now, {**agent, "state": "ended", "pid": 0, "memory": 0})
        self._listed = listed
        kept = [(id, one) for id, one in self._ended.items() if now - one[0] < ENDED_S]
        self._ended = {id: one for id, one in kept[-MOST_ENDED:] if id not in listed}

    # What belongs to one agent

    async def rows(self, agent: str, cursor: str) -> RowBatch:
        return RowBatch(**await self._ask(agent, "rows", cursor=cursor))

    async def moment(self, agent: str, row: str) -> dict[str, Any]:
        told: dict[str, Any] = await self._ask(agent, "moment", row=row)
        return told

    async def body(self, agent: str, request: str) -> dict[str, Any]:
        told: dict[str, Any] = await self._ask(agent, "body", request=request)
        return told

    async def picture(self, agent: str, app: str, tab: str) -> bytes:
        jpeg: bytes = await self._ask(agent, "picture", app=app, tab=tab)
        return jpeg

    async def file(self, agent: str, app: str, name: str) -> bytes:
        content: bytes = await self._ask(agent, "file", app=app, name=name)
        return content

    async def _ask(self, agent: str, what: str, **given: Any) -> Any:
        worker, _, part = agent.partition(PART)
        peer = self._services.peers().get(worker)
        if peer is None:
            raise no_such_agent(agent)
        try:
            return await peer.show(what, agent=part, **given)
        except LineLost:
            raise no_such_agent(agent) from None


def _agent(seat: Seat, id: str, state: str, told: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": id,
        "name": seat.name,
        "client": seat.client or seat.name,
        "state": state,
        "pid": seat.pid,
        "memory": seat.memory,
        "idleSec": told.get("idleSec", round(seat.seen_s)),
        "calls": told.get("calls", 0),
        "apps": told.get("apps", []),
    }

"""What the dashboard needs of the side that has the agents: one process, or hub and workers."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from pilothouse.core.declare.faults import Fault


class NoSuchAgent(Fault):
    """No agent of that id runs here, or no longer."""

    code = "no_such_agent"
    status = 404


class NoSuchThing(Fault):
    """The agent has no such app, row, body or file, or no longer."""

    code = "not_found"
    status = 404


class RowBatch(NamedTuple):
    """Rows on their way to a page."""

    packed: bytes
    """JSON of `rows`, `cursor` and `missed`: written once, where the rows are, and passed on."""
    cursor: str
    """Cursor for the rows that follow these."""


class Agents(Protocol):
    """All agents, as far as people may watch them. Everything is masked already.

    An agent that is not there raises NoSuchAgent, and what an agent does not have NoSuchThing.
    """

    async def overview(self) -> dict[str, Any]:
        """Return what runs here: services, bookmarks and the agents with their apps."""

    async def rows(self, agent: str, cursor: str) -> RowBatch:
        """Return the next rows after a cursor, empty for the oldest kept; wait until there is one.
        Raises InvalidInput for a cursor that is none."""

    async def moment(self, agent: str, row: str) -> dict[str, Any]:
        """Return all that is known of one row, and the rows that are related to it; those that are
        so by a guess say why."""

    async def body(self, agent: str, request: str) -> dict[str, Any]:
        """Return the body of a response."""

    async def picture(self, agent: str, app: str, tab: str) -> bytes:
        """Return a JPEG of a tab, the one that the agent uses unless another is named; empty while
        there is none to be had without disturbing it."""

    async def file(self, agent: str, app: str, name: str) -> bytes:
        """Return a dossier or a picture that a failed step left."""


def no_such_agent(agent: str) -> NoSuchAgent:
    return NoSuchAgent(
        f"there is no agent {agent[:80]!r}, or it has no worker now",
        hint="GET /api/overview lists those that are live",
    )

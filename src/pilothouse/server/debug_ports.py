"""Which debugging port belongs to which agent's e2e session.

A page or an agent that reached another session's port could read and drive its browser, so these
ports are refused to everybody but their owner.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    owner: str
    """The agent: a session of the house."""
    port: int


class DebugPorts:
    """All claims of this process."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}

    def claim(self, owner: str, session_id: str, port: int) -> None:
        self._claims[session_id] = Claim(owner, port)

    def release(self, session_id: str) -> None:
        self._claims.pop(session_id, None)

    def port_of(self, owner: str, session_id: str) -> int | None:
        """The port of an agent's own session; another agent's is as unknown as none."""
        claim = self._claims.get(session_id)
        return claim.port if claim is not None and claim.owner == owner else None

    def foreign(self, owner: str) -> frozenset[int]:
        """Ports of sessions that belong to somebody else."""
        return frozenset(c.port for c in self._claims.values() if c.owner != owner)

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
    shared: bool
    """The user's own browser, which a session has only joined."""


class DebugPorts:
    """All claims of this process."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def claim(self, owner: str, session_id: str, port: int, *, shared: bool = False) -> None:
        self._claims[session_id] = Claim(owner, port, shared)

    def release(self, session_id: str) -> None:
        self._claims.pop(session_id, None)

    def port_of(self, owner: str, session_id: str) -> int | None:
        """The port of an agent's own session; another agent's is as unknown as none."""
        claim = self._claims.get(session_id)
        return (claim.port or None) if claim is not None and claim.owner == owner else None

    def foreign(self, owner: str) -> frozenset[int]:
        """Ports of sessions that belong to somebody else."""
        return frozenset(
            claim.port
            for claim in self._claims.values()
            if claim.port and claim.owner != owner and not claim.shared
        )

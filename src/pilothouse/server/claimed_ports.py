"""Where this machine answers: ports that agents must not reach, and services that they may know.

A page or an agent that reached another session's debugging port could read and drive its browser,
so these ports are refused to everybody but their owner. What other processes of ours have is
learnt from the hub, so that a look-up never waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Claim:
    owner: str
    """The agent: a session of this process."""
    port: int
    shared: bool
    """The user's own browser, which a session has only joined."""


class DebugPorts:
    """All claims of this process."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self.elsewhere: frozenset[int] = frozenset()
        """Ports of sessions in other processes."""

    def __len__(self) -> int:
        return len(self._claims)

    def claim(self, owner: str, session_id: str, port: int, *, shared: bool = False) -> None:
        self._claims[session_id] = Claim(owner, port, shared)

    def release(self, session_id: str) -> None:
        self._claims.pop(session_id, None)

    def port_of(self, owner: str, session_id: str) -> int | None:
        """Return the port of an agent's own session; another agent's is as unknown as none."""
        claim = self._claims.get(session_id)
        return (claim.port or None) if claim is not None and claim.owner == owner else None

    def foreign(self, owner: str) -> frozenset[int]:
        """Return the ports of sessions that belong to somebody else."""
        return self.elsewhere.union(
            claim.port
            for claim in self._claims.values()
            if claim.port and claim.owner != owner and not claim.shared
        )


class ServiceAddresses(dict[str, str]):
    """Services beside MCP that are open in this process, each with its address or why it is off."""

    def __init__(self) -> None:
        super().__init__()
        self.on_change: Callable[[], None] = lambda: None

    def __setitem__(self, name: str, state: str) -> None:
        super().__setitem__(name, state)
        self.on_change()


class ListenerPorts(set[int]):
    """Ports on which Pilothouse answers: those of this process, and those it learnt of."""

    def __init__(self) -> None:
        super().__init__()
        self._elsewhere: frozenset[int] = frozenset()
        self.on_change: Callable[[], None] = lambda: None
        """Callback for when this process has opened or closed one."""

    @property
    def own(self) -> set[int]:
        return self - self._elsewhere

    def learn(self, elsewhere: Iterable[int]) -> None:
        """Replace the ports on which other processes answer by exactly these."""
        own = self.own
        self._elsewhere = frozenset(elsewhere) - own
        super().clear()
        super().update(own, self._elsewhere)

    def add(self, port: int) -> None:
        self.update((port,))

    def update(self, *ports: Iterable[int]) -> None:
        super().update(*ports)
        self.on_change()

    def difference_update(self, *ports: Iterable[object]) -> None:
        super().difference_update(*ports)
        self.on_change()

"""Which gateway may serve a key. Pure: times and numbers, no clock and no Redis.

Each gateway has one lease, which it renews; a key belongs to a gateway for as long as that
gateway's lease lasts. Whoever becomes the owner of a key gets a token, which is larger than every
token before it. A worker is used under the token under which it was started, and only then: when
somebody else was the owner in between, what the worker knows is out of date.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pilothouse.hub.sessions.redis_records import other_version

LEASE_S = 15.0
RENEWALS = 3
"""Number of renewals of a lease within its time."""
_MARGIN = 0.1
"""The part of its lease that a gateway does not count on: two clocks never run quite alike."""
_VERSION = 1


class Tenure:
    """The time for which a gateway may count on its own lease.

    The lease runs from when Redis hears of it, which is after it was asked: so a gateway stops
    serving before anybody else can take over.
    """

    def __init__(self, lease_s: float) -> None:
        self._counted_s = lease_s * (1 - _MARGIN)
        self._until = float("-inf")

    def renewed(self, asked: float) -> None:
        """Note that Redis has agreed to what it was asked for at that time."""
        self._until = max(self._until, asked + self._counted_s)

    def end(self) -> None:
        self._until = float("-inf")

    def holds(self, now: float) -> bool:
        return now < self._until


def continues(held: int, before: int) -> bool:
    """Return whether nobody else was the owner since `held` was given, by the token that was valid
    just before the present one."""
    return held == before


@dataclass(frozen=True, slots=True)
class GatewayRecord:
    """A gateway as the others know it."""

    id: str
    """Id, another one after each lapse: what belonged to the gateway of before is anybody's."""
    url: str
    """URL at which the others reach it."""
    secret: str = field(repr=False)
    """Secret with which the others sign requests that they pass on to it."""

    def text(self) -> str:
        return json.dumps({"v": _VERSION, "url": self.url, "secret": self.secret})


def parse_gate(id: str, text: str) -> GatewayRecord:
    """Return the gateway of a text. Raises GatewayFault for one of another version."""
    found = json.loads(text)
    if found.get("v") != _VERSION:
        raise other_version()
    return GatewayRecord(id, found["url"], found["secret"])

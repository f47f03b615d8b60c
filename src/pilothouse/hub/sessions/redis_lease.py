"""This gateway's lease in Redis, and how Redis is asked on behalf of a client."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pilothouse.hub.model import RegistryAway
from pilothouse.hub.sessions.redis_leases import GatewayRecord, Tenure
from pilothouse.hub.sessions.redis_scripts import REGISTER
from pilothouse.hub.sessions.redis_wire import RedisAway, RedisRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.hub.sessions.redis_wire import RedisWire, Reply, Script

PREFIX = "pilothouse:"
GATE = f"{PREFIX}gate:"
RETRY_S = 2.0
"""Seconds after which a client should come again while Redis is away."""
_MARK = f"{PREFIX}mark"
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> float:
    """Return seconds of a clock that also runs while we are stopped or the machine sleeps."""
    return time.clock_gettime(_CLOCK)


def milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


class RedisLease:
    """The lease by which the other gateways know that this one is there."""

    def __init__(self, wire: RedisWire, url: str, lease_s: float) -> None:
        """Take `url`, where other gateways reach this one, and the lease's length."""
        self._wire = wire
        self._url = url
        self.seconds = lease_s
        self.gate = GatewayRecord("", url, "")
        """This gateway as the others know it."""
        self.mark = ""
        """Mark of the data in Redis: another one when it was lost."""
        self._tenure = Tenure(lease_s)
        self._beginning = asyncio.Lock()

    @property
    def holds(self) -> bool:
        """Tell whether nobody else can have taken over what is ours."""
        return self._tenure.holds(steady())

    def renewed(self, gate: str, asked: float) -> bool:
        """Note that Redis renewed the lease of this id; return False if we have another by now."""
        if gate != self.gate.id:
            return False
        self._tenure.renewed(asked)
        return True

    async def begin(self) -> None:
        """Begin a lease. Raises RegistryAway."""
        gate = GatewayRecord(secrets.token_hex(16), self._url, secrets.token_hex(32))
        asked = steady()
        texts = gate.text(), milliseconds(self.seconds), secrets.token_hex(16)
        self.mark = str(await self.run(REGISTER, [GATE + gate.id, _MARK], *texts))
        self._tenure = Tenure(self.seconds)
        self._tenure.renewed(asked)
        self.gate = gate

    async def begin_anew(self, lapsed: str, then: Callable[[bool, bool], None]) -> None:
        """Begin another lease, as the one of this id is gone.

        Args:
            lapsed: The id.
            then: Is told whether Redis has lost its data, and whether we could count on the lease
                until now.

        Raises:
            RegistryAway
        """
        async with self._beginning:
            if self.gate.id != lapsed:
                return  # somebody else was faster
            in_time, mark = self.holds, self.mark
            self._tenure.end()
            await self.begin()
            then(mark != self.mark, in_time)

    async def renew(self, then: Callable[[bool, bool], None]) -> None:
        """Renew the lease, also when it is gone. Raises RegistryAway."""
        asked, gate = steady(), self.gate.id
        if await self.call("PEXPIRE", GATE + gate, milliseconds(self.seconds)) == 1:
            self.renewed(gate, asked)
        else:
            await self.begin_anew(gate, then)

    async def is_alive(self, gate: GatewayRecord) -> bool:
        """Return whether that gateway still has its lease; while nobody can tell, it has."""
        try:
            return await self.call("EXISTS", GATE + gate.id) == 1
        except RegistryAway:
            return True

    async def give_up(self) -> None:
        """Let others take over at once."""
        self._tenure.end()
        with suppress(RegistryAway):
            await self.call("DEL", GATE + self.gate.id)

    # Asking

    async def call(self, *words: str | int) -> Reply:
        """Send a command to Redis. Raises RegistryAway."""
        try:
            return await self._wire.call(*words)
        except (RedisAway, RedisRefused) as error:
            raise self._away(error) from None

    async def run(self, script: Script, keys: list[str], *values: str | int) -> Reply:
        """Run a script in Redis. Raises RegistryAway."""
        try:
            return await self._wire.run(script, keys, *values)
        except (RedisAway, RedisRefused) as error:
            raise self._away(error) from None

    def _away(self, error: Exception) -> RegistryAway:
        what = "does not do its part" if isinstance(error, RedisRefused) else "cannot be reached"
        return RegistryAway(
            f"the registry that this gateway shares with others, {self._wire.address}, {what}"
            f" ({error}); sessions that are served here go on as long as possible, others have to"
            f" wait: call again in {RETRY_S:.0f} s",
            retry_after=RETRY_S,
        )

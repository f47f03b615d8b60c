"""The registry that several gateways share, in one Redis.

Each session has a home: the gateway that opened it, or that took it over when the one before was
gone. Its worker, its streams and all its requests are there, so what the home remembers of it is
the truth, and Redis is asked only about sessions of others and when something changes. That is
also why sessions go on while Redis is away, for as long as the gateway can count on its lease.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING

from pilothouse.hub.model import (
    Elsewhere,
    GatewayFault,
    Key,
    RegistryAway,
    SessionRecord,
    SessionUnknown,
)
from pilothouse.hub.sessions import redis_scripts, registry
from pilothouse.hub.sessions.redis_lease import GATE, PREFIX, RedisLease, milliseconds, steady
from pilothouse.hub.sessions.redis_leases import LEASE_S, RENEWALS, continues, parse_gate
from pilothouse.hub.sessions.redis_records import decode, encode, key_text, parse_key
from pilothouse.hub.sessions.redis_wire import RedisAway, RedisRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pilothouse.hub.sessions.redis_wire import RedisWire, Reply

RECONNECT_S = 0.5
TOUCHED_AT_ONCE = 500
last_seen = attrgetter("last_seen")
_SESSIONS = f"{PREFIX}sessions"
_TOKENS = f"{PREFIX}tokens"
_NAMES = f"{PREFIX}names"
_NAME = f"{PREFIX}name:"


@dataclass(eq=False, slots=True)
class Home:
    """A session whose home is here."""

    record: SessionRecord
    gate: str
    """This gateway's id when it was the owner last."""
    mark: str
    """Mark of the data in Redis at that time."""
    token: int
    since: int
    """The token with which it became the owner; nobody else was meanwhile."""
    is_used: bool = False
    """A worker has served it, here or elsewhere."""
    owes_notice: bool = False
    """The client was not told yet that what that worker knew is lost."""
    is_touched: bool = False
    is_unsaved: bool = False


class RedisRegistry:
    """Sessions and names that all gateways of one Redis know; a `SessionRegistry` and a `Fence`."""

    def __init__(
        self,
        wire: RedisWire,
        url: str,
        *,
        max_sessions: int = registry.MAX_SESSIONS,
        kept_s: float = registry.KEPT_S,
        lease_s: float = LEASE_S,
        clock: Callable[[], float] = time.time,
        has_worker: Callable[[Key], bool] = lambda key: True,
        report: Callable[..., None] = lambda event, **details: None,
    ) -> None:
        """Take `url`, where other gateways reach this one; `report` is told what happens."""
        self._wire = wire
        self.lease = RedisLease(wire, url, lease_s)
        self._max = max_sessions
        self._kept_s = kept_s
        self._clock = clock
        self._has_worker = has_worker
        self._report = report
        self.on_lost: Callable[[Key], None] = lambda key: None
        """Callback for keys whose home is here no more: their workers are of no use."""
        # A relay is a process of this machine, and its settings may hold secrets.
        self._relays = registry.MemoryRegistry(clock, max_sessions=max_sessions)
        self._homes: dict[Key, Home] = {}
        self._names: OrderedDict[str, Key] = OrderedDict()
        """Those of the sessions whose home is here."""
        self._unbound: dict[str, Key] = {}
        self._ended: dict[Key, Home] = {}
        """Homes of ended sessions, of which Redis could not be told yet."""
        self._trouble = ""

    def __len__(self) -> int:
        """Return the number of sessions whose home is here."""
        return len(self._homes) + len(self._relays)

    def known(self) -> Iterator[SessionRecord]:
        records = [home.record for home in self._homes.values()]
        records.sort(key=last_seen, reverse=True)
        return merge(records, self._relays.known(), key=last_seen, reverse=True)

    # Sessions

    async def open(self, record: SessionRecord) -> None:
        if record.key.kind == "relay":
            await self._relays.open(record)
        else:
            await self._take(record.key, record)

    async def find(self, id: str, principal: str) -> SessionRecord | None:
        relay = await self._relays.find(id, principal)
        if relay is not None:
            return relay
        home = await self._take(Key("session", id, principal))
        return home.record if home is not None and await self._see(home) else None

    async def of_key(self, key: Key) -> SessionRecord:
        while True:
            now = self._clock()
            home = await self._take(
                key, SessionRecord(str(key), key, "2026", now, now, key.principal)
            )
            if home is not None and await self._see(home):
                return home.record

    async def _see(self, home: Home) -> bool:
        """Note that a session is seen; return False if it was not for so long that it is over."""
        now, record = self._clock(), home.record
        if now - record.last_seen > self._kept_s:
            await self.end(record)
            self.on_lost(record.key)
            return False
        record.last_seen = now
        home.is_touched = True
        return True

    async def save(self, record: SessionRecord) -> None:
        home = self._homes.get(record.key)
        if home is not None and home.record is record:
            with suppress(RegistryAway):
                await self._save(home)

    async def _save(self, home: Home) -> None:
        used = "1" if home.is_used else ""
        try:
            text = encode(home.record)
        except GatewayFault:  # too large: what was kept before stays
            home.is_unsaved = False
            return
        home.is_unsaved = True
        await self.lease.run(redis_scripts.SAVE, [_place(home.record.key)], home.token, text, used)
        home.is_unsaved = False

    async def end(self, record: SessionRecord) -> None:
        await self._relays.end(record)
        home = self._homes.get(record.key)
        self._forget(record.key)
        if home is not None:
            self._ended[record.key] = home
            with suppress(RegistryAway):
                await self._end(record.key, home)

    async def _end(self, key: Key, home: Home) -> None:
        place = _place(key)
        keys = [place, _SESSIONS, _NAMES, f"{place}:names"]
        await self.lease.run(redis_scripts.END, keys, home.token, key_text(key), _NAME)
        self._ended.pop(key, None)

    # Names

    async def bind(self, name: str, key: Key) -> None:
        self._names[name] = self._unbound[name] = key
        self._names.move_to_end(name)
        if len(self._names) > registry.MAX_NAMES:
            self._unbound.pop(self._names.popitem(last=False)[0], None)
        with suppress(RegistryAway):
            await self._bind(name, key)

    async def _bind(self, name: str, key: Key) -> None:
        digest = _digest(name)
        keys = [_NAME + digest, _NAMES, f"{_place(key)}:names"]
        most = registry.MAX_NAMES, milliseconds(self._kept_s)
        await self.lease.run(redis_scripts.BIND, keys, key_text(key), digest, _NAME, *most)
        self._unbound.pop(name, None)

    async def owner(self, name: str, principal: str) -> Key | None:
        key = self._names.get(name)
        if key is None or not self.holds(key):
            found = await self.lease.call("GET", _NAME + _digest(name))
            key = parse_key(found) if isinstance(found, str) else None
        return key if key is not None and key.principal == principal else None

    # Who serves a key

    def holds(self, key: Key) -> bool:
        home = self._homes.get(key)
        return home is not None and self._is_mine(home)

    async def token(self, key: Key) -> int:
        home = await self._take(key)
        if home is None:
            raise SessionUnknown
        return home.since

    async def use(self, key: Key) -> bool:
        home = self._homes.get(key)
        if home is None:
            return False
        if not home.is_used:
            home.is_used = True
            with suppress(RegistryAway):
                await self._save(home)
        owed, home.owes_notice = home.owes_notice, False
        return owed

    def _is_mine(self, home: Home) -> bool:
        return home.gate == self.lease.gate.id and self.lease.holds

    async def _take(self, key: Key, new: SessionRecord | None = None) -> Home | None:
        """Return the key's session, with its home here, None if there is none.

        Args:
            key: Whose.
            new: Kept if there is none yet.

        Raises:
            Elsewhere: its home is another gateway.
            RegistryAway: Redis cannot be asked.
            TooBusy: there are too many sessions for a new one.
        """
        home = self._homes.get(key)
        if home is not None and self._is_mine(home):
            return home
        over = self._ended.get(key)
        if over is not None:
            await self._end(key, over)
        told = await self._ask(key, new)
        home = self._homes.get(key)
        if told == ["unknown"] and home is not None and home.mark != self.lease.mark:
            told = await self._ask(key, home.record, home.token)  # Redis has lost it, not we
            home.is_unsaved = True
        match told:
            case ["new" | "mine" as kind, int(token), int(before), str(text), str(used)]:
                known = new if kind == "new" else None
                return self._settle(key, known or decode(text), token, before, bool(used))
            case ["theirs", str(id), str(text)]:
                self._lose(key)
                raise Elsewhere(parse_gate(id, text))
            case ["full"]:
                if not await self._make_room():
                    raise registry.too_many(self._max)
                return await self._take(key, new)
        self._lose(key)
        return None

    async def _make_room(self) -> bool:
        """End the longest unused session of ours that is but a key, if it has no worker: nobody
        else could, and the next call with that key makes it again."""
        for home in sorted(self._homes.values(), key=lambda home: last_seen(home.record)):
            if home.record.era == "2026" and not self._has_worker(home.record.key):
                await self.end(home.record)
                return home.record.key not in self._ended
        return False

    async def _ask(self, key: Key, new: SessionRecord | None, least: int = 0) -> Reply:
        """Ask to be the key's owner."""
        text, lease = encode(new) if new is not None else "", self.lease
        times = milliseconds(lease.seconds), milliseconds(self._kept_s)
        while True:
            asked, gate = steady(), lease.gate.id
            keys = [_place(key), GATE + gate, _SESSIONS, _TOKENS]
            told = await lease.run(
                redis_scripts.TAKE, keys, gate, GATE, *times, self._max, text, least
            )
            if told == ["lapsed"]:
                await lease.begin_anew(gate, self._lapsed)
            elif lease.renewed(gate, asked):
                return told

    def _settle(self, key: Key, record: SessionRecord, token: int, before: int, used: bool) -> Home:
        """Return the key's home, of which Redis says that we are the owner."""
        home = self._homes.get(key)
        if home is None or not continues(home.token, before):
            self._lose(key)
            record.last_seen = self._clock()
            home = Home(record, "", "", token, token, used, owes_notice=used)
            self._homes[key] = home
        home.gate, home.mark, home.token = self.lease.gate.id, self.lease.mark, token
        return home

    def _lose(self, key: Key) -> None:
        if self._forget(key):
            self.on_lost(key)

    def _forget(self, key: Key) -> bool:
        if self._homes.pop(key, None) is None:
            return False
        for name in [name for name, one in self._names.items() if one == key]:
            del self._names[name]
            self._unbound.pop(name, None)
        return True

    # Looking after

    async def start(self) -> None:
        """Connect and begin a lease. Raises RedisAway, RedisRefused, RegistryAway."""
        await self._wire.connect()
        await self.lease.begin()

    async def run(self) -> None:
        """Renew the lease and tell Redis what is new, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.lease.seconds / RENEWALS):
                    await self._wire.lost.wait()
            try:
                await self.look_after()
            except Exception as error:  # whatever it is, the lease has to be renewed
                # Without its words: they may quote what a client said.
                self._trouble = type(error).__name__
                self._report("registry_failed", error=self._trouble)
            if self._trouble:
                await asyncio.sleep(RECONNECT_S)

    async def look_after(self) -> None:
        trouble = ""
        try:
            if self._wire.lost.is_set():
                await self._wire.connect()
            await self.lease.renew(self._lapsed)
            await self._reclaim()
            await self._write_down()
        except RegistryAway as away:
            trouble = away.message
        except (RedisAway, RedisRefused) as error:
            trouble = str(error)
        if bool(trouble) != bool(self._trouble):
            name = "registry_lost" if trouble else "registry_back"
            self._report(name, registry=str(self._wire.address), why=trouble)
        self._trouble = trouble

    def _lapsed(self, is_lost: bool, in_time: bool) -> None:
        """Note that the lease has begun anew: all homes have to be asked for again."""
        self._report("lease_begun_anew", sessions=len(self._homes), redis_is_empty=is_lost)
        if is_lost:
            self._unbound.update(self._names)
        if is_lost and not in_time:  # nobody can tell who was the owner meanwhile
            for key, home in self._homes.items():
                home.owes_notice = home.is_used
                self.on_lost(key)

    async def _reclaim(self) -> None:
        """Ask for homes anew: no worker may run on whose session has another home by now."""
        for key, home in list(self._homes.items()):
            if home.gate == self.lease.gate.id:
                continue
            try:
                await self._take(key)
            except Elsewhere:
                pass  # it has told so
            except RegistryAway:
                raise
            except GatewayFault:  # of another version by now
                self._lose(key)

    async def _write_down(self) -> None:
        for key, home in list(self._ended.items()):
            await self._end(key, home)
        for home in list(self._homes.values()):
            if home.is_unsaved:
                await self._save(home)
        for name, key in list(self._unbound.items()):
            await self._bind(name, key)
        oldest = self._clock() - self._kept_s
        for home in [one for one in self._homes.values() if one.record.last_seen < oldest]:
            self._lose(home.record.key)
        seen = [home for home in self._homes.values() if home.is_touched]
        for at in range(0, len(seen), TOUCHED_AT_ONCE):
            some = seen[at : at + TOUCHED_AT_ONCE]
            for home in some:
                home.is_touched = False
            places = [_place(home.record.key) for home in some]
            keys = [_SESSIONS, *places]
            await self.lease.run(redis_scripts.TOUCH, keys, milliseconds(self._kept_s))

    async def close(self) -> None:
        """Let others take over at once."""
        await self.lease.give_up()
        await self._wire.close()


def _place(key: Key) -> str:
    """Return a key's place, of one length and its alone: clients choose parts of a key freely."""
    return f"{PREFIX}at:{_digest(key_text(key))}"


def _digest(text: str) -> str:
    # JSON may name what is no valid text.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

"""Which sessions there are, and what lives in whose worker.

An interface, because several gateways may share one; in memory by default.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import merge
from typing import TYPE_CHECKING, Protocol

from pilothouse.hub.model import SessionRecord, TooBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pilothouse.hub.model import Key

KEPT_S = 6 * 3600.0
"""Seconds that a record is kept: it is small, and clients do not come back from a 404."""
MAX_SESSIONS = 1_000
MAX_NAMES = 20_000
FULL_RETRY_S = 60.0


class SessionRegistry(Protocol):
    """Sessions and names.

    A registry that several gateways share raises Elsewhere for a session that another one serves,
    and RegistryAway when that cannot be known.
    """

    def __len__(self) -> int:
        """Return the number of sessions that this hub knows."""
        ...

    def known(self) -> Iterator[SessionRecord]:
        """Yield the sessions, those that were used last first."""
        ...

    async def open(self, record: SessionRecord) -> None:
        """Know a new session. Raises TooBusy when there are too many."""
        ...

    async def find(self, id: str, principal: str) -> SessionRecord | None:
        """Return the 2025 session of this id if it is this principal's; it counts as seen now."""
        ...

    async def of_key(self, key: Key) -> SessionRecord:
        """Return the record of a key without handshake, made on first use. Raises TooBusy."""
        ...

    async def save(self, record: SessionRecord) -> None:
        """Keep what has changed in a record."""
        ...

    async def end(self, record: SessionRecord) -> None:
        """Forget a session, and all names that were bound to its key."""
        ...

    async def bind(self, name: str, key: Key) -> None:
        """Note that a handle, or what else a call can name, lives in this key's worker."""
        ...

    async def owner(self, name: str, principal: str) -> Key | None:
        """Return the key whose worker a name lives in, if it is this principal's."""
        ...


class MemoryRegistry:
    """The registry of one hub."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        max_sessions: int = MAX_SESSIONS,
        kept_s: float = KEPT_S,
        has_worker: Callable[[Key], bool] = lambda key: True,
    ) -> None:
        self._clock = clock
        self._max = max_sessions
        self._kept_s = kept_s
        self._has_worker = has_worker
        # Both have what was seen last at their end, so that the oldest are found at once.
        self._sessions: OrderedDict[str, SessionRecord] = OrderedDict()
        self._keyed: OrderedDict[Key, SessionRecord] = OrderedDict()
        self._names: OrderedDict[str, Key] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions) + len(self._keyed)

    def known(self) -> Iterator[SessionRecord]:
        last_first = reversed(self._sessions.values()), reversed(self._keyed.values())
        return merge(*last_first, key=lambda record: record.last_seen, reverse=True)

    async def open(self, record: SessionRecord) -> None:
        self._make_room()
        self._sessions[record.id] = record

    async def find(self, id: str, principal: str) -> SessionRecord | None:
        record = self._sessions.get(id)
        if record is None or record.principal != principal:
            return None
        now = self._clock()
        if now - record.last_seen > self._kept_s:
            await self.end(record)
            return None
        record.last_seen = now
        self._sessions.move_to_end(id)
        return record

    async def of_key(self, key: Key) -> SessionRecord:
        record = self._keyed.get(key)
        now = self._clock()
        if record is None:
            self._make_room()
            record = SessionRecord(str(key), key, "2026", now, now, key.principal)
            self._keyed[key] = record
        record.last_seen = now
        self._keyed.move_to_end(key)
        return record

    async def save(self, record: SessionRecord) -> None:
        """Do nothing: the record that was changed is the one that is kept."""

    async def end(self, record: SessionRecord) -> None:
        self._sessions.pop(record.id, None)
        self._keyed.pop(record.key, None)
        for name in [name for name, key in self._names.items() if key == record.key]:
            del self._names[name]

    async def bind(self, name: str, key: Key) -> None:
        self._names[name] = key
        self._names.move_to_end(name)
        if len(self._names) > MAX_NAMES:
            self._names.popitem(last=False)

    async def owner(self, name: str, principal: str) -> Key | None:
        key = self._names.get(name)
        return key if key is not None and key.principal == principal else None

    def _make_room(self) -> None:
        """Make room. Raises TooBusy when there are too many whose clients count on being known."""
        oldest = self._clock() - self._kept_s
        for records in (self._sessions, self._keyed):
            while records and next(iter(records.values())).last_seen < oldest:
                records.popitem(last=False)
        if len(self) < self._max:
            return
        # One that is but a key can be ended by nobody, and the next call with that key makes it
        # again: without its worker nothing of it is left to be kept.
        resting = next((key for key in self._keyed if not self._has_worker(key)), None)
        if resting is None:
            raise too_many(self._max)
        del self._keyed[resting]


def too_many(most: int) -> TooBusy:
    return TooBusy(
        f"{most} sessions are open, which is the most that are served at once;"
        " end one with DELETE, or raise --max-sessions",
        retry_after=FULL_RETRY_S,
    )

"""Sessions and names, in memory and in Redis alike: kept for hours, bounded, and nobody else's."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

from pilothouse.hub.model import Key, SessionRecord, TooBusy
from pilothouse.hub.sessions import registry
from pilothouse.hub.sessions.registry import MemoryRegistry
from tests.support.redis import redis_server
from tests.support.sharing import gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.hub.sessions.registry import SessionRegistry
    from tests.support.sharing import Gateway

pytestmark = pytest.mark.anyio


KEPT_S = 100.0
AGE = """
for _, place in ipairs(redis.call('KEYS', 'pilothouse:at:*')) do
  redis.call('PEXPIRE', place, redis.call('PTTL', place) - ARGV[1])
  redis.call('ZINCRBY', 'pilothouse:sessions', -ARGV[1], place)
end
"""
"""So many milliseconds pass for what Redis keeps."""


class Rig(Protocol):
    """Makes registries of one kind, and lets time pass."""

    now: float
    workers: set[Key] | None
    """The keys that have one; None: all of them."""

    async def make(self, max_sessions: int = 1000) -> SessionRegistry: ...

    async def pass_time(self, share: float) -> None:
        """Of the time that a session is kept."""
        ...


class InMemory:
    now = 1000.0
    workers: set[Key] | None = None

    async def make(self, max_sessions: int = 1000) -> SessionRegistry:
        return MemoryRegistry(
            lambda: self.now,
            max_sessions=max_sessions,
            kept_s=KEPT_S,
            has_worker=lambda key: self.workers is None or key in self.workers,
        )

    async def pass_time(self, share: float) -> None:
        self.now += share * KEPT_S


class InRedis:
    """Looks after itself when time passes, not on a clock of its own."""

    now = 1000.0
    workers: set[Key] | None = None

    def __init__(self, stack: AsyncExitStack, url: str) -> None:
        self._stack = stack
        self._url = url
        self._made: list[Gateway] = []

    async def make(self, max_sessions: int = 1000) -> SessionRegistry:
        opened = gateway(
            self._url,
            frozen=True,
            max_sessions=max_sessions,
            kept_s=KEPT_S,
            clock=lambda: self.now,
            has_worker=lambda key: self.workers is None or key in self.workers,
        )
        self._made.append(await self._stack.enter_async_context(opened))
        return self._made[-1]

    async def pass_time(self, share: float) -> None:
        for one in self._made:
            await one.look_after()
        self.now += share * KEPT_S
        await self._made[0].lease.call("EVAL", AGE, 0, int(share * KEPT_S * 1000))
        for one in self._made:
            await one.look_after()


@pytest.fixture(params=["memory", "redis"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    if request.param == "memory":
        yield InMemory()
        return
    async with redis_server(tmp_path) as server, AsyncExitStack() as stack:
        yield InRedis(stack, server.url)


def record(rig: Rig, id: str, principal: str = "") -> SessionRecord:
    """Opened now."""
    return SessionRecord(id, Key("session", id, principal), "2025", rig.now, rig.now, principal)


async def test_a_session_is_found_by_its_own_principal_alone(rig: Rig) -> None:
    sessions = await rig.make()
    await sessions.open(record(rig, "a", "ann"))
    found = await sessions.find("a", "ann")
    assert found is not None
    for id, principal in (("a", "bob"), ("a", ""), ("b", "ann")):
        assert await sessions.find(id, principal) is None
    await sessions.end(found)
    assert await sessions.find("a", "ann") is None


async def test_a_session_lives_for_hours_after_it_was_seen_last(rig: Rig) -> None:
    sessions = await rig.make()
    await sessions.open(record(rig, "a"))
    for _ in range(3):
        await rig.pass_time(0.6)
        assert await sessions.find("a", "") is not None
    await rig.pass_time(1.3)
    assert await sessions.find("a", "") is None
    assert len(sessions) == 0


async def test_too_many_sessions_are_refused_until_one_ends_or_is_forgotten(rig: Rig) -> None:
    sessions = await rig.make(max_sessions=3)
    opened = [record(rig, id) for id in "ab"]
    for one in opened:
        await sessions.open(one)
    await sessions.of_key(Key("path", "w"))
    for _ in range(2):
        with pytest.raises(TooBusy, match="--max-sessions") as caught:
            await sessions.open(record(rig, "c"))
        assert caught.value.retry_after > 0
    with pytest.raises(TooBusy):
        await sessions.of_key(Key("path", "v"))
    assert await sessions.of_key(Key("path", "w"))  # a known one needs no room
    await sessions.end(opened[0])
    await sessions.open(record(rig, "c"))
    await rig.pass_time(1.3)
    await sessions.open(record(rig, "d"))
    assert [one.id for one in sessions.known()] == ["d"]
    assert len(sessions) == 1


async def test_who_is_but_a_key_makes_room_once_its_worker_is_gone(rig: Rig) -> None:
    old, newer, newest, last = (Key("handle", name) for name in "abcd")
    sessions = await rig.make(max_sessions=3)
    await sessions.open(record(rig, "one"))
    for key in (old, newer):
        await sessions.of_key(key)
    rig.workers = {old}
    await sessions.of_key(newest)
    assert {one.key for one in sessions.known()} == {Key("session", "one"), old, newest}
    rig.workers = set()
    for id in ("two", "three"):
        await sessions.open(record(rig, id))
    with pytest.raises(TooBusy):
        await sessions.of_key(last)
    ids = {one.id for one in sessions.known()}
    assert ids == {"one", "two", "three"}, "who was given an id counts on it"


async def test_a_key_has_one_record_and_no_session_id_finds_it(rig: Rig) -> None:
    sessions = await rig.make()
    local = await sessions.of_key(Key("local", ""))
    assert await sessions.of_key(Key("local", "")) is local
    assert await sessions.find(local.id, "") is None


async def test_sessions_are_listed_as_they_were_used_last(rig: Rig) -> None:
    sessions = await rig.make()
    for id in "abc":
        await rig.pass_time(0.02)
        await sessions.open(record(rig, id))
    await rig.pass_time(0.02)
    await sessions.of_key(Key("local", ""))
    await rig.pass_time(0.02)
    assert await sessions.find("a", "") is not None
    assert [one.id for one in sessions.known()] == ["a", "local:", "c", "b"]


async def test_a_name_belongs_to_the_principal_of_its_key(rig: Rig) -> None:
    sessions = await rig.make()
    anns = record(rig, "a", "ann")
    await sessions.open(anns)
    for name in ("handle", "x" * 100_000, "\ud800"):
        await sessions.bind(name, anns.key)
        assert await sessions.owner(name, "ann") == anns.key
        assert await sessions.owner(name, "bob") is None
    assert await sessions.owner("other", "ann") is None
    await sessions.end(anns)
    assert await sessions.owner("handle", "ann") is None


async def test_the_oldest_names_are_forgotten_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_NAMES", 3)
    sessions = await rig.make()
    local = await sessions.of_key(Key("local", ""))
    for name in "abcad":
        await sessions.bind(name, local.key)
    kept = [name for name in "abcd" if await sessions.owner(name, "") is not None]
    assert kept == ["a", "c", "d"]


async def test_a_relays_session_is_known_to_its_own_hub(rig: Rig) -> None:
    sessions = await rig.make()
    relay = SessionRecord("r", Key("relay", "r"), "2025", rig.now, rig.now)
    await sessions.open(relay)
    assert await sessions.find("r", "") is relay
    assert [one.id for one in sessions.known()] == ["r"]
    await sessions.end(relay)
    assert await sessions.find("r", "") is None
    assert len(sessions) == 0

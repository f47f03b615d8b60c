"""Several gateways and one Redis: one owner for each key, whatever becomes of any of them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import pytest

from pilothouse.core.settings import BadSetting, Settings
from pilothouse.hub.model import (
    Elsewhere,
    Key,
    RegistryAway,
    SessionRecord,
    SessionUnknown,
    TooBusy,
)
from pilothouse.hub.sessions.open import open_registry
from tests.support.redis import PASSWORD, RedisServer, redis_server
from tests.support.rounds import ROUNDS
from tests.support.sharing import Gateway, gateway
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.hub.ports import PlacedWorkers

pytestmark = pytest.mark.anyio

LEASE_S = 2.0
"""So long that a busy machine does not let it run out before a test does."""
KEY = Key("path", "p")
A, B = "http://127.0.0.1:4001", "http://127.0.0.1:4002"


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with redis_server(tmp_path) as server:
        yield server


def record(id: str, principal: str = "") -> SessionRecord:
    now = time.time()
    key = Key("session", id, principal)
    params = {"clientInfo": {"name": "a-very-private-client"}}
    return SessionRecord(id, key, "2025", now, now, principal, params, "2025-11-25")


async def home_of(key: Key, *gates: Gateway) -> Gateway:
    """Where a request for the key ends up, whichever gateway it came to."""
    homes = []
    for one in gates:
        try:
            await one.of_key(key)
            homes.append(one)
        except Elsewhere as elsewhere:
            homes.append(next(gate for gate in gates if gate.lease.gate == elsewhere.gate))
    assert len(set(homes)) == 1
    return homes[0]


# One owner


async def test_a_session_is_known_to_all_and_served_by_the_gateway_that_opened_it(
    redis: RedisServer,
) -> None:
    async with gateway(redis.url, A) as a, gateway(redis.url, B) as b:
        await a.open(record("s", "ann"))
        with pytest.raises(Elsewhere) as caught:
            await b.find("s", "ann")
        assert caught.value.gate == a.lease.gate
        assert caught.value.gate.url == A
        assert await b.find("s", "bob") is None
        assert await b.find("t", "ann") is None
        found = await a.find("s", "ann")
        assert found is not None
        await a.bind("handle", found.key)
        assert await b.owner("handle", "ann") == found.key
        await a.end(found)
        assert await b.find("s", "ann") is None
        assert await b.owner("handle", "ann") is None


async def test_of_two_gateways_that_ask_at_once_one_becomes_the_owner_of_each_key(
    redis: RedisServer,
) -> None:
    async with gateway(redis.url, A) as a, gateway(redis.url, B) as b:
        keys = [Key("path", str(number)) for number in range(200)]

        async def owns(gate: Gateway, key: Key) -> bool:
            try:
                await gate.of_key(key)
            except Elsewhere:
                return False
            return True

        asked = [(gate, key) for key in keys for gate in (a, b) for _ in range(2)]
        random.shuffle(asked)
        told = await asyncio.gather(*(owns(gate, key) for gate, key in asked))
        owners: dict[Key, set[str]] = {key: set() for key in keys}
        for (gate, key), is_owner in zip(asked, told, strict=True):
            if is_owner:
                owners[key].add(gate.lease.gate.id)
        assert {len(found) for found in owners.values()} == {1}
        assert len(a) + len(b) == 200
        assert all(a.holds(key) != b.holds(key) for key in keys)
        tokens = [await (a if a.holds(key) else b).token(key) for key in keys]
        assert len(set(tokens)) == 200


async def test_sessions_are_counted_over_all_gateways(redis: RedisServer) -> None:
    async with (
        gateway(redis.url, A, max_sessions=3) as a,
        gateway(redis.url, B, max_sessions=3) as b,
    ):
        opened = [a.open(record("a")), b.open(record("b")), a.of_key(KEY)]
        await asyncio.gather(*opened)
        for gate in (a, b):
            with pytest.raises(TooBusy):
                await gate.open(record("c"))
        found = await a.find("a", "")
        assert found is not None
        await a.end(found)
        told = await asyncio.gather(
            *(gate.open(record(f"{number}")) for gate in (a, b) for number in range(5)),
            return_exceptions=True,
        )
        assert sum(one is None for one in told) == 1


async def test_a_lookup_asks_redis_nothing_at_home_and_once_elsewhere(redis: RedisServer) -> None:
    async def asked() -> int:
        text = await redis.ask("INFO", "commandstats")
        lines = [line for line in str(text).splitlines() if line.startswith("cmdstat_evalsha")]
        return int(lines[0].partition("calls=")[2].partition(",")[0])

    async with (
        gateway(redis.url, A, max_sessions=20_000) as a,
        gateway(redis.url, B, max_sessions=20_000) as b,
    ):
        await asyncio.gather(*(a.open(record(str(number))) for number in range(10_000)))
        await a.freeze()
        await b.freeze()
        before = await asked()
        for number in range(0, 10_000, 100):
            assert await a.find(str(number), "") is not None
        assert await asked() == before
        for number in range(0, 10_000, 1000):
            with pytest.raises(Elsewhere):
                await b.find(str(number), "")
        assert await asked() == before + 10


# Gateways that go away


async def test_a_key_of_a_gateway_that_died_is_taken_over_and_its_client_is_told(
    redis: RedisServer,
) -> None:
    async with (
        gateway(redis.url, A, lease_s=LEASE_S) as a,
        gateway(redis.url, B, lease_s=LEASE_S) as b,
    ):
        await a.open(record("s"))
        key = Key("session", "s")
        old = await a.token(key)
        assert await a.use(key) is False
        await a.freeze()
        with pytest.raises(Elsewhere):
            await b.find("s", "")
        await until(lambda: not a.holds(key))

        async def taken_over() -> SessionRecord | None:
            with suppress(Elsewhere):  # Redis counts on the lease a little longer than its owner
                return await b.find("s", "")
            return None

        found = await until(taken_over)
        assert found.initialize == record("s").initialize
        assert await b.token(key) > old
        assert [await b.use(key), await b.use(key)] == [True, False]


async def test_nobody_is_told_of_a_loss_where_no_worker_had_served(redis: RedisServer) -> None:
    async with gateway(redis.url, B) as b:
        async with gateway(redis.url, A) as a:
            await a.of_key(KEY)
        await b.of_key(KEY)  # at once: the other one has said that it leaves
        assert await b.use(KEY) is False


async def test_a_gateway_that_comes_back_finds_what_it_lost_and_keeps_the_rest(
    redis: RedisServer,
) -> None:
    other = Key("path", "other")
    async with (
        gateway(redis.url, A, lease_s=LEASE_S, frozen=True) as a,
        gateway(redis.url, B, lease_s=LEASE_S) as b,
    ):
        for key in (KEY, other):
            await a.of_key(key)
            await a.use(key)
        tokens = {key: await a.token(key) for key in (KEY, other)}
        stale = await a.of_key(KEY)
        await asyncio.sleep(LEASE_S * 1.1)
        assert not a.holds(KEY)
        fresh = await b.of_key(KEY)
        fresh.log_level = "debug"
        await b.save(fresh)
        stale.log_level = "error"
        await a.save(stale)
        await a.end(stale)
        with pytest.raises(Elsewhere):
            await a.of_key(KEY)
        assert await b.token(KEY) > tokens[KEY]
        a.go_on()
        await until(lambda: a.holds(other))
        assert await a.token(other) == tokens[other]  # nobody else was its owner
        assert other not in a.lost
    async with gateway(redis.url, A) as c:
        assert (await c.of_key(KEY)).log_level == "debug"


async def test_workers_of_keys_that_were_lost_are_given_up_without_being_asked_for(
    redis: RedisServer,
) -> None:
    async with (
        gateway(redis.url, A, lease_s=LEASE_S, frozen=True) as a,
        gateway(redis.url, B, lease_s=LEASE_S) as b,
    ):
        await a.of_key(KEY)
        await asyncio.sleep(LEASE_S * 1.1)
        await b.of_key(KEY)
        a.go_on()
        await until(lambda: a.lost == [KEY])
        assert len(a) == 0


async def test_a_session_that_ended_elsewhere_does_not_come_back(redis: RedisServer) -> None:
    async with (
        gateway(redis.url, A, lease_s=LEASE_S, frozen=True) as a,
        gateway(redis.url, B, lease_s=LEASE_S) as b,
    ):
        await a.open(record("s"))
        await asyncio.sleep(LEASE_S * 1.1)
        found = await b.find("s", "")
        assert found is not None
        await b.end(found)
        assert await a.find("s", "") is None
        with pytest.raises(SessionUnknown):
            await a.token(found.key)


@pytest.mark.chaos
async def test_there_are_never_two_owners_while_gateways_come_and_go(redis: RedisServer) -> None:
    keys = [Key("path", str(number)) for number in range(20)]
    async with (
        gateway(redis.url, A, lease_s=0.2) as a,
        gateway(redis.url, B, lease_s=0.2) as b,
        gateway(redis.url, lease_s=0.2) as c,
    ):
        gates, tokens, moves = (a, b, c), dict.fromkeys(keys, (0, a)), 0
        deadline = time.monotonic() + ROUNDS
        while time.monotonic() < deadline or moves <= 20:
            await random.choice(gates).freeze()
            await asyncio.sleep(random.random() * 0.4)
            for _ in range(20):
                gate, key = random.choice(gates), random.choice(keys)
                try:
                    await gate.of_key(key)
                    token = await gate.token(key)
                except Elsewhere:
                    continue
                if gate.holds(key):
                    assert [one for one in gates if one.holds(key)] == [gate]
                last, owner = tokens[key]
                if owner is not gate:
                    assert token > last
                    moves += 1
                tokens[key] = max(token, last), gate
            for one in gates:
                await one.freeze()
                if random.random() < 0.6:
                    one.go_on()


# Redis goes away


async def test_without_redis_sessions_go_on_while_the_lease_holds_and_all_comes_back(
    redis: RedisServer,
) -> None:
    async with gateway(redis.url, A, lease_s=30.0) as a:
        await a.open(record("s"))
        key = Key("session", "s")
        await a.bind("handle", key)
        token = await a.token(key)
        assert await a.use(key) is False
        await redis.kill()
        await until(lambda: a.reported[-1:] != [])
        assert a.reported[-1][0] == "registry_lost"
        found = await a.find("s", "")
        assert found is not None
        found.log_level = "debug"
        await a.save(found)
        await a.bind("later", key)
        assert await a.owner("handle", "") == key
        assert await a.token(key) == token
        for asked in (a.open(record("t")), a.of_key(KEY), a.find("unknown", "")):
            with pytest.raises(RegistryAway, match="call again in 2 s") as caught:
                await asked
            assert caught.value.status == 503
            assert caught.value.retry_after == 2
        await redis.start()  # empty
        await until(lambda: a.reported[-1][0] == "registry_back")
        assert await a.find("s", "") is found
        assert (await a.token(key), a.lost) == (token, [])
        await a.open(record("t"))
        async with gateway(redis.url, B) as b:
            with pytest.raises(Elsewhere):
                await b.find("s", "")
            assert await b.owner("handle", "") == await b.owner("later", "") == key
        await a.freeze()
        await a.close()
        async with gateway(redis.url, B) as b:
            taken = await b.find("s", "")
            assert taken is not None
            assert taken.log_level == "debug"
            assert await b.use(key) is True


async def test_when_redis_is_away_for_longer_than_the_lease_nobody_serves_and_then_all_do(
    redis: RedisServer,
) -> None:
    async with gateway(redis.url, A, lease_s=LEASE_S) as a:
        await a.open(record("s"))
        key = Key("session", "s")
        await a.use(key)
        await redis.kill()
        await until(lambda: not a.holds(key))
        with pytest.raises(RegistryAway):
            await a.find("s", "")
        await redis.start()  # empty: so nobody can tell who served the session meanwhile
        await until(lambda: a.reported[-1][0] == "registry_back")
        assert await a.find("s", "") is not None
        assert a.lost == [key]
        assert await a.use(key) is True


async def test_a_redis_that_hangs_is_away_too(redis: RedisServer) -> None:
    async with gateway(redis.url, A, lease_s=LEASE_S) as a:
        await a.of_key(KEY)
        os.kill(redis.pid, signal.SIGSTOP)
        try:
            with pytest.raises(RegistryAway):
                await a.open(record("s"))
        finally:
            os.kill(redis.pid, signal.SIGCONT)
        await until(lambda: a.holds(KEY))
        await a.open(record("s"))


async def test_a_session_that_ends_while_redis_is_away_stays_over(redis: RedisServer) -> None:
    async with gateway(redis.url, A, lease_s=30.0) as a, gateway(redis.url, B) as b:
        await a.open(record("s"))
        found = await a.find("s", "")
        assert found is not None
        await a.freeze()
        os.kill(redis.pid, signal.SIGSTOP)
        try:
            await a.end(found)
        finally:
            os.kill(redis.pid, signal.SIGCONT)
        a.go_on()
        await until(lambda: not a.lease._wire.lost.is_set())
        assert await a.find("s", "") is None
        assert await b.find("s", "") is None


async def test_nothing_that_is_told_shows_what_clients_said(redis: RedisServer) -> None:
    async with gateway(redis.url, A, lease_s=LEASE_S) as a:
        await a.open(record("private-session-id"))
        await redis.ask("FLUSHALL")
        await until(lambda: "lease_begun_anew" in str(a.reported))
        await redis.kill()
        await until(lambda: "registry_lost" in str(a.reported))
        with pytest.raises(RegistryAway) as caught:
            await a.open(record("other-private-session-id"))
        told = f"{a.reported} {caught.value.message} {caught.value!r}"
        assert "private" not in told
        assert PASSWORD not in told


async def test_a_relays_record_never_leaves_this_machine(redis: RedisServer) -> None:
    async with gateway(redis.url, A) as a:
        relay = SessionRecord("r", Key("relay", "r"), "2025", time.time(), time.time())
        before = await redis.ask("DBSIZE")
        await a.open(relay)
        await a.save(relay)
        assert await redis.ask("DBSIZE") == before


# Starting


async def start_with(url: str) -> None:
    def report(event: str, **details: object) -> None: ...

    workers = cast("PlacedWorkers", None)  # it does not come to that
    async with open_registry(Settings(registry=url), workers, A, report):
        pass


async def test_a_redis_that_is_not_there_is_named_with_the_fix(redis: RedisServer) -> None:
    where = f"127.0.0.1:{redis.port}"
    cases = {
        redis.url.replace(str(redis.port), "1"): "start one, or leave --registry out",
        f"redis://{where}": "redis://:PASSWORD@HOST",
        f"redis://:wrong@{where}": "does not take this user and password",
        f"redis://u:wrong@{where}": "does not take this user and password",
        redis.url.replace("/3", "/99"): "DB index is out of range",
        "localhost:6379": "redis://",
    }
    for url, fix in cases.items():
        with pytest.raises(BadSetting, match=fix) as caught:
            await start_with(url)
        assert PASSWORD not in str(caught.value)
        assert "wrong" not in str(caught.value)


async def test_what_is_no_redis_is_not_taken_for_one() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(BadSetting, match="no Redis answers there"):
        await start_with(url)
    server.close()

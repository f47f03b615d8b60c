"""The pool: who makes room for whom, who waits, and what is left at the end."""

from __future__ import annotations

import asyncio

import pytest

from pilothouse.hub.model import (
    SessionUnknown,
    TooBusy,
    WorkerStartFailed,
)
from pilothouse.hub.workers import Use
from pilothouse.hub.workers.capacity import NEW_WORKER_BYTES, QUEUE, WorkerLimits
from pilothouse.hub.workers.pool import EVICT_GRACE_S
from tests.support.paper_pool import GUARD_S, Rig, key

pytestmark = pytest.mark.anyio


# Room


async def test_the_longest_unused_worker_makes_room_for_a_new_one() -> None:
    rig = Rig(WorkerLimits(workers=3))
    for name in "abc":
        await rig.call(name)
        rig.now += 1
    await rig.call("a")
    await rig.call("d")
    assert rig.pool.running(key("b")) is None
    assert {name for name in "abcd" if rig.pool.running(key(name))} == {"a", "c", "d"}
    assert rig.kind.started[1].stopped_with == [EVICT_GRACE_S]
    assert len(rig.kind.alive) == 3


async def test_a_worker_that_holds_something_does_not_make_room() -> None:
    rig = Rig(WorkerLimits(workers=2))
    (await rig.call("a")).is_used = Use.HOLDING
    await rig.call("b")
    await rig.call("c")
    assert rig.pool.running(key("a")) is not None
    assert rig.pool.running(key("b")) is None


async def test_one_that_was_called_lately_makes_room_if_nobody_else_does() -> None:
    rig = Rig(WorkerLimits(workers=2))
    (await rig.call("a")).is_used = Use.LATELY
    await rig.call("b")
    (await rig.call("c")).is_used = Use.HOLDING
    assert {name for name in "abc" if rig.pool.running(key(name))} == {"a", "c"}
    await rig.call("d")
    assert {name for name in "abcd" if rig.pool.running(key(name))} == {"c", "d"}


async def test_ten_wait_in_their_order_and_the_eleventh_is_told_when_to_come_again() -> None:
    rig = Rig(WorkerLimits(workers=1))
    served: list[str] = []

    async def call(name: str) -> None:
        async with await rig.get(name):
            served.append(name)

    holder = await rig.get("holder")
    waiting = []
    for number in range(QUEUE):
        waiting.append(asyncio.create_task(call(f"w{number}")))
        await rig.settle()
    assert rig.pool.queued == QUEUE
    with pytest.raises(TooBusy, match="--max-workers") as busy:
        await rig.call("late")
    assert busy.value.retry_after > 0
    await holder.__aexit__(None, None, None)
    await asyncio.wait_for(asyncio.gather(*waiting), GUARD_S)
    assert served == [f"w{number}" for number in range(QUEUE)]
    assert len(rig.kind.alive) == 1


async def test_one_who_waits_for_too_long_is_told_so_and_leaves_the_queue() -> None:
    rig = Rig(WorkerLimits(workers=1, queue_s=0.05))
    async with await rig.get("holder"):
        with pytest.raises(TooBusy, match=r"none got free in 0\.05 s"):
            await rig.call("b")
        assert rig.pool.queued == 0
    assert await rig.call("b") in rig.kind.alive


async def test_one_who_leaves_the_queue_makes_room_in_it() -> None:
    rig = Rig(WorkerLimits(workers=1))
    async with await rig.get("holder"):
        waiting = asyncio.create_task(rig.call("b"))
        await rig.settle()
        assert rig.pool.queued == 1
        waiting.cancel()
        await rig.settle()
        assert rig.pool.queued == 0
    assert rig.kind.tries == 1


async def test_one_who_comes_as_another_gives_up_is_served() -> None:
    rig = Rig(WorkerLimits(workers=1))
    holder = await rig.get("holder")
    gave_up = asyncio.create_task(rig.call("b"))
    await rig.settle()
    gave_up.cancel()
    await asyncio.sleep(0)
    came = asyncio.create_task(rig.call("b"))
    await rig.settle()
    await holder.__aexit__(None, None, None)
    assert await came in rig.kind.alive


async def test_too_much_memory_ends_idle_workers_the_longest_unused_first() -> None:
    rig = Rig(WorkerLimits(memory=1 << 30))
    for name in "abcd":
        rig.sizes[(await rig.call(name)).pid] = 300 << 20
    await rig.pool.weigh()
    await rig.settle()
    assert [name for name in "abcd" if rig.pool.running(key(name))] == ["b", "c", "d"]


async def test_too_much_memory_ends_nobody_who_is_busy() -> None:
    rig = Rig(WorkerLimits(memory=1 << 30))
    leases = [await rig.get(name) for name in "ab"]
    rig.sizes = {lease.worker.pid: 1 << 30 for lease in leases}
    await rig.pool.weigh()
    await rig.settle()
    assert len(rig.kind.alive) == 2


async def test_without_memory_a_call_waits_until_some_is_free() -> None:
    rig = Rig(WorkerLimits(memory=2 * NEW_WORKER_BYTES))
    big = await rig.get("big")
    rig.sizes[big.worker.pid] = 2 * NEW_WORKER_BYTES
    await rig.pool.weigh()
    waiting = asyncio.create_task(rig.call("b"))
    await rig.settle()
    assert rig.pool.queued == 1
    rig.sizes[big.worker.pid] = NEW_WORKER_BYTES // 2
    await rig.pool.weigh()
    assert await waiting in rig.kind.alive


async def test_one_worker_is_let_in_however_small_the_memory() -> None:
    rig = Rig(WorkerLimits(memory=1))
    assert await rig.call() in rig.kind.alive


# Ending


async def test_a_session_that_ends_while_its_worker_starts_is_unknown_to_who_waits() -> None:
    rig = Rig()
    rig.kind.may_start.clear()
    waiting = asyncio.create_task(rig.call())
    await rig.settle()
    await rig.pool.end(key("a"))
    rig.kind.may_start.set()
    with pytest.raises(SessionUnknown):
        await waiting
    await rig.settle()
    assert rig.kind.alive == []


async def test_a_session_that_ends_in_the_queue_is_unknown_to_who_waits() -> None:
    rig = Rig(WorkerLimits(workers=1))
    async with await rig.get("holder"):
        waiting = asyncio.create_task(rig.call("b"))
        await rig.settle()
        await rig.pool.end(key("b"))
        with pytest.raises(SessionUnknown):
            await waiting
        assert rig.pool.queued == 0


async def test_a_worker_that_dies_under_a_call_is_replaced_for_the_next() -> None:
    rig = Rig()
    async with await rig.get() as lease:
        lease.worker.die()
        await rig.settle()
        assert rig.pool.running(key("a")) is None
        assert await rig.call() is not lease.worker
    assert len(rig.kind.alive) == 1


async def test_closing_ends_all_and_refuses_whoever_comes() -> None:
    rig = Rig(WorkerLimits(workers=3))
    await rig.call("a")
    async with await rig.get("b"):
        rig.kind.may_start.clear()
        starting = asyncio.create_task(rig.call("c"))
        queued = asyncio.create_task(rig.call("d"))
        await rig.settle()
        closing = asyncio.create_task(rig.pool.close())
        await rig.settle()
        rig.kind.may_start.set()
        await asyncio.wait_for(closing, GUARD_S)
    for refused in (starting, queued, asyncio.create_task(rig.call("e"))):
        with pytest.raises(WorkerStartFailed, match="about to end"):
            await refused
    assert rig.kind.alive == []
    assert rig.kind.closed
    assert rig.running == set()

"""The pool: how workers start, are kept and end when nobody needs them."""

from __future__ import annotations

import asyncio
import random

import pytest

from pilothouse.hub.model import (
    WorkerStartFailed,
)
from pilothouse.hub.workers import Use
from pilothouse.hub.workers.capacity import WorkerLimits
from pilothouse.hub.workers.pool import SETTLED_S
from tests.support.paper_pool import PaperWorker, Rig, key
from tests.support.rounds import ROUNDS

pytestmark = pytest.mark.anyio


# Starting


async def test_a_hundred_calls_at_once_share_one_start() -> None:
    rig = Rig()
    workers = await asyncio.gather(*(rig.call() for _ in range(100)))
    assert len(set(workers)) == 1
    assert rig.kind.tries == 1
    assert rig.running == {workers[0].pid}


async def test_each_key_has_its_own_worker() -> None:
    rig = Rig()
    assert len({await rig.call(name) for name in "abc"}) == 3


async def test_one_who_leaves_does_not_end_the_start_for_the_others() -> None:
    rig = Rig()
    rig.kind.may_start.clear()
    impatient = asyncio.create_task(rig.call())
    patient = asyncio.create_task(rig.call())
    await rig.settle()
    impatient.cancel()
    await rig.settle()
    rig.kind.may_start.set()
    assert await patient is rig.kind.started[0]
    assert impatient.cancelled()


async def test_a_start_that_everybody_left_is_there_for_the_next() -> None:
    rig = Rig()
    rig.kind.may_start.clear()
    impatient = asyncio.create_task(rig.call())
    await rig.settle()
    impatient.cancel()
    rig.kind.may_start.set()
    await rig.settle()
    assert await rig.call() is rig.kind.started[0]
    assert rig.kind.tries == 1


async def test_a_start_is_tried_once_more() -> None:
    rig = Rig()
    rig.kind.failures = 1
    assert await rig.call() in rig.kind.alive
    assert rig.kind.tries == 2


async def test_a_start_that_fails_twice_is_told_with_its_last_words() -> None:
    rig = Rig()
    rig.kind.failures = 2
    with pytest.raises(WorkerStartFailed, match="no such option") as failed:
        await rig.call()
    assert failed.value.retry_after > 0
    assert len(list(rig.pool.entries())) == 0


async def test_what_keeps_failing_is_not_tried_for_a_while_and_then_again() -> None:
    rig = Rig()
    rig.kind.failures = 1000
    for name in "abcdef":
        with pytest.raises(WorkerStartFailed):
            await rig.call(name)
    assert rig.kind.tries == 3
    with pytest.raises(WorkerStartFailed, match="several times in a row") as failed:
        await rig.call()
    assert 0 < failed.value.retry_after <= 30
    rig.kind.failures = 0
    rig.now += 30
    assert await rig.call() in rig.kind.alive


async def test_one_clients_bad_settings_do_not_stop_the_others() -> None:
    rig = Rig()
    rig.kind.failures = 1000
    for _ in range(3):
        with pytest.raises(WorkerStartFailed):
            await rig.call("relay", {"home": "/nowhere"})
    rig.kind.failures = 0
    assert await rig.call("other") in rig.kind.alive


async def test_a_worker_that_keeps_dying_young_is_given_a_pause() -> None:
    rig = Rig()
    for _ in range(3):
        (await rig.call()).die()
        await rig.settle()
    with pytest.raises(WorkerStartFailed, match="died soon"):
        await rig.call()
    assert await rig.call("another key") in rig.kind.alive
    rig.now += 30
    assert await rig.call() in rig.kind.alive


async def test_one_that_dies_old_is_started_again_at_once() -> None:
    rig = Rig()
    for _ in range(10):
        worker = await rig.call()
        rig.now += SETTLED_S
        worker.die()
        await rig.settle()
    assert await rig.call() in rig.kind.alive


# Whose state was lost


async def test_a_lost_state_is_told_once() -> None:
    rig = Rig()
    async with await rig.get() as first:
        assert not first.is_fresh
    (await rig.call()).die()
    await rig.settle()
    told = []
    for _ in range(3):
        async with await rig.get() as lease:
            told.append(lease.is_fresh)
    assert told == [True, False, False]


async def test_a_lost_state_is_still_told_after_a_failed_start() -> None:
    rig = Rig()
    (await rig.call()).die()
    await rig.settle()
    rig.kind.failures = 2
    with pytest.raises(WorkerStartFailed):
        await rig.call()
    async with await rig.get() as lease:
        assert lease.is_fresh


async def test_a_session_that_was_ended_leaves_nothing_to_tell() -> None:
    rig = Rig()
    await rig.call()
    await rig.pool.end(key("a"))
    async with await rig.get() as lease:
        assert not lease.is_fresh


# Idle


async def test_an_idle_worker_ends_when_its_time_is_over_and_not_before() -> None:
    rig = Rig(WorkerLimits(idle_s=60))
    worker = await rig.call()
    rig.now += 59.9
    await rig.pool.cull()
    assert rig.pool.running(key("a")) is worker
    rig.now += 0.1
    await rig.pool.cull()
    await rig.settle()
    assert rig.pool.running(key("a")) is None
    assert worker.stopped_with == [30.0]
    assert rig.running == set()


async def test_a_call_that_runs_longer_than_the_limit_keeps_its_worker() -> None:
    rig = Rig(WorkerLimits(idle_s=60))
    async with await rig.get() as lease:
        rig.now += 600
        await rig.pool.cull()
        assert rig.pool.running(key("a")) is lease.worker
    rig.now += 59
    await rig.pool.cull()
    assert rig.pool.running(key("a")) is lease.worker


async def test_a_worker_that_holds_something_is_kept_and_its_time_begins_anew() -> None:
    rig = Rig(WorkerLimits(idle_s=60))
    worker = await rig.call()
    worker.is_used = Use.HOLDING
    rig.now += 60
    await rig.pool.cull()
    worker.is_used = Use.NONE
    rig.now += 59
    await rig.pool.cull()
    assert rig.pool.running(key("a")) is worker
    rig.now += 1
    await rig.pool.cull()
    assert rig.pool.running(key("a")) is None


async def test_a_call_gets_a_new_worker_while_the_old_one_takes_its_time_to_end() -> None:
    rig = Rig(WorkerLimits(idle_s=60))
    old = await rig.call()
    old.may_end.clear()
    rig.now += 60
    await rig.pool.cull()
    async with await rig.get() as lease:
        assert lease.worker is not old
        assert lease.is_fresh
    old.may_end.set()
    await rig.settle()
    assert rig.kind.alive == [lease.worker]


@pytest.mark.chaos
async def test_a_call_that_races_the_cull_is_always_served() -> None:
    for seed in range(200 * ROUNDS):
        chance = random.Random(seed)
        rig = Rig(WorkerLimits(idle_s=1))
        await rig.call()
        rig.now += 1

        async def late(rig: Rig, steps: int, seed: int) -> PaperWorker:
            for _ in range(steps):
                await asyncio.sleep(0)
            async with await rig.get() as lease:
                # Whoever holds it may rely on it, whatever the cull decides meanwhile.
                await rig.settle()
                assert isinstance(lease.worker, PaperWorker)
                assert not lease.worker.died.done(), f"seed {seed}"
                return lease.worker

        calls = [late(rig, chance.randrange(6), seed) for _ in range(chance.randrange(1, 4))]
        await asyncio.gather(rig.pool.cull(), *calls)
        assert len(rig.kind.alive) == 1, f"seed {seed}"

"""The warm parent and its workers: who is started how, and that nobody outlives whom."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import stat
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.hub.http.client import get
from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.workers import StartFailed
from tests.support.forking import forked, forking
from tests.support.living import living
from tests.support.rounds import ROUNDS
from tests.support.until import until

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.hub.workers.builtin import ForkedWorker

pytestmark = pytest.mark.anyio

SHOP_SIZE = 4
"""Processes of the dev server that a worker can start."""
GONE_S = 30.0
"""A guard: it is a second in fact."""
GUARD_S = 60.0


async def about(worker: ForkedWorker) -> dict[str, Any]:
    told: dict[str, Any] = (await get(worker.address, "/")).body
    return told


# How a worker is started


async def test_a_worker_is_a_fork_of_the_parent_with_its_own_group_and_socket(
    sockets: Path, mark: str
) -> None:
    async with forking(sockets, mark) as kind:
        worker = await forked(kind, cwd="/usr")
        told = await about(worker)
        assert told["pid"] == told["group"] == worker.pid
        assert told["cwd"] == "/usr"
        assert psutil.Process(worker.pid).ppid() == kind.parent_pid
        mode = os.stat(worker.address.path).st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600


async def test_workers_differ_in_what_is_random(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark) as kind:
        workers = await asyncio.gather(*(forked(kind) for _ in range(8)))
        told = [(await about(worker))["random"] for worker in workers]
        assert len(set(told)) == len(told)


async def test_a_worker_holds_nothing_of_its_siblings_or_of_the_hub_s_link(
    sockets: Path, mark: str
) -> None:
    async with forking(sockets, mark) as kind:
        first = (await about(await forked(kind)))["files"]
        for _ in range(4):
            await forked(kind)
        last = (await about(await forked(kind)))["files"]
        assert len(last) == len(first)


async def test_the_parent_is_started_once_for_all_who_ask_at_once(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark) as kind:
        workers = await asyncio.gather(*(forked(kind) for _ in range(20)))
        parents = {psutil.Process(worker.pid).ppid() for worker in workers}
        assert parents == {kind.parent_pid}


async def test_a_relay_s_worker_has_the_relay_s_settings_and_others_the_hub_s(
    sockets: Path, mark: str
) -> None:
    key = Key("session", "s")
    record = SessionRecord("s", key, "2025", 0.0, 0.0)
    async with forking(sockets, mark, fail=True) as kind:
        await forked(kind)
        with pytest.raises(StartFailed):
            await kind.start(key, record, 10)


async def test_a_worker_that_cannot_start_says_why(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark) as kind:
        with pytest.raises(StartFailed, match="has no such option"):
            await forked(kind, fail=True)
        with pytest.raises(StartFailed, match="/no/such/folder"):
            await forked(kind, cwd="/no/such/folder")
        await until(lambda: len(living(mark)) == 1)  # the parent
        assert (await about(await forked(kind)))["pid"]


async def test_a_worker_that_never_answers_is_given_up_and_killed(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark) as kind:
        await kind.prepare()
        key = Key("relay", "r")
        record = SessionRecord("r", key, "2025", 0.0, 0.0, settings={"hang": True})
        with pytest.raises(StartFailed, match=r"within 0\.2 s"):
            await kind.start(key, record, 0.2)
        await until(lambda: len(living(mark)) == 1)


async def test_a_start_that_is_given_up_leaves_nothing(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark) as kind:
        await kind.prepare()
        starting = asyncio.create_task(forked(kind, hang=True))
        await until(lambda: len(living(mark)) == 2)
        starting.cancel()
        await until(lambda: len(living(mark)) == 1)


async def test_trouble_with_the_parent_is_told_until_one_starts(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark) as kind:
        assert kind.trouble() == ""
        argv, kind._argv = kind._argv, [sys.executable, "-c", "raise SystemExit(3)"]
        with pytest.raises(StartFailed):
            await kind.prepare()
        assert "exit code 3" in kind.trouble()
        kind._argv = argv
        await until(lambda: kind.trouble() == "")  # asking has it tried again
        assert kind.parent_pid is not None


async def test_a_parent_that_cannot_start_is_told(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark, module="tests.support.no_such_module") as kind:
        with pytest.raises(StartFailed, match="exit code 1"):
            await forked(kind)


# How it ends


async def test_a_worker_ends_in_order_when_it_is_asked(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark) as kind:
        worker = await forked(kind)
        await worker.stop(30)
        assert worker.last_words == "it ended with exit code 7"
        assert worker.name not in os.listdir(sockets)
        await worker.stop(30)
        assert len(living(mark)) == 1


async def test_one_that_does_not_heed_sigterm_is_killed_after_the_grace(
    sockets: Path, mark: str
) -> None:
    async with forking(sockets, mark) as kind:
        worker = await forked(kind, stay=True, shop=True)
        await worker.stop(0.2)
        assert worker.last_words == "it ended with exit code -9"
        await until(lambda: len(living(mark)) == 1)


async def test_closing_ends_everybody(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark) as kind:
        workers = [await forked(kind) for _ in range(5)]
        await kind.close()
        assert all(worker.died.done() for worker in workers)
        assert living(mark) == []
        with pytest.raises(StartFailed, match="about to end"):
            await forked(kind)


@pytest.mark.chaos
async def test_a_killed_worker_takes_what_it_started_with_it_and_nobody_else(
    sockets: Path, mark: str
) -> None:
    async with forking(sockets, mark) as kind:
        bystander = await forked(kind, shop=True)
        await until(lambda: len(living(mark)) == 2 + SHOP_SIZE)
        others = {process.pid for process in living(mark)}
        for _ in range(ROUNDS):
            worker = await forked(kind, shop=True)
            os.kill(worker.pid, signal.SIGKILL)
            await asyncio.wait_for(worker.died, GONE_S)
            await until(lambda: {process.pid for process in living(mark)} == others, GONE_S)
        assert (await about(bystander))["pid"] == bystander.pid


@pytest.mark.chaos
async def test_a_killed_parent_takes_all_with_it_and_the_next_worker_has_a_new_one(
    sockets: Path, mark: str
) -> None:
    async with forking(sockets, mark) as kind:
        for seed in range(ROUNDS):
            chance = random.Random(seed)
            starts = [asyncio.create_task(forked(kind, shop=True)) for _ in range(3)]
            await until(lambda: kind.parent_pid is not None)
            old = kind.parent_pid
            assert old is not None
            await asyncio.sleep(chance.uniform(0, 0.3))
            os.kill(old, signal.SIGKILL)
            for done in await asyncio.gather(*starts, return_exceptions=True):
                if not isinstance(done, StartFailed):
                    assert not isinstance(done, BaseException), f"seed {seed}"
                    await asyncio.wait_for(done.died, GONE_S)
            await until(lambda: living(mark) == [], GONE_S)
            worker = await forked(kind)
            assert psutil.Process(worker.pid).ppid() == kind.parent_pid != old
            await worker.stop(5)


ODD_WORDS = (
    *(b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b"{}", b'{"fork": 1}', b'{"fork": "w9"}'),
    *(b'{"signal": "w1"}', b'{"signal": "w1", "number": "9"}', b'{"signal": [], "number": []}'),
)


async def test_odd_words_end_neither_the_parent_nor_its_workers(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark) as kind:
        worker = await forked(kind)
        parent, pid = kind._parent, kind.parent_pid
        assert parent is not None
        for word in ODD_WORDS:
            parent._writer.write(word + b"\n")
        assert psutil.Process((await forked(kind)).pid).ppid() == pid
        assert (await about(worker))["pid"] == worker.pid


async def test_a_worker_whose_fork_is_refused_fails_at_once_and_that_is_logged(
    sockets: Path, mark: str
) -> None:
    async with forking(sockets, mark) as kind:
        told: list[dict[str, Any]] = []
        kind.report = lambda event, **details: told.append({"event": event, **details})
        await kind.prepare()
        key = Key("relay", "r")
        settings: Any = ["no object"]
        record = SessionRecord("r", key, "2025", 0.0, 0.0, settings=settings)
        with pytest.raises(StartFailed, match="refused to start it: settings must be an object"):
            await kind.start(key, record, GUARD_S)
        (refusal,) = told
        assert refusal["event"] == "parent_refused"
        assert refusal["why"] == "settings must be an object"
        assert (await about(await forked(kind)))["pid"]

"""A hub that is killed leaves nobody behind; and what a worse day left, the next one clears up."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest

from pilothouse.hub.workers.leftovers import Leftovers, sweep
from pilothouse.machine import processes
from tests.support.living import living
from tests.support.rounds import ROUNDS
from tests.support.servers import ROOT, environment
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

START_S = 60.0
GONE_S = 30.0
"""A guard: it is less than two seconds in fact."""


@contextmanager
def hub(mark: str, sockets: Path, journals: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "tests.support.small_hub", str(sockets), str(journals)]
    with subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment({"LC_MARK": mark}),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.chaos
async def test_nothing_outlives_a_hub_that_is_killed_at_any_moment(
    mark: str, sockets: Path, tmp_path: Path
) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        folder = sockets / str(seed)
        folder.mkdir()
        with hub(mark, folder, tmp_path) as process:
            if chance.random() < 0.8:  # else while it starts
                assert process.stdout is not None
                assert await asyncio.to_thread(process.stdout.readline) == b"up 0\n", f"seed {seed}"
            await asyncio.sleep(chance.random())
            process.kill()
            process.wait()
            await until(lambda: living(mark) == [], GONE_S)
    assert len(os.listdir(tmp_path)) <= 1  # each hub sweeps the journals of those before it


async def test_the_next_start_ends_what_reapers_could_not_and_nobody_else(
    mark: str, tmp_path: Path
) -> None:
    env = environment({"LC_MARK": mark})
    script = "import subprocess,sys;subprocess.run(['sleep','600'])"
    left, innocent = (_started(script, env) for _ in range(2))
    await until(lambda: len(living(mark)) == 4)
    journal = Leftovers(tmp_path, processes)
    journal.add(left.pid)
    path = tmp_path / f"{os.getpid()}.journal"
    path.write_text(
        path.read_text().replace(f'"start": "{processes.started(os.getpid())}"', '"start": "1"')
        + f'{{"pid": {innocent.pid}, "start": "1"}}\n'
        + f'{{"pid": {os.getpid()}, "start": "1"}}\n'
    )
    assert sweep(tmp_path, processes) == [left.pid]
    assert left.wait(GONE_S) == -signal.SIGKILL
    await until(lambda: len(living(mark)) == 2)
    assert {one.pid for one in living(mark)} >= {innocent.pid}
    for process in living(mark):
        process.kill()
    innocent.wait(GONE_S)
    await until(lambda: living(mark) == [])


async def test_memory_counts_what_runs_below(mark: str) -> None:
    hog = "import time;kept=bytearray(b'x'*50_000_000);time.sleep(600)"
    script = f"import subprocess,sys;subprocess.run([sys.executable,'-c',{hog!r}])"
    env = environment({"LC_MARK": mark})
    with _started(script, env) as process:
        try:
            await until(lambda: _size(process.pid) > 50_000_000)
            used = await processes.memory([process.pid, 2**22 - 1])
            assert 50_000_000 < used[process.pid] < 200_000_000
            assert used[2**22 - 1] == 0
        finally:
            for one in psutil.Process(process.pid).children():
                one.kill()
            process.kill()
            await until(lambda: living(mark) == [])


def _started(script: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script], env=env, start_new_session=True)


def _size(pid: int) -> int:
    below = psutil.Process(pid).children()
    return sum(one.memory_info().rss for one in below)

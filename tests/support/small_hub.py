"""A hub without listeners: it keeps starting and ending workers of every kind until it is killed.

small_hub.py SOCKETS JOURNALS    LC_MARK is in the environment of all that it starts
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.hub.mcp.template import Template
from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.workers.builtin import Builtin
from pilothouse.hub.workers.capacity import WorkerLimits
from pilothouse.hub.workers.command import HttpCommand, StdioCommand
from pilothouse.hub.workers.leftovers import Leftovers, sweep
from pilothouse.hub.workers.pool import Pool
from pilothouse.hub.workers.spawned import CommandLaunch
from pilothouse.machine import processes
from pilothouse.machine.child import start_child

if TYPE_CHECKING:
    from pilothouse.hub.workers import Kind

ROOT = Path(__file__).resolve().parents[2]
ODD = str(ROOT / "tests" / "support" / "odd_server.py")


async def main(sockets: Path, journals: Path) -> None:
    swept = sweep(journals, processes)
    journal = Leftovers(journals, processes)
    spawn = journal.keeping(start_child)
    env = dict(os.environ)
    builtin = Builtin(
        argv=[sys.executable, "-m", "tests.support.scripted_zygote"],
        folder=sockets,
        cwd=ROOT,
        env=env,
        stderr=2,
        spawn=spawn,
        settings={"shop": True, "stay": True},
        template=lambda: Template({}, {}),
    )

    def odd(over: str) -> CommandLaunch:
        return CommandLaunch([sys.executable, ODD, over, "stay"], ROOT, env)

    kinds: list[Kind] = [
        builtin,
        HttpCommand(spawn, lambda record: odd("http")),
        StdioCommand(spawn, lambda record: odd("stdio"), sockets),
    ]
    pools = [
        Pool(
            kind,
            WorkerLimits(idle_s=0.1, grace_s=0.1, start_s=60),
            time.monotonic,
            processes.memory,
            on_start=journal.add,
            on_end=journal.remove,
        )
        for kind in kinds
    ]
    await builtin.prepare()
    sys.stdout.write(f"up {len(swept)}\n")
    sys.stdout.flush()
    await asyncio.gather(*(_live(pool) for pool in pools for _ in range(2)))


async def _live(pool: Pool) -> None:
    while True:
        key = Key("session", str(random.randrange(3)))
        record = SessionRecord(key.value, key, "2025", 0.0, 0.0)
        async with await pool.get(key, record):
            await asyncio.sleep(random.random() / 5)
        await pool.cull()


asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))

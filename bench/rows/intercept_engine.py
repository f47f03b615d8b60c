"""The proxy's engine in trouble: killed, and with rules whose patterns are made to be slow."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Noted, Row, Samplers
from pilothouse.intercept.config.rules import BadRule, change_of
from pilothouse.intercept.engine_process import Ask
from tests.integration.intercept.test_evil_patterns import TEXTS, evil_patterns
from tests.support.engine_rig import configuration, running_engine
from tests.support.ports import free_port, listens
from tests.support.until import until
from tests.support.upstreams import http_upstream

LIFE_S = 0.2
"""How long it serves before it is killed again."""


@contextmanager
def run_restart(_: Workshop) -> Iterator[Samplers]:
    with TemporaryDirectory() as scratch, asyncio.Runner() as runner:
        yield {PILOTHOUSE: lambda: runner.run(restart(Path(scratch)))}


async def restart(folder: Path) -> float:
    """Milliseconds from a SIGKILL until its listener takes connections again, unasked."""
    port = free_port()

    async def apply(ask: Ask) -> None:
        await ask("configure", config=configuration(listen=[{"port": port}]))

    async with running_engine(folder, on_start=apply) as rig:
        await asyncio.sleep(LIFE_S)
        assert rig.engine.pid
        start = time.perf_counter()
        os.kill(rig.engine.pid, signal.SIGKILL)
        await until(partial(is_shut, port))
        await until(partial(listens, port))
        return (time.perf_counter() - start) * 1000


async def is_shut(port: int) -> bool:
    return not await listens(port)


@contextmanager
def run_stall(_: Workshop) -> Iterator[Samplers]:
    with TemporaryDirectory() as scratch, asyncio.Runner() as runner:
        yield {PILOTHOUSE: lambda: runner.run(stall(Path(scratch)))}


async def stall(folder: Path) -> Noted:
    """Milliseconds for which the engine's loop stood still at most, over all patterns."""
    refused, slowest, longest = 0, 0.0, 0.0
    async with running_engine(folder) as rig, http_upstream() as server:
        port = await rig.session()
        async with rig.client(port) as client:
            for pattern in evil_patterns():
                if not taken(pattern):
                    refused += 1
                    continue
                await rig.listen(edits=[{"method": "REGEX", "pattern": pattern, "replaced": "x"}])
                start = time.perf_counter()
                async with rig.watched() as waits:
                    await client.post(f"http://{server.address}/digest", content=TEXTS["random"])
                slowest = max(slowest, time.perf_counter() - start)
                longest = max(longest, *waits)
    note = f"{refused} of 200 patterns refused; the slowest request took {slowest * 1000:.0f} ms"
    return Noted(longest * 1000, note)


def taken(pattern: str) -> bool:
    try:
        change_of("REGEX", pattern, "x")
    except BadRule:
        return False
    return True


RESTART = Row(
    name="intercept-restart",
    title="From a SIGKILL of the proxy's engine until it listens again",
    subject=PILOTHOUSE,
    peers=(),
    unit="ms",
    better="lower",
    bound=Bound(2_000),
    run=run_restart,
)
REGEX_STALL = Row(
    name="intercept-regex-stall",
    title="Longest stall of the proxy while rules with 200 evil patterns meet bodies of 1 MiB",
    subject=PILOTHOUSE,
    peers=(),
    unit="ms",
    better="lower",
    bound=Bound(50),
    run=run_stall,
    exact=True,
)

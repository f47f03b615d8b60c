"""Recording into a history of a million packets: how soon a row is in it, and the memory it takes.

The file is the one of the rows before, which then has some more packets than it was filled with.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.peers import PILOTHOUSE, Workshop
from bench.proc import rss
from bench.row import Bound, Noted, Row, Samplers
from bench.rows.intercept_history_files import MANY, body, filled, history_of
from bench.rows.intercept_proxy import MB, contender, ours, quick_upstream
from bench.stats import percentile
from pilothouse.intercept.history.writer import HistoryWriter
from pilothouse.intercept.model import Exchange, WireMessage
from tests.support.upstreams import authority

RATE = 500
"""Exchanges a second, about as many as the engine takes on one core."""
SECONDS = 6
ROUNDS = 3
"""Of 2,000 requests each."""
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


async def _commits(path: Path) -> Noted:
    """The 99th percentile of the milliseconds from a post until its row is in the file."""
    posted: dict[int, float] = {}
    took: list[float] = []

    def on_rows(exchanges: list[Exchange]) -> None:
        now = time.perf_counter()
        took.extend((now - posted.pop(id(exchange))) * 1000 for exchange in exchanges)

    writer = HistoryWriter(path, max_bytes=1 << 40, clock=time.time, on_rows=on_rows)
    await writer.flush()
    kept = []
    started = time.perf_counter()
    for number in range(RATE * SECONDS):
        await asyncio.sleep(max(0.0, started + number / RATE - time.perf_counter()))
        exchange = _exchange(number)
        kept.append(exchange)
        posted[id(exchange)] = time.perf_counter()
        writer.post(exchange)
    await writer.close()
    await asyncio.sleep(0)
    note = f"median {percentile(took, 50):.0f}, worst {max(took):.0f} of {len(took):,}"
    return Noted(percentile(took, 99), note)


def _exchange(number: int) -> Exchange:
    text = body(number).encode()
    head = f"GET /api/v1/orders/{number} HTTP/1.1\r\nHost: shop.test\r\n\r\n".encode()
    sides = [
        WireMessage(
            time=1.7e12, head=one, body=rest, length=len(one) + len(rest), body_length=len(rest)
        )
        for one, rest in ((head, b""), (_HEAD, text))
    ]
    return Exchange(
        connection="c",
        method="GET",
        url=f"/api/v1/orders/{number}",
        status=200,
        request=sides[0],
        response=sides[1],
    )


@contextmanager
def run_commits(_: Workshop) -> Iterator[Samplers]:
    with asyncio.Runner() as runner:
        path = history_of(filled(MANY))
        yield {PILOTHOUSE: lambda: runner.run(_commits(path))}


async def _memory(folder: Path, scratch: Path) -> Noted:
    """Megabytes of the engine's RSS at most, while it records and after."""
    async with (
        quick_upstream(None) as upstream,
        ours(folder, authority(scratch)) as (engine, port),
    ):
        assert engine.pid
        clients = await contender(port, upstream, None)
        readings = [rss(engine.pid)]
        for _ in range(ROUNDS):
            await clients.rate()
            readings.append(rss(engine.pid))
        # It tends the index when traffic has ceased.
        for _ in range(20):
            await asyncio.sleep(0.1)
            readings.append(rss(engine.pid))
    return Noted(max(readings) / MB, f"from {readings[0] / MB:.1f} MB")


@contextmanager
def run_memory(_: Workshop) -> Iterator[Samplers]:
    with TemporaryDirectory() as scratch, asyncio.Runner() as runner:
        folder = history_of(filled(MANY)).parent
        yield {PILOTHOUSE: lambda: runner.run(_memory(folder, Path(scratch)))}


COMMITS = Row(
    name="intercept-history-commit",
    title=f"A packet is in the file, p99 at {RATE} exchanges a second, of {MANY:,} packets",
    subject=PILOTHOUSE,
    peers=(),
    unit="ms",
    better="lower",
    bound=Bound(50),
    run=run_commits,
    absolute="median",  # each sample is a percentile already
)
MEMORY = Row(
    name="intercept-history-memory",
    title=f"RSS of the process that holds engine and history, of {MANY:,} packets",
    subject=PILOTHOUSE,
    peers=(),
    unit="MB",
    better="lower",
    bound=Bound(150),
    run=run_memory,
    exact=True,
)
ROWS = (COMMITS, MEMORY)

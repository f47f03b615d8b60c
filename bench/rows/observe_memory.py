"""What the recorded events cost in memory, and whether a flood makes the server grow."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.browser import (
    RING,
    Stage,
    fill_ring,
    new_marker,
    open_stage,
    pilothouse,
    start_flood,
    watched,
)
from bench.peers import PILOTHOUSE, Workshop
from bench.proc import rss, settled
from bench.row import Bound, Noted, Row, Samplers
from bench.stats import median
from bench.wire import StdioServer

MB = 1_000_000
LINES = 100_000
FLOODS = 11
"""One more than a million lines take, for a reading on both sides of the millionth."""


def growth_to_full_ring(workshop: Workshop, stage: Stage) -> float:
    """Megabytes of RSS from an empty observation to a full ring, in a server of its own.

    The mix's text bodies, which are kept beside the ring, are under 1 kB each: they count in, but
    hardly.
    """
    with (
        pilothouse(workshop) as server,
        stage.tab("/empty", "empty") as target,
        watched(server, stage, target) as watch,
    ):
        watch.recorded()  # what the first read loads is not the ring's
        empty = settled_rss(server)
        fill_ring(stage, watch)
        return (settled_rss(server) - empty) / MB


def growth_in_second_half(workshop: Workshop, stage: Stage) -> Noted:
    """Percent by which RSS grows from the 500,000th to the 1,000,000th event of a flood.

    Each of the two is the median of the readings around it: a server that had to wait for the CPU
    holds more frames for a moment, which says nothing about growth.
    """
    after: list[int] = []
    with (
        pilothouse(workshop) as server,
        stage.tab("/flood", "ready") as target,
        watched(server, stage, target) as watch,
        stage.chromium.debugger(target) as page,
    ):
        for _ in range(FLOODS):
            marker = new_marker()
            first = watch.recorded()
            start_flood(page, LINES, marker)
            watch.wait_for_line(first + LINES - 1, marker)
            after.append(settled_rss(server))
    half_time, end = median(after[3:6]), median(after[8:11])
    note = f"from {half_time / MB:.1f} to {end / MB:.1f} MB"
    return Noted((end / half_time - 1) * 100, note)


def settled_rss(server: StdioServer) -> int:
    serving = server.call_tool("status", {})["structuredContent"]["pid"]
    return settled(partial(rss, serving))


@contextmanager
def run_full_ring(workshop: Workshop) -> Iterator[Samplers]:
    with open_stage() as stage:
        yield {PILOTHOUSE: partial(growth_to_full_ring, workshop, stage)}


@contextmanager
def run_flood(workshop: Workshop) -> Iterator[Samplers]:
    with open_stage() as stage:
        yield {PILOTHOUSE: partial(growth_in_second_half, workshop, stage)}


FULL_RING = Row(
    name="observe-memory",
    title=f"RSS that a full ring of {RING:,} mixed events adds",
    subject=PILOTHOUSE,
    peers=(),
    unit="MB",
    better="lower",
    bound=Bound(25),
    run=run_full_ring,
)

FLOOD = Row(
    name="observe-memory-flood",
    title="RSS growth over the second half of a flood of 1,000,000 events",
    subject=PILOTHOUSE,
    peers=(),
    unit="%",
    better="lower",
    bound=Bound(1),
    run=run_flood,
    exact=True,
)

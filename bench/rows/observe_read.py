"""Reading events: how long an agent waits for 200 of them, idle, filtered and during a flood."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import cycle, islice
from typing import Any

from bench.browser import (
    NEEDLE,
    RING,
    Stage,
    Watch,
    fill_ring,
    new_marker,
    open_stage,
    pilothouse,
    start_flood,
    watched,
)
from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Noted, Row, Samplers
from bench.stats import median, percentile
from bench.wire import Json, StdioServer, WireError

PAGE = 200
READS = 200
PAIRS = 50
FLOOD = 100_000
PAUSE_S = 0.03
"""Between two reads during a flood: an agent reads now and then, and 200 reads fit into it."""


def timed_read(watch: Watch, **arguments: Any) -> tuple[float, Json]:
    """Milliseconds of a read, and what it gave."""
    began = time.perf_counter()
    page = watch.read(**arguments)
    return (time.perf_counter() - began) * 1000, page


def idle_reads(watch: Watch) -> float:
    """The p99 of reads all over the ring."""
    first = watch.recorded() - RING
    took = []
    for offset in islice(cycle(range(first, first + RING - PAGE, 97)), READS):
        spent, page = timed_read(watch, offset=offset, limit=PAGE)
        if len(page["events"]) != PAGE:
            raise WireError(f"{len(page['events'])} events instead of {PAGE} at offset {offset}")
        took.append(spent)
    return percentile(took, 99)


def filter_cost(watch: Watch) -> Noted:
    """What a filter with few hits adds to a read that answers as many events without one."""
    fitting = watch.read(textIncludes=NEEDLE)["matched"]
    if not 5 <= fitting <= 20:
        raise WireError(f"{fitting} events of {RING:,} fit, not 1 in 1,000")
    added = []
    for _ in range(PAIRS):
        plain, _ = timed_read(watch, limit=fitting)
        filtered, _ = timed_read(watch, textIncludes=NEEDLE)
        added.append(filtered - plain)
    return Noted(median(added), f"{fitting} of {RING:,} fit")


def flooded_reads(server: StdioServer, stage: Stage, percent: float) -> Noted:
    """A percentile of reads that page on while lines pour in."""
    marker = new_marker()
    with (
        stage.tab("/flood", "ready") as target,
        watched(server, stage, target) as watch,
        stage.chromium.debugger(target) as page,
    ):
        offset = watch.recorded()
        last = offset + FLOOD - 1
        start_flood(page, FLOOD, marker)
        took = []
        while True:
            spent, got = timed_read(watch, offset=offset, limit=PAGE)
            if offset + got["dropped"] + got["matched"] > last:
                break  # the last line has come: from here on it would be an idle read
            if len(got["events"]) == PAGE:
                took.append(spent)
            offset = got["nextOffset"]
            time.sleep(PAUSE_S)
        watch.wait_for_line(last, marker)
        return Noted(percentile(took, percent), f"{len(took)} reads")


@contextmanager
def run_on_full_ring(
    sample: Callable[[Watch], float | Noted], workshop: Workshop
) -> Iterator[Samplers]:
    with (
        open_stage() as stage,
        pilothouse(workshop) as server,
        stage.tab("/empty", "empty") as target,
        watched(server, stage, target) as watch,
    ):
        fill_ring(stage, watch)
        yield {PILOTHOUSE: partial(sample, watch)}


@contextmanager
def run_in_flood(percent: float, workshop: Workshop) -> Iterator[Samplers]:
    with open_stage() as stage, pilothouse(workshop) as server:
        yield {PILOTHOUSE: partial(flooded_reads, server, stage, percent)}


def read_row(
    name: str,
    title: str,
    limit: float,
    run: Callable[[Workshop], AbstractContextManager[Samplers]],
) -> Row:
    return Row(
        name=name,
        title=title,
        subject=PILOTHOUSE,
        peers=(),
        unit="ms",
        better="lower",
        bound=Bound(limit),
        run=run,
        absolute="median",  # of samples that are percentiles themselves
    )


IDLE = read_row(
    "observe-read-idle",
    f"Read {PAGE} events out of a full ring of {RING:,}, p99 of {READS} reads",
    15,
    partial(run_on_full_ring, idle_reads),
)
FILTER = read_row(
    "observe-read-filter",
    "What a filter that fits 1 event in 1,000 adds to a read that answers as many",
    10,
    partial(run_on_full_ring, filter_cost),
)
FLOOD_P50 = read_row(
    "observe-read-flood-p50",
    f"Read {PAGE} events during a flood of {FLOOD:,} lines, p50 of the reads",
    25,
    partial(run_in_flood, 50),
)
FLOOD_P99 = read_row(
    "observe-read-flood-p99",
    f"Read {PAGE} events during a flood of {FLOOD:,} lines, p99 of the reads",
    100,
    partial(run_in_flood, 99),
)

"""Push: how long after an event a subscriber hears that there is something to read."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.browser import open_stage, pilothouse, watched
from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Row, Samplers
from bench.stats import percentile
from bench.wire import StdioServer
from tests.support.chromium import Debugger

PUSHES = 40
LONGEST_PAUSE_S = 0.3
"""Pushes of one resource are 0.1 s apart at least: some events wait for that, some do not."""


def push_delays(server: StdioServer, page: Debugger, chance: random.Random) -> float:
    """The p95, in milliseconds from before the event is caused to its notification."""
    took = []
    for number in range(PUSHES):
        time.sleep(chance.uniform(0, LONGEST_PAUSE_S))
        began = time.perf_counter()
        page.post("Runtime.evaluate", expression=f"console.log('push', {number})")
        server.wait_for_notification("notifications/resources/updated")
        took.append((time.perf_counter() - began) * 1000)
    return percentile(took, 95)


@contextmanager
def run(workshop: Workshop) -> Iterator[Samplers]:
    with (
        open_stage() as stage,
        pilothouse(workshop) as server,
        stage.tab("/empty", "empty") as target,
        watched(server, stage, target),
        stage.chromium.debugger(target) as page,
    ):
        server.request("resources/subscribe", {"uri": f"cdp://events/{target}"})
        yield {PILOTHOUSE: partial(push_delays, server, page, random.Random(1))}


ROW = Row(
    name="observe-push",
    title=f"Push after an event, p95 of {PUSHES} at random times",
    subject=PILOTHOUSE,
    peers=(),
    unit="ms",
    better="lower",
    bound=Bound(150),
    run=run,
    absolute="median",  # of samples that are percentiles themselves
)

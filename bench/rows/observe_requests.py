"""Two thousand requests, until the end of the last one can be read: does the observer keep up?"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.browser import GUARD_S, POLL_S, Stage, open_stage, pilothouse, watched
from bench.peers import PILOTHOUSE, Workshop
from bench.row import Noted, Row, Samplers
from bench.wire import StdioServer, WireError

REQUESTS = 2_000


def to_readable(server: StdioServer, stage: Stage) -> Noted:
    """Milliseconds from the navigation until `cdp_read_events` gives the end of every request."""
    with (
        stage.tab("/empty", "empty") as target,
        watched(server, stage, target, bufferSize=4 * REQUESTS) as watch,
    ):
        began = time.perf_counter()
        stage.visit(target, stage.url(f"/fetches?n={REQUESTS}"))
        while True:
            ends = watch.read(kinds=["loadingFinished"], urlIncludes="/item/", limit=1)["matched"]
            if ends == REQUESTS:
                break
            if time.perf_counter() - began > GUARD_S:
                raise WireError(f"{ends} of {REQUESTS} requests had ended within {GUARD_S} s")
            time.sleep(POLL_S)
        return Noted((time.perf_counter() - began) * 1000, f"{ends:,} requests")


@contextmanager
def run(workshop: Workshop) -> Iterator[Samplers]:
    with ExitStack() as opened:
        stage = opened.enter_context(open_stage())
        server = opened.enter_context(pilothouse(workshop))
        yield {PILOTHOUSE: partial(to_readable, server, stage)}


ROW = Row(
    name="observe-requests-2k",
    title=f"{REQUESTS:,} requests until the end of the last one can be read",
    subject=PILOTHOUSE,
    peers=(),
    unit="ms",
    better="lower",
    bound=None,
    run=run,
)

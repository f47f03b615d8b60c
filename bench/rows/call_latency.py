"""Call latency: what the server itself adds to a tool call that does next to nothing."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median

from bench.peers import BARE_SDK, PILOTHOUSE, Workshop
from bench.row import Row, Samplers
from bench.wire import StdioServer

CALLS_PER_SAMPLE = 100


def median_call(server: StdioServer) -> float:
    """Milliseconds of a call of the tool `status`, the median of a run of calls."""
    took = []
    for _ in range(CALLS_PER_SAMPLE):
        began = time.perf_counter()
        server.call_tool("status", {})
        took.append(time.perf_counter() - began)
    return median(took) * 1000


@contextmanager
def run(workshop: Workshop) -> Iterator[Samplers]:
    with ExitStack() as servers:
        samplers = {}
        for contender in ROW.contenders:
            server = servers.enter_context(workshop.start(contender))
            server.handshake()
            samplers[contender] = partial(median_call, server)
        yield samplers


ROW = Row(
    name="call-latency",
    title=f"Call latency: the tool status over stdio, p50 of {CALLS_PER_SAMPLE} calls",
    subject=PILOTHOUSE,
    peers=(BARE_SDK,),
    unit="ms",
    better="lower",
    bound=None,
    run=run,
    absolute="median",
)

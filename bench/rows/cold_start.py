"""Cold start: how long an agent waits from starting a server to knowing its tools."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.peers import BARE_SDK, DEVTOOLS, PILOTHOUSE, PLAYWRIGHT, Workshop, command
from bench.row import Bound, Row, Samplers


def spawn_to_tools_list(workshop: Workshop, contender: str) -> float:
    """Milliseconds from before the spawn to the whole answer of `tools/list`."""
    began = time.perf_counter()
    with workshop.start(contender) as server:
        server.handshake()
        server.request("tools/list")
        return (time.perf_counter() - began) * 1000


@contextmanager
def run(workshop: Workshop) -> Iterator[Samplers]:
    for contender in ROW.contenders:
        command(contender)  # installs what is missing, outside the clock
    yield {name: partial(spawn_to_tools_list, workshop, name) for name in ROW.contenders}


ROW = Row(
    name="cold-start",
    title="Cold start: spawn to tools/list answered, over stdio",
    subject=PILOTHOUSE,
    peers=(BARE_SDK, PLAYWRIGHT, DEVTOOLS),
    unit="ms",
    better="lower",
    bound=Bound(1.1, of=BARE_SDK),
    run=run,
)

"""Memory: what an idle server costs the machine once the agent knows its tools."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.peers import BARE_SDK, DEVTOOLS, PILOTHOUSE, PLAYWRIGHT, Workshop
from bench.proc import settled, tree_pss
from bench.row import Row, Samplers

MIB = 1024 * 1024


def idle_pss(workshop: Workshop, contender: str) -> float:
    with workshop.start(contender) as server:
        server.handshake()
        server.list_tools()
        return settled(partial(tree_pss, server.pid)) / MIB


@contextmanager
def run(workshop: Workshop) -> Iterator[Samplers]:
    # One server at a time: two of a kind would share pages and each look smaller than alone.
    yield {name: partial(idle_pss, workshop, name) for name in ROW.contenders}


ROW = Row(
    name="memory",
    title="Memory: PSS of the process tree, idle after tools/list",
    subject=PILOTHOUSE,
    peers=(BARE_SDK, PLAYWRIGHT, DEVTOOLS),
    unit="MiB",
    better="lower",
    bound=None,
    run=run,
)

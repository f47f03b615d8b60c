"""Memory: what an idle server costs the machine once the agent knows its tools."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.hub import hub_pid
from bench.peers import BARE_SDK, DEVTOOLS, PILOTHOUSE, PLAYWRIGHT, Workshop, open_workshop
from bench.proc import settled, tree_pss
from bench.row import Row, Samplers

MIB = 1024 * 1024


def idle_pss(contender: str) -> float:
    # A hub of its own, because one with workers of other rows would not be idle.
    with open_workshop() as workshop, workshop.start(contender) as server:
        server.handshake()
        server.list_tools()
        trees = [server.pid]
        if contender == PILOTHOUSE:
            trees.append(hub_pid(workshop.home))
        return settled(lambda: sum(map(tree_pss, trees))) / MIB


@contextmanager
def run(_: Workshop) -> Iterator[Samplers]:
    # One server at a time: two of a kind would share pages and each look smaller than alone.
    yield {name: partial(idle_pss, name) for name in ROW.contenders}


ROW = Row(
    name="memory",
    title="Memory: PSS of all processes, idle after tools/list",
    subject=PILOTHOUSE,
    peers=(BARE_SDK, PLAYWRIGHT, DEVTOOLS),
    unit="MiB",
    better="lower",
    bound=None,
    run=run,
)

"""Cold start: how long an agent waits from starting a server to knowing its tools."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from bench.peers import BARE_SDK, DEVTOOLS, PILOTHOUSE, PLAYWRIGHT, Workshop, command, open_workshop
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


def without_hub(contender: str) -> float:
    """The same where no hub runs yet: each time in a place of its own."""
    with open_workshop() as workshop:
        return spawn_to_tools_list(workshop, contender)


def first_call(workshop: Workshop) -> float:
    """Milliseconds of a client's first tool call, for which its worker is forked."""
    with workshop.start(PILOTHOUSE) as server:
        server.handshake()
        began = time.perf_counter()
        server.call_tool("status", {})
        return (time.perf_counter() - began) * 1000


@contextmanager
def run_without_hub(_: Workshop) -> Iterator[Samplers]:
    command(PLAYWRIGHT)
    yield {name: partial(without_hub, name) for name in NO_HUB.contenders}


@contextmanager
def run_first_call(workshop: Workshop) -> Iterator[Samplers]:
    first_call(workshop)  # until the hub is warm
    yield {PILOTHOUSE: partial(first_call, workshop)}


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

HUB = replace(
    ROW,
    name="cold-start-hub",
    title="Cold start where a hub runs: spawn to tools/list answered, over stdio",
    peers=(PLAYWRIGHT,),
    bound=Bound(0.4, of=PLAYWRIGHT),
)

NO_HUB = replace(
    ROW,
    name="cold-start-no-hub",
    title="Cold start where no hub runs: spawn to tools/list answered, over stdio",
    peers=(PLAYWRIGHT,),
    bound=Bound(0.8, of=PLAYWRIGHT),
    run=run_without_hub,
)

FIRST_CALL = Row(
    name="first-call",
    title="A client's first tool call on a warm hub: its worker is forked and answers",
    subject=PILOTHOUSE,
    peers=(),
    unit="ms",
    better="lower",
    bound=Bound(120),
    run=run_first_call,
)

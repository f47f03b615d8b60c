"""Many agents at once, each with a live worker: what they cost, and how soon they are served."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.driving import site
from bench.http_wire import HttpAgent, http_server
from bench.peers import PILOTHOUSE, Workshop, open_workshop
from bench.proc import descendants_of, settled, tree_pss
from bench.row import Bound, Noted, Row, Samplers

MB = 1_000_000
AGENTS = 100
KNOWN = 1_000
LIVE = 50
_IN_PARALLEL = 32


def _all_call(agents: list[HttpAgent]) -> None:
    """Raises WireError as soon as one of them is not answered."""
    with ThreadPoolExecutor(_IN_PARALLEL) as crowd:
        list(crowd.map(HttpAgent.call, agents))


def _opened(servers: ExitStack, url: str, number: int) -> list[HttpAgent]:
    return [servers.enter_context(HttpAgent(url)).open() for _ in range(number)]


def memory_of(known: int, live: int) -> Noted:
    """Megabytes of the hub and all below it, when so many have had a call answered."""
    with ExitStack() as servers:
        workshop = servers.enter_context(open_workshop())
        url, pid = servers.enter_context(http_server(workshop))
        for _ in range(known - live):
            with HttpAgent(url) as agent:
                agent.open()
        _all_call(_opened(servers, url, live))
        used = settled(partial(tree_pss, pid))
        return Noted(used / MB, f"{len(descendants_of(pid))} processes")


def ready(url: str) -> float:
    """Seconds from the first call to the last answer of agents that all call at once."""
    with ExitStack() as connections:
        agents = _opened(connections, url, AGENTS)
        began = time.perf_counter()
        _all_call(agents)
        took = time.perf_counter() - began
        for agent in agents:
            agent.end()
    return took


def e2e_session_memory() -> float:
    """Megabytes of an agent with an open page: relay, worker, Playwright's driver, reapers."""
    with open_workshop() as workshop, site() as url, workshop.start(PILOTHOUSE) as server:
        server.handshake()
        worker = server.call_tool("status", {})["structuredContent"]["pid"]
        server.call_tool("startSession", {"url": url})
        used = settled(lambda: tree_pss(worker, without="chrom") + tree_pss(server.pid))
        server.call_tool("endSession", {})
        return used / MB


@contextmanager
def run_memory(_: Workshop, known: int, live: int) -> Iterator[Samplers]:
    yield {PILOTHOUSE: partial(memory_of, known, live)}


@contextmanager
def run_ready(workshop: Workshop) -> Iterator[Samplers]:
    with open_workshop() as apart, http_server(apart) as (url, _pid):
        yield {PILOTHOUSE: partial(ready, url)}


@contextmanager
def run_e2e(_: Workshop) -> Iterator[Samplers]:
    yield {PILOTHOUSE: e2e_session_memory}


MEMORY = Row(
    name="gateway-100-memory",
    title=f"PSS of the hub and {AGENTS} live workers that have each answered a call",
    subject=PILOTHOUSE,
    peers=(),
    unit="MB",
    better="lower",
    bound=Bound(800),
    run=partial(run_memory, known=AGENTS, live=AGENTS),
    exact=True,
)

READY = Row(
    name="gateway-100-ready",
    title=f"{AGENTS} agents call at once: each has a worker of its own, and its answer",
    subject=PILOTHOUSE,
    peers=(),
    unit="s",
    better="lower",
    bound=Bound(6),
    run=run_ready,
)

KNOWN_MEMORY = Row(
    name="gateway-1000-memory",
    title=f"PSS of a hub that knows {KNOWN:,} sessions, {LIVE} of them with a live worker",
    subject=PILOTHOUSE,
    peers=(),
    unit="MB",
    better="lower",
    bound=Bound(1_000),
    run=partial(run_memory, known=KNOWN, live=LIVE),
    exact=True,
)

E2E_MEMORY = Row(
    name="gateway-e2e-memory",
    title="PSS of an agent with a page open, without its Chromium",
    subject=PILOTHOUSE,
    peers=(),
    unit="MB",
    better="lower",
    bound=None,
    run=run_e2e,
    exact=True,
)

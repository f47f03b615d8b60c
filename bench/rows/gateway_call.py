"""What the hub adds to a call over HTTP: against the same server without a hub before it."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.http_wire import HttpAgent, http_server
from bench.peers import PILOTHOUSE, Workshop, open_workshop
from bench.row import Bound, Row, Sampler, Samplers
from bench.stats import median

DIRECT = "without a hub"
CALLS = 200
WORKERS = 4
CLIENTS = 16
CALLS_OF_A_CLIENT = 40
KNOWN = 1_000
"""Sessions in the row about looking them up."""
FEW_KNOWN = "1 session"


def _agents(servers: ExitStack, url: str, number: int = 1) -> list[HttpAgent]:
    agents = [servers.enter_context(HttpAgent(url)).open() for _ in range(number)]
    for agent in agents:
        agent.call()  # starts its worker
    return agents


def _median_of(take: Callable[[], float]) -> float:
    return median([take() for _ in range(CALLS)])


@contextmanager
def run_call(_: Workshop, take: str) -> Iterator[Samplers]:
    with ExitStack() as servers:
        samplers: dict[str, Sampler] = {}
        for contender, flags in ((PILOTHOUSE, ()), (DIRECT, ("--standalone",))):
            workshop = servers.enter_context(open_workshop())
            url, _pid = servers.enter_context(http_server(workshop, *flags))
            (agent,) = _agents(servers, url)
            samplers[contender] = partial(_median_of, getattr(agent, take))
        yield samplers


def _throughput(agents: list[HttpAgent]) -> float:
    """Calls a second of all agents, each of which waits for its answer before it calls again."""

    def work(agent: HttpAgent) -> None:
        for _ in range(CALLS_OF_A_CLIENT):
            agent.call()

    with ThreadPoolExecutor(len(agents)) as crowd:
        began = time.perf_counter()
        list(crowd.map(work, agents))
        return len(agents) * CALLS_OF_A_CLIENT / (time.perf_counter() - began)


@contextmanager
def run_throughput(_: Workshop) -> Iterator[Samplers]:
    with ExitStack() as servers:
        each = CLIENTS // WORKERS
        hub = servers.enter_context(open_workshop())
        url, _pid = servers.enter_context(http_server(hub))
        through: list[HttpAgent] = []
        for first in _agents(servers, url, WORKERS):
            through += [first, *(servers.enter_context(first.again()) for _ in range(each - 1))]
        direct: list[HttpAgent] = []
        for _number in range(WORKERS):
            alone = servers.enter_context(open_workshop())
            url, _pid = servers.enter_context(http_server(alone, "--standalone"))
            (first,) = _agents(servers, url)
            direct += [first, *(servers.enter_context(first.again()) for _ in range(each - 1))]
        yield {PILOTHOUSE: partial(_throughput, through), DIRECT: partial(_throughput, direct)}


@contextmanager
def run_lookup(_: Workshop) -> Iterator[Samplers]:
    """Two hubs, of which one knows many sessions."""
    with ExitStack() as servers:
        samplers: dict[str, Sampler] = {}
        for contender, known in ((PILOTHOUSE, KNOWN), (FEW_KNOWN, 1)):
            workshop = servers.enter_context(open_workshop())
            url, _pid = servers.enter_context(http_server(workshop))
            for _number in range(known - 1):
                with HttpAgent(url) as agent:
                    agent.open()
            (agent,) = _agents(servers, url)
            samplers[contender] = partial(_median_of, agent.call)
        yield samplers


CALL = Row(
    name="gateway-call",
    title=f"A call through the hub, over HTTP, p50 of {CALLS} calls",
    subject=PILOTHOUSE,
    peers=(DIRECT,),
    unit="ms",
    better="lower",
    bound=Bound(1, of=DIRECT, plus=0.6),
    run=partial(run_call, take="call"),
)

FIRST_BYTE = Row(
    name="gateway-first-byte",
    title=f"First byte of an SSE answer through the hub, p50 of {CALLS} calls",
    subject=PILOTHOUSE,
    peers=(DIRECT,),
    unit="ms",
    better="lower",
    bound=Bound(1, of=DIRECT, plus=2),
    run=partial(run_call, take="first_byte"),
)

THROUGHPUT = Row(
    name="gateway-throughput",
    title=f"Calls a second of {CLIENTS} clients on {WORKERS} workers",
    subject=PILOTHOUSE,
    peers=(DIRECT,),
    unit="calls/s",
    better="higher",
    bound=Bound(0.7, of=DIRECT),
    run=run_throughput,
)

LOOKUP = Row(
    name="gateway-lookup",
    title=f"A call through a hub that knows {KNOWN:,} sessions, p50 of {CALLS} calls",
    subject=PILOTHOUSE,
    peers=(FEW_KNOWN,),
    unit="ms",
    better="lower",
    bound=Bound(1.1, of=FEW_KNOWN),
    run=run_lookup,
)

"""What `tools/list` costs a model: the bytes of it that end up in the model's context."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from bench.peers import DEVTOOLS, PILOTHOUSE, PLAYWRIGHT, Workshop
from bench.row import Bound, Noted, Row, Samplers
from bench.wire import Json

# Each server's flags for more than its defaults, so that large sets are compared with large sets.
# Left out: what chrome-devtools-mcp takes from the page itself (WebMCP, third-party tools).
WHOLE_SET_FLAGS = {
    PILOTHOUSE: ("--profile", "full"),
    PLAYWRIGHT: ("--caps", "vision,pdf,devtools,network,storage,testing,config"),
    DEVTOOLS: (
        "--experimentalVision",
        "--memoryDebugging",
        "--categoryExtensions",
        "--categoryPwa",
    ),
}


def model_bytes(tools: Sequence[Json]) -> int:
    """Compact JSON of what clients show to a model: name, description and input schema."""
    shown = ("name", "description", "inputSchema")
    texts = (
        json.dumps({key: tool.get(key) for key in shown}, ensure_ascii=False, separators=(",", ":"))
        for tool in tools
    )
    return sum(len(text.encode()) for text in texts)


def count(tools: Sequence[Json]) -> str:
    """How much one gets for the bytes: a small list is cheap, but not therefore better."""
    return "1 tool" if len(tools) == 1 else f"{len(tools)} tools"


def list_tools(workshop: Workshop, contender: str, *flags: str) -> list[Json]:
    with workshop.start(contender, *flags) as server:
        server.handshake()
        return server.list_tools()


def default_bytes(workshop: Workshop, contender: str) -> Noted:
    tools = list_tools(workshop, contender)
    return Noted(model_bytes(tools), count(tools))


def whole_set_bytes_per_tool(workshop: Workshop, contender: str) -> Noted:
    tools = list_tools(workshop, contender, *WHOLE_SET_FLAGS[contender])
    return Noted(model_bytes(tools) / len(tools), count(tools))


@contextmanager
def run_default(workshop: Workshop) -> Iterator[Samplers]:
    yield {n: partial(default_bytes, workshop, n) for n in DEFAULT_PROFILE.contenders}


@contextmanager
def run_whole_set(workshop: Workshop) -> Iterator[Samplers]:
    yield {n: partial(whole_set_bytes_per_tool, workshop, n) for n in WHOLE_SET.contenders}


DEFAULT_PROFILE = Row(
    name="tools-list-cost",
    title="What tools/list costs a model: default profile, compact JSON",
    subject=PILOTHOUSE,
    peers=(PLAYWRIGHT, DEVTOOLS),
    unit="bytes",
    better="lower",
    bound=Bound(1.0, of=DEVTOOLS),
    run=run_default,
    exact=True,
)

WHOLE_SET = Row(
    name="tools-list-cost-full",
    title="What tools/list costs a model: whole set, average per tool",
    subject=PILOTHOUSE,
    peers=(PLAYWRIGHT, DEVTOOLS),
    unit="bytes/tool",
    better="lower",
    bound=Bound(700),
    run=run_whole_set,
    exact=True,
)

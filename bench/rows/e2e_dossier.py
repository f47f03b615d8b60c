"""A failing click with its full dossier: how much later than the step's own timeout it comes."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.driving import site
from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Noted, Row, Samplers
from bench.wire import Json, StdioServer, WireError
from pilothouse.core.declare.paging import estimated_tokens

TIMEOUT_MS = 500
LOG_LINES = 200


def failing_click(server: StdioServer, selector: str) -> tuple[float, int]:
    """Milliseconds after the timeout, and the tokens of the answer's text."""
    began = time.perf_counter()
    call = {"name": "click", "arguments": {"selector": selector, "timeout": TIMEOUT_MS}}
    result: Json = server.request("tools/call", call)
    took = (time.perf_counter() - began) * 1000 - TIMEOUT_MS
    content = result["structuredContent"]
    if not result["isError"] or "screenshot" not in content:
        raise WireError(f"no dossier: {content}")
    return took, estimated_tokens(result["content"][0]["text"])


def late(server: StdioServer) -> Noted:
    took, tokens = failing_click(server, "#nothing")
    return Noted(took, f"{tokens:,} tokens")


def tokens(server: StdioServer) -> float:
    return failing_click(server, "#nothing")[1]


@contextmanager
def run(measured: str, workshop: Workshop, log_lines: int = 0) -> Iterator[Samplers]:
    with (
        site() as url,
        workshop.start(PILOTHOUSE) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        log = Path(folder) / "stderr.log"
        log.write_text("".join(f"{n} error: {'x' * 120}\n" for n in range(log_lines)))
        server.handshake()
        server.call_tool("startSession", {"url": url, "logs": {"stderr": str(log)}})
        # A page with a history: console lines, requests and exceptions that the dossier tells.
        server.call_tool("navigate", {"url": f"{url}/mix?n=20"})
        sampler = late if measured == "late" else tokens
        yield {PILOTHOUSE: partial(sampler, server)}
        server.call_tool("endSession", {})


LATE = Row(
    name="e2e-dossier",
    title="A failing click with its dossier, after the step's own timeout",
    subject=PILOTHOUSE,
    peers=(),
    unit="ms",
    better="lower",
    bound=Bound(300),
    run=partial(run, "late"),
)
TOKENS = Row(
    name="e2e-dossier-tokens",
    title="The text of a failing click's answer",
    subject=PILOTHOUSE,
    peers=(),
    unit="tokens",
    better="lower",
    bound=Bound(2_500),
    run=partial(run, "tokens"),
)
TOKENS_WITH_LOG = Row(
    name="e2e-dossier-tokens-log",
    title=f"The same where the server has written {LOG_LINES} lines to stderr",
    subject=PILOTHOUSE,
    peers=(),
    unit="tokens",
    better="lower",
    bound=Bound(2_500),
    run=partial(run, "tokens", log_lines=LOG_LINES),
)

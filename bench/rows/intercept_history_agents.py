"""How long agents wait for a page of the history while another one has it searched.

All of them share a hub. Each waits a while between its calls, as agents do: without that they would
measure how a machine with few cores shares them out.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from bench.hub import stop_hub
from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Noted, Row, Samplers
from bench.rows.intercept_history_files import filled
from bench.stats import percentile
from bench.wire import StdioServer
from tests.support.intercepting import token_of

NOBODY = "nobody searches"
PACKETS = 100_000
AGENTS = 8
ROUNDS = 20
PAUSE_S = 0.1
WALK = "full_text =~ [0-9]{40}"
"""No text has it, and none of its parts can be looked up: every body is read."""


def _took(server: StdioServer, tool: str, asked: dict[str, Any]) -> float:
    began = time.perf_counter()
    server.call_tool(tool, asked)
    return (time.perf_counter() - began) * 1000


def _ask(server: StdioServer, asked: dict[str, Any], late_s: float) -> list[tuple[float, float]]:
    """Milliseconds of each page and of the call of `status` after it."""
    took = []
    time.sleep(late_s)
    for _ in range(ROUNDS):
        took.append((_took(server, "get_history", asked), _took(server, "status", {})))
        time.sleep(PAUSE_S)
    return took


def _search(server: StdioServer, asked: dict[str, Any], is_over: threading.Event) -> int:
    """Go through the history again and again; return how many pages that were."""
    cursor: dict[str, Any] = {}
    pages = 0
    while not is_over.is_set():
        page = server.call_tool("get_history", {**asked, "filter": WALK, **cursor})
        after = page["structuredContent"].get("next_cursor")
        cursor, pages = ({"cursor": after} if after else {}), pages + 1
    return pages


def _pages(servers: list[StdioServer], asked: dict[str, Any], searches: bool) -> Noted:
    """The median page of all agents but the last one, which searches or rests meanwhile."""
    *others, last = servers
    is_over = threading.Event()
    with ThreadPoolExecutor(AGENTS) as crowd:
        searching = crowd.submit(_search, last, asked, is_over) if searches else None
        try:
            asking = [
                crowd.submit(_ask, server, asked, PAUSE_S * at / len(others))
                for at, server in enumerate(others)
            ]
            took = [pair for one in asking for pair in one.result()]
        finally:
            is_over.set()
    pages, statuses = zip(*took, strict=True)
    note = f"p95 {percentile(pages, 95):.1f}, status p95 {percentile(statuses, 95):.1f}"
    if searching is not None:
        note += f", {searching.result()} pages searched"
    return Noted(percentile(pages, 50), note)


@contextmanager
def run(_: Workshop) -> Iterator[Samplers]:
    workshop = Workshop(filled(PACKETS))
    asked = {"access_token": token_of(workshop.home)}
    try:
        with ExitStack() as started:
            servers = [started.enter_context(workshop.start(PILOTHOUSE)) for _ in range(AGENTS)]
            for server in servers:
                server.handshake()
                server.call_tool("get_history", asked)
            yield {
                PILOTHOUSE: partial(_pages, servers, asked, searches=True),
                NOBODY: partial(_pages, servers, asked, searches=False),
            }
    finally:
        stop_hub(workshop.home)


ROW = Row(
    name="intercept-history-beside-search",
    title=f"A page of each of {AGENTS - 1} agents while another searches {PACKETS:,} packets, p50",
    subject=PILOTHOUSE,
    peers=(NOBODY,),
    unit="ms",
    better="lower",
    bound=Bound(1.3, of=NOBODY),
    run=run,
    absolute="median",  # each sample is a percentile already
)

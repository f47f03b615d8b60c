"""One bookmark call, MCP in to MCP out, beside the same call inside the extension."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.bookmarks import IN_THE_EXTENSION, Desk, open_desk
from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Row, Samplers
from bench.stats import median

CALLS = 100
TOGETHER = 10
"""Calls inside the extension that are timed as one."""
URL = "https://example.com/"

type Prepare = Callable[[Desk], tuple[dict[str, Any], str]]
"""What a tool is given, and the same call of chrome.bookmarks."""


def over_mcp(desk: Desk, tool: str, arguments: dict[str, Any]) -> float:
    took = []
    for _ in range(CALLS):
        began = time.perf_counter()
        desk.server.call_tool(tool, arguments)
        took.append((time.perf_counter() - began) * 1000)
    return median(took)


def inside(desk: Desk, call: str) -> float:
    return median(desk.inside(call, CALLS // TOGETHER, TOGETHER))


def call_row(name: str, title: str, tool: str, prepare: Prepare) -> Row:
    @contextmanager
    def run(_: Workshop) -> Iterator[Samplers]:
        with open_desk() as desk:
            arguments, call = prepare(desk)
            yield {
                PILOTHOUSE: partial(over_mcp, desk, tool, arguments),
                IN_THE_EXTENSION: partial(inside, desk, call),
            }

    return Row(
        name=name,
        title=f"{title}, p50 of {CALLS} calls",
        subject=PILOTHOUSE,
        peers=(IN_THE_EXTENSION,),
        unit="ms",
        better="lower",
        bound=Bound(2, of=IN_THE_EXTENSION, plus=3),
        run=run,
    )


def _getting(desk: Desk) -> tuple[dict[str, Any], str]:
    made = desk.make(title="One", url=URL)
    return {"id": made}, f"get({json.dumps(made)})"


def _adding(_: Desk) -> tuple[dict[str, Any], str]:
    details = {"title": "One", "url": URL}
    return details, f"create({json.dumps(details)})"


GET = call_row("bookmarks-get", "bookmark_get over stdio", "bookmark_get", _getting)
ADD = call_row("bookmarks-add", "bookmark_add over stdio", "bookmark_add", _adding)

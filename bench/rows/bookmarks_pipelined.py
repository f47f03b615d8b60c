"""Bookmark calls in flight together, beside calls of a tool that does next to nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.bookmarks import Desk, open_desk
from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Row, Samplers

CALLS = 1_000
IN_FLIGHT = 16
NO_OP = "status, same server"


def rate(desk: Desk, tool: str, arguments: dict[str, Any]) -> float:
    """Calls a second."""
    began = time.perf_counter()
    desk.server.call_many(tool, arguments, times=CALLS, in_flight=IN_FLIGHT)
    return CALLS / (time.perf_counter() - began)


@contextmanager
def run(_: Workshop) -> Iterator[Samplers]:
    with open_desk() as desk:
        made = desk.make(title="One", url="https://example.com/")
        yield {
            PILOTHOUSE: partial(rate, desk, "bookmark_get", {"id": made}),
            NO_OP: partial(rate, desk, "status", {}),
        }


ROW = Row(
    name="bookmarks-pipelined",
    title=f"{CALLS:,} calls of bookmark_get, {IN_FLIGHT} in flight",
    subject=PILOTHOUSE,
    peers=(NO_OP,),
    unit="calls/s",
    better="higher",
    bound=Bound(0.6, of=NO_OP),
    run=run,
)

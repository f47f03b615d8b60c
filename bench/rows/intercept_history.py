"""How long pages of the history take with a million packets, and how that compares with few.

A page is asked for as agents ask: `get_history`, over stdio.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from bench.hub import stop_hub
from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Noted, Row, Sampler, Samplers
from bench.rows import intercept_history_writing
from bench.rows.intercept_history_files import FEW, MANY, filled
from bench.wire import StdioServer
from tests.support.intercepting import token_of

SMALL = f"{FEW:,} packets"


def _took(server: StdioServer, asked: dict[str, Any], rows: int | None) -> Noted:
    """Milliseconds for one page; the number of rows says whether it found what is there."""
    started = time.perf_counter()
    answer = server.call_tool("get_history", asked)
    took = (time.perf_counter() - started) * 1000
    page = json.loads(answer["content"][0]["text"])
    found = len(page["packets"])
    if rows is not None and found != rows:
        raise RuntimeError(f"{found} rows for {asked.get('filter')!r}")
    least = "" if page.get("total_is_exact", True) else " at least"
    note = f"{found} rows, complete: {page.get('complete', True)}"
    return Noted(took, f"{note}, total {page['total_count']:,}{least}")


@contextmanager
def _asking(packets: int, asked: dict[str, Any], rows: int | None) -> Iterator[Sampler]:
    folder = filled(packets)
    token = token_of(Workshop(folder).home)
    workshop = Workshop(folder)
    try:
        with workshop.start(PILOTHOUSE) as server:
            server.handshake()
            yield partial(_took, server, {"access_token": token, **asked}, rows)
    finally:
        stop_hub(workshop.home)


def _row(
    name: str,
    title: str,
    bound: Bound,
    *,
    rows: int | None = None,
    beside_few: bool = False,
    **asked: Any,
) -> Row:
    @contextmanager
    def run(_: Workshop) -> Iterator[Samplers]:
        with ExitStack() as servers:
            samplers = {PILOTHOUSE: servers.enter_context(_asking(MANY, asked, rows))}
            if beside_few:
                samplers[SMALL] = servers.enter_context(_asking(FEW, asked, None))
            yield samplers

    return Row(
        name=f"intercept-history-{name}",
        title=f"{title}, of {MANY:,} packets",
        subject=PILOTHOUSE,
        peers=(SMALL,) if beside_few else (),
        unit="ms",
        better="lower",
        bound=bound,
        run=run,
    )


RARE_TEXT = "full_text == Zauberlehrling"
COMMON_TEXT = "full_text == basket"

DEFAULT = _row("default", "The default page", Bound(50), rows=100, all_sessions=True)
OWN = _row("session", "The default page of a session", Bound(50), rows=100)
DEFAULT_GROWTH = _row(
    "default-growth", "The default page beside one of few", Bound(3, of=SMALL), beside_few=True
)
EQUALITY = _row(
    "equality", "A rare value of an indexed column", Bound(100), rows=4, filter="status == 418"
)
URL = _row("url", "A rare literal in urls", Bound(500), rows=4, filter="url =~ needle=[0-9]")
TEXT = _row("text", "A rare literal in all texts", Bound(500), rows=4, filter=RARE_TEXT)
TEXT_GROWTH = _row(
    "text-growth", "A rare literal in all texts beside few", Bound(3, of=SMALL),
    filter=RARE_TEXT, beside_few=True,
)  # fmt: skip
COMMON_GROWTH = _row(
    "common-growth", "A common literal in all texts beside few", Bound(3, of=SMALL),
    filter=COMMON_TEXT, beside_few=True,
)  # fmt: skip
ABSENT = _row(
    "absent", "A literal of common parts that no text has", Bound(500), rows=0,
    filter='full_text == "stocktotalphone"',
)  # fmt: skip
SCAN = _row(
    "scan", "A pattern without a literal that nothing matches", Bound(500), rows=0,
    filter="full_text =~ [0-9]{40}",
)  # fmt: skip
GROWTH = (DEFAULT_GROWTH, TEXT_GROWTH, COMMON_GROWTH)
PAGES = (DEFAULT, OWN, EQUALITY, URL, TEXT, ABSENT, SCAN, *GROWTH)
ROWS = (*PAGES, *intercept_history_writing.ROWS)

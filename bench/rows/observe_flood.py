"""A flood of console lines, until the last one can be read: does the observer keep up?"""

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.browser import (
    GUARD_S,
    POLL_S,
    RING,
    BareSocket,
    Stage,
    Watch,
    flood,
    new_marker,
    open_stage,
    pilothouse,
    start_flood,
    watched,
)
from bench.peers import BARE_WEBSOCKET, DEVTOOLS, PILOTHOUSE, PLAYWRIGHT, Workshop
from bench.peers.browsing import BrowsingPeer, on_browser
from bench.row import Bound, Noted, Row, Samplers
from bench.wire import StdioServer, WireError


def to_readable(server: StdioServer, stage: Stage, lines: int) -> Noted:
    """Milliseconds until `cdp_read_events` gives the last line."""
    marker = new_marker()
    with (
        stage.tab("/flood", "ready") as target,
        watched(server, stage, target, bufferSize=RING) as watch,
        stage.chromium.debugger(target) as page,
    ):
        first = watch.recorded()
        began = time.perf_counter()
        flood(page, lines, marker)
        watch.wait_for_line(first + lines - 1, marker)
        took = (time.perf_counter() - began) * 1000
        return Noted(took, account(watch, first, lines))


def account(watch: Watch, first: int, lines: int) -> str:
    """Every line is there, in order, or among those that the answer says were dropped."""
    found: list[int] = []
    dropped = 0
    for page in watch.pages(offset=first, kinds=["console"]):
        dropped += page["dropped"]
        found += [int(event["args"][1]) for event in page["events"]]
    if found != list(range(dropped, lines)):
        raise WireError(f"{lines} lines were logged, {dropped} told as dropped, {len(found)} there")
    return f"{len(found):,} kept" + (f", {dropped:,} told as dropped" if dropped else "")


def to_received(socket: BareSocket, stage: Stage, lines: int) -> float:
    """Milliseconds until the bare WebSocket has received the last line."""
    marker = new_marker()
    with (
        stage.tab("/flood", "ready") as target,
        stage.chromium.debugger(target) as page,
    ):
        socket.attach(stage, target, marker)
        began = time.perf_counter()
        start_flood(page, lines, marker)
        socket.wait_for_marker()
        return (time.perf_counter() - began) * 1000


def to_listed(peer: BrowsingPeer, stage: Stage, lines: int) -> Noted:
    """Milliseconds until a peer's list of console lines ends with the last one."""
    marker = new_marker()
    url = stage.url(f"/flood?tab={secrets.token_hex(4)}")
    peer.open(url)
    target = stage.target_of(url)
    with stage.chromium.debugger(target) as page:
        began = time.perf_counter()
        flood(page, lines, marker)
        while marker not in peer.last_line():
            if time.perf_counter() - began > GUARD_S:
                raise WireError(f"the last line was not listed within {GUARD_S} s")
            time.sleep(POLL_S)
        took = (time.perf_counter() - began) * 1000
    stage.chromium.close_tab(target)
    return Noted(took, f"{peer.kept_lines():,} kept")


@contextmanager
def run(lines: int, peers: tuple[str, ...], workshop: Workshop) -> Iterator[Samplers]:
    with ExitStack() as opened:
        stage = opened.enter_context(open_stage())
        server = opened.enter_context(pilothouse(workshop))
        socket = opened.enter_context(BareSocket())
        samplers: dict[str, partial[float] | partial[Noted]] = {
            PILOTHOUSE: partial(to_readable, server, stage, lines),
            BARE_WEBSOCKET: partial(to_received, socket, stage, lines),
        }
        for name in peers:
            # In a browser of its own: it listens to all tabs, the other contenders' as well.
            own = opened.enter_context(open_stage())
            peer = opened.enter_context(on_browser(workshop, name, own.chromium.port))
            samplers[name] = partial(to_listed, peer, own, lines)
        yield samplers


def flood_row(name: str, lines: int, *peers: str) -> Row:
    return Row(
        name=name,
        title=f"A flood of {lines:,} console lines, until the last one is readable",
        subject=PILOTHOUSE,
        peers=(BARE_WEBSOCKET, *peers),
        unit="ms",
        better="lower",
        bound=Bound(1.15, of=BARE_WEBSOCKET),
        run=partial(run, lines, peers),
    )


TEN_THOUSAND = flood_row("observe-flood-10k", 10_000, DEVTOOLS, PLAYWRIGHT)
HUNDRED_THOUSAND = flood_row("observe-flood-100k", 100_000)

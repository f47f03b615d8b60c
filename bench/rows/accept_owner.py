"""What it takes, when a connection is taken, to know whose process has connected."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Row, Samplers
from pilothouse.machine.net.local_users import Caller, caller_at, endpoint_of
from pilothouse.machine.net.socket_owner import owner_in_proc

TABLE = "/proc/net/tcp"
OPEN = 200
"""Connections that are open meanwhile: a table is read up to the one that is looked for."""


def _by_table(peer: tuple[str, int], here: tuple[str, int]) -> None:
    assert owner_in_proc(endpoint_of(peer), endpoint_of(here)) is not None


def _by_question(peer: tuple[str, int], here: tuple[str, int]) -> None:
    assert caller_at(peer, here) is Caller.OWN


def _sample(
    listener: socket.socket, ask: Callable[[tuple[str, int], tuple[str, int]], None]
) -> float:
    """Milliseconds for one connection that was just taken."""
    with socket.create_connection(listener.getsockname()), listener.accept()[0] as taken:
        peer, here = taken.getpeername(), taken.getsockname()
        began = time.perf_counter()
        ask(peer, here)
        return (time.perf_counter() - began) * 1000


@contextmanager
def run(_: Workshop) -> Iterator[Samplers]:
    with socket.create_server(("127.0.0.1", 0), backlog=OPEN) as listener:
        others = [socket.create_connection(listener.getsockname()) for _ in range(OPEN)]
        others += [listener.accept()[0] for _ in range(OPEN)]
        try:
            yield {
                PILOTHOUSE: partial(_sample, listener, _by_question),
                TABLE: partial(_sample, listener, _by_table),
            }
        finally:
            for one in others:
                one.close()


ROW = Row(
    name="accept-owner",
    title=f"Whose process has connected, asked on accept beside {OPEN} connections",
    subject=PILOTHOUSE,
    peers=(TABLE,),
    unit="ms",
    better="lower",
    bound=Bound(0.2),
    run=run,
)

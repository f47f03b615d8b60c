"""What a message that is nearly all keys costs the process that reads it first."""

import http.client
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from urllib.parse import urlsplit

import psutil

from bench.http_wire import GUARD_S, http_server
from bench.peers import PILOTHOUSE, Workshop, open_workshop
from bench.row import Bound, Noted, Row, Sampler, Samplers

DIRECT = "without a hub"
KEYS = 330_000
MESSAGES = 10
"""Processes are charged in hundredths of a second."""


def _message() -> bytes:
    keys = ",".join(f'"{number:06}":0' for number in range(KEYS))
    call = f'{{"name":"status","arguments":{{{keys}}}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{call}}}'.encode()


def _sample(url: str, pid: int, message: bytes) -> Noted:
    """Milliseconds of processor time for one message."""
    server = psutil.Process(pid)
    before = server.cpu_times()
    status = {_status(url, message) for _ in range(MESSAGES)}
    after = server.cpu_times()
    spent = after.user + after.system - before.user - before.system
    note = f"answered {', '.join(map(str, status))}; {len(message) / 1e6:.1f} MB"
    return Noted(spent * 1000 / MESSAGES, note)


def _status(url: str, message: bytes) -> int:
    link = http.client.HTTPConnection(urlsplit(url).netloc, timeout=GUARD_S)
    kinds = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        link.request("POST", "/mcp", message, kinds)
        answer = link.getresponse()
        answer.read()
        return answer.status
    finally:
        link.close()


@contextmanager
def run(_: Workshop) -> Iterator[Samplers]:
    message = _message()
    with ExitStack() as servers:
        samplers: dict[str, Sampler] = {}
        for contender, flags in ((PILOTHOUSE, ()), (DIRECT, ("--standalone",))):
            workshop = servers.enter_context(open_workshop())
            url, pid = servers.enter_context(http_server(workshop, *flags))
            samplers[contender] = partial(_sample, url, pid, message)
        yield samplers


ROW = Row(
    name="gateway-many-keys",
    title=f"Processor time of the hub for a message of {KEYS:,} keys",
    subject=PILOTHOUSE,
    peers=(DIRECT,),
    unit="ms",
    better="lower",
    bound=Bound(200),
    run=run,
)

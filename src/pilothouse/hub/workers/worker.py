"""The processes of the hub's own workers: the warm parent, and what each worker serves.

Beside `wiring/standalone.py` and `wiring/groups.py` a file that knows all groups. The hub runs it
as a module.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import tempfile
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.hub_port import HubLost
from pilothouse.core.net.origins import OriginPolicy
from pilothouse.core.settings import Settings, unpacked
from pilothouse.hub.http.client import delete, get, post
from pilothouse.hub.ports import Upstream
from pilothouse.hub.services.client import ServiceLink
from pilothouse.hub.workers import Use, zygote
from pilothouse.hub.workers.builtin import LINES, USE_PATH
from pilothouse.ipc.local_socket import listen_at
from pilothouse.ipc.rpc import ServiceBroke
from pilothouse.server.runtime import TIMELINE_URI, open_runtime
from pilothouse.wiring import standalone
from pilothouse.wiring.agents import Showing
from pilothouse.wiring.groups import GROUP_SPECS

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.server.logs import Log
    from pilothouse.server.runtime import Runtime

_WORDS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("tools/list", {}, ""),
    ("tools/call", {"name": "status", "arguments": {}}, "status"),
    ("resources/list", {}, ""),
    ("resources/templates/list", {}, ""),
    ("resources/read", {"uri": TIMELINE_URI}, TIMELINE_URI),
)
"""Requests of a rehearsal, each with the name that its 2026 form carries in a header."""
_CLIENT = {"name": "rehearsal", "version": "0"}
_ABOUT = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HELLOS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT},
    ),
    ("server/discover", {"_meta": _ABOUT}),
)
_RUNNING = ("observing", "crashed", "disconnected")
"""States of an observation that goes on, or will when its tab or browser is back."""
COUNT_S = 0.5
"""Seconds after a call until its counts are sent to the hub, with those of calls meanwhile."""
LAST_S = 2
"""Seconds after which a worker whose parent has died is gone, whatever it does."""


def serve(order: zygote.WorkerOrder, listener: socket.socket, link: zygote.ZygoteLink) -> int:
    """Be a worker until a signal comes."""
    # What the parent had is frozen already; see wiring/standalone.py for why the collector is
    # calmed.
    gc.set_threshold(50_000, 20, 100)
    if order.temp:
        # Of browsers and their driver alone: Python has made up its mind in the parent.
        os.environ["TMPDIR"] = order.temp
    lines = listen_at(order.socket + LINES)
    anyio.run(_serve, order, listener, lines, link)
    return 0


async def _serve(
    order: zygote.WorkerOrder,
    listener: socket.socket,
    lines: socket.socket,
    link: zygote.ZygoteLink,
) -> None:
    asyncio.get_running_loop().add_reader(link.fileno(), _orphaned, link)
    # To the very end: a second signal must not cut short what the first one began.
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with _answering(unpacked(order.settings), listener, lines, order) as log:
            link.ready()
            log.info("worker_stopping", signal=signal.Signals(await anext(signals)).name)


def _orphaned(link: zygote.ZygoteLink) -> None:
    # Linux has ended us by then. Elsewhere: in order first, by force soon.
    asyncio.get_running_loop().remove_reader(link.fileno())
    signal.alarm(LAST_S)
    os.kill(os.getpid(), signal.SIGTERM)


@asynccontextmanager
async def _answering(
    settings: Settings,
    listener: socket.socket,
    lines: socket.socket,
    order: zygote.WorkerOrder | None = None,
) -> AsyncIterator[Log]:
    from pilothouse.server.mcp.handlers import build_server
    from pilothouse.server.transports.asgi import serving
    from pilothouse.server.transports.http import HttpAppDeps, http_app
    from pilothouse.server.transports.pages import Pages
    from pilothouse.server.transports.unix_socket import serving_lines

    redactor = standalone.make_redactor(settings)
    log = standalone.make_log(settings, redactor)
    async with _runtime(settings, redactor, log, order) as runtime:
        served = http_app(
            HttpAppDeps(
                runtime=runtime,
                server=build_server(runtime),
                origin_policy=OriginPolicy(),
                pages=Pages(page=lambda _: "", css=""),
                base_url="http://localhost",
            )
        )
        async with serving_lines(runtime, lines), serving(_with_use(served, runtime), listener):
            yield log


@asynccontextmanager
async def _runtime(
    settings: Settings, redactor: Redactor, log: Log, order: zygote.WorkerOrder | None
) -> AsyncIterator[Runtime]:
    """Open a worker's runtime with the hub's services; a rehearsal, without order, has its own."""
    if order is None:
        async with open_runtime(GROUP_SPECS, settings, redactor, log) as runtime:
            yield runtime
        return
    hub = ServiceLink(order.session, lambda do, error: log.error("service_failed", error, do=do))
    try:
        async with open_runtime(GROUP_SPECS, settings, redactor, log, hub) as runtime:
            hub.show = Showing(runtime).answer
            if order.services:
                await _join(hub, order.services, runtime)
            _tell_calls(hub, runtime)
            yield runtime
        await _tell_counts(hub, runtime)
    finally:
        hub.leave()


def _tell_calls(hub: ServiceLink, runtime: Runtime) -> None:
    """Tell the hub what was counted soon after each call: a worker may be killed at any time."""
    loop = asyncio.get_running_loop()
    due: asyncio.TimerHandle | None = None

    def tell() -> None:
        nonlocal due
        due = None
        hub.tell("house.counted", told=runtime.metrics.tally())

    def called() -> None:
        nonlocal due
        due = due or loop.call_later(COUNT_S, tell)

    runtime.metrics.on_called = called


async def _tell_counts(hub: ServiceLink, runtime: Runtime) -> None:
    """Report what was counted since the hub asked last, before nobody can be asked any more."""
    with suppress(HubLost, TimeoutError):
        async with asyncio.timeout(LAST_S):
            await hub.call("house.counted", told=runtime.metrics.tally())


async def _join(hub: ServiceLink, path: str, runtime: Runtime) -> None:
    """Join the hub; a worker that cannot serves all the same: its tools say what is missing."""
    try:
        await hub.join(path, runtime)
    except OSError as error:
        # The hub has most likely been killed, and this worker is about to be.
        runtime.log.warn("hub_not_joined", socket=path, error=str(error) or type(error).__name__)
    except ServiceBroke as error:
        runtime.log.error("hub_not_joined", error, socket=path)


def _with_use(app: ASGIApp, runtime: Runtime) -> ASGIApp:
    """Answer the hub, which asks before it ends a worker that nobody calls."""
    from pilothouse.server.transports.edge import respond

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == USE_PATH:
            await respond(send, 200, _use(runtime))
        else:
            await app(scope, receive, send)

    return answer


def _use(runtime: Runtime) -> Use:
    """Return whether a call runs, or a browser session or a running observation is within its own
    limit; or whether a relay called lately, which the hub does not see. What an ended one kept is
    no reason to stay: it is readable until the idle limit, or until another agent needs the place.
    """
    from pilothouse.observe.ports import Observer

    now = runtime.clock()
    observers = [session.opened(Observer) for session in runtime.sessions]
    if (
        len(runtime.debug_ports) > 0
        or any(session.running_calls for session in runtime.sessions)
        or any(
            one.state in _RUNNING and not one.expired(now)
            for observer in observers
            if observer is not None
            for one in observer.observations
        )
    ):
        return Use.HOLDING
    lately = now - runtime.settings.worker_idle * 1000
    called = any(one.last_call_at > lately for one in runtime.sessions if one.id == "stdio")
    return Use.LATELY if called else Use.NONE


def warm_up(hub_folder: Path) -> None:
    """Do once what each worker would do for itself: import, and answer in both eras."""
    tempfile.gettempdir()  # asked once: workers have another TMPDIR, for their browsers alone
    for spec in GROUP_SPECS:
        spec.ready  # noqa: B018  # it imports the group
    # Where the hub, or the next one, removes it should we be killed meanwhile.
    with tempfile.TemporaryDirectory(prefix="w", dir=hub_folder) as folder:
        anyio.run(_rehearse, Path(folder))


async def _rehearse(folder: Path) -> None:
    settings = Settings(home=str(folder), log_level="error")
    socket_path = folder / "door"
    lines = folder / "lines"
    async with _answering(settings, listen_at(str(socket_path)), listen_at(str(lines))):
        await _talk(socket_path)
        for hello in _HELLOS:
            await _talk_in_lines(lines, hello)


async def _talk(socket_path: Path) -> None:
    """Hold one conversation in each era, as a hub would have it with a worker."""
    worker = Upstream("localhost", path=str(socket_path))
    told = await post(worker, *_HELLOS[0])
    session = {"Mcp-Session-Id": told.session, "MCP-Protocol-Version": "2025-11-25"}
    await post(worker, "notifications/initialized", headers=session)
    for method, params, name in _WORDS:
        await post(worker, method, params, session)
        modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        named = {"Mcp-Name": name} if name else {}
        await post(worker, method, {**params, "_meta": _ABOUT}, modern | named)
    await get(worker, USE_PATH)
    await delete(worker, session)


async def _talk_in_lines(socket_path: Path, hello: tuple[str, dict[str, Any]]) -> None:
    """Hold a conversation as a relay would have it with a worker."""
    reader, writer = await asyncio.open_unix_connection(socket_path)
    about = {"_meta": _ABOUT} if "_meta" in hello[1] else {}
    words = [hello, *((method, {**params, **about}) for method, params, _ in _WORDS)]
    for number, (method, params) in enumerate(words):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        writer.write(json.dumps(message).encode() + b"\n")
    for _ in words:
        await reader.readline()
    writer.close()


if __name__ == "__main__":
    zygote.run(sys.argv[1], partial(warm_up, Path(sys.argv[1]).parent), serve)

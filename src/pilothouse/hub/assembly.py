"""What a hub is made of, wired: beside `wiring/standalone.py` a file that knows what others have
built."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse import __version__
from pilothouse.core.settings import BY_NAME, packed, unpacked
from pilothouse.hub.control.server import ControlServer
from pilothouse.hub.own_template import own_template
from pilothouse.hub.pages import HubCounts, admitter, authenticator, pages_app, throttle
from pilothouse.hub.ports import Upstream
from pilothouse.hub.services.server import open_services
from pilothouse.hub.sessions.open import open_registry
from pilothouse.hub.state import Hub
from pilothouse.hub.workers import StartFailed
from pilothouse.hub.workers.bridges.http_to_lines import Bridges
from pilothouse.hub.workers.builtin import SERVICES
from pilothouse.hub.workers.factory import open_pool, run_folder
from pilothouse.ipc.local_socket import listen_at
from pilothouse.machine.net.http_token import http_access, origin_policy
from pilothouse.server.runtime import open_runtime
from pilothouse.wiring.daily_sweep import keep_swept
from pilothouse.wiring.extension_pairing import is_paired, watch_pairing
from pilothouse.wiring.groups import GROUP_SPECS

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.settings import Settings
    from pilothouse.hub.files import HubFiles
    from pilothouse.hub.services.server import Services
    from pilothouse.hub.sessions.open import Shared
    from pilothouse.hub.workers import Kind
    from pilothouse.hub.workers.pool import Pool
    from pilothouse.server.logs import Log
    from pilothouse.server.runtime import Runtime
    from pilothouse.server.transports.oauth import BearerAuth, OAuthConfig
    from pilothouse.wiring.state_sweep import Report

    type Ready = Callable[[str], None]
    """Callback that gets the URL once the hub listens."""

LOOK_S = 1.0
"""Seconds between two looks whether anybody needs the hub."""
PAGES = "house"
"""The socket of all that is no MCP, in the run folder."""


@dataclass(frozen=True)
class HubPlan:
    """The settings and parts that a hub is to run with."""

    settings: Settings
    files: HubFiles
    redactor: Redactor
    log: Log
    listener: socket.socket
    oauth: OAuthConfig | None
    tls: ssl.SSLContext | None
    ready: Ready
    leaves: bool
    """The hub ends by itself when nobody needs it any more."""

    @cached_property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    @cached_property
    def url(self) -> str:
        host = self.listener.getsockname()[0]
        name = f"[{host}]" if ":" in host else host
        return f"http{'s' if self.tls else ''}://{name}:{self.port}"

    @property
    def base_url(self) -> str:
        """URL by which clients reach the hub."""
        return self.settings.public_url.rstrip("/") or self.url


async def serve(plan: HubPlan) -> None:
    """Run the hub until a signal comes, somebody stops it, or nobody needs it any more."""
    over = asyncio.Event()
    # To the very end: a second signal must not cut short what the first one began.
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:

        async def heed_signals() -> None:
            async for received in signals:
                plan.log.info("stopping", signal=signal.Signals(received).name)
                over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heed_signals)
            async with _running_hub(plan, over.set) as running:
                plan.ready(plan.url)
                plan.log.info("hub_ready", url=plan.url, pid=os.getpid())
                if plan.leaves:
                    tasks.start_soon(_leave_when_unused, plan, running, over)
                await over.wait()
            tasks.cancel_scope.cancel()


class RunningHub:
    """A hub that serves."""

    def __init__(self, plan: HubPlan, runtime: Runtime, hub: Hub, control: ControlServer) -> None:
        self.hub = hub
        self.control = control
        self._plan = plan
        self._runtime = runtime
        self._swept: Report | None = None

    @property
    def in_use(self) -> bool:
        return bool(self.control.relays) or self.hub.in_use

    def differing(self, wanted: Mapping[str, Any]) -> list[str]:
        """Return the names of these settings with which this hub does not run."""
        asked, own = unpacked(wanted), replace(self._plan.settings, http_port=self._plan.port)
        return [name for name in wanted if getattr(asked, name, None) != getattr(own, name, None)]

    def learn_swept(self, report: Report) -> None:
        """Remember what the last sweep did."""
        self._swept = report

    def status(self) -> dict[str, Any]:
        """Return what `pilothouse status` shows."""
        plan, runtime = self._plan, self._runtime
        secrets = {s.name: s.default for s in BY_NAME.values() if s.about.secret}
        return {
            "version": __version__,
            "pid": os.getpid(),
            "url": plan.url,
            "port": plan.port,
            "uptime": round((runtime.clock() - runtime.started_at) / 1000, 3),
            "leaves": plan.leaves,
            "log": str(plan.files.log) if plan.leaves else "",
            "settings": packed(replace(plan.settings, **secrets)),
            "relays": len(self.control.relays),
            "services": dict(runtime.services),
            "swept": self._swept.facts() if self._swept else None,
            **self.hub.status(),
        }


@asynccontextmanager
async def _running_hub(plan: HubPlan, stop: Callable[[], None]) -> AsyncIterator[RunningHub]:
    """Run everything that a hub is, for the block; after it its workers have ended too."""
    settings, log = plan.settings, plan.log.of("hub")
    async with AsyncExitStack() as stack:
        parts = await _open_parts(plan, stack)
        runtime, services = parts.runtime, parts.services
        gate = _gate(plan)
        hub = _make_hub(plan, parts, gate)
        stack.push_async_callback(hub.close)
        parts.counts.watch(hub)
        pages = pages_app(runtime, hub, services, gate, plan.base_url)
        await stack.enter_async_context(_serving(pages, parts.folder / PAGES))
        # Pages that are open would keep the server waiting for their end.
        stack.callback(hub.listener.close)
        control = ControlServer(
            workers=parts.pool,
            registry=parts.shared.registry,
            clock=time.time,
            about=_about(plan),
            status=lambda: running.status(),
            differing=lambda wanted: running.differing(wanted),
            stop=stop,
            report=parts.counts.happened,
            settings={"worker_idle": settings.worker_idle},
            bridges=Bridges(parts.folder, parts.pool, hub.template),
        )
        running = RunningHub(plan, runtime, hub, control)
        await stack.enter_async_context(control.open_at(plan.files.socket))

        async def announce_pairing() -> None:
            await watch_pairing(runtime)
            services.announce()
            hub.tools_changed()
            control.paired()

        stack.callback(asyncio.create_task(announce_pairing()).cancel)
        sweeping = keep_swept(settings, log, running.learn_swept)
        stack.callback(asyncio.create_task(sweeping).cancel)
        server = await asyncio.get_running_loop().create_server(
            hub.listener.client, sock=plan.listener, ssl=plan.tls
        )
        stack.callback(server.close)
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Parts of which a hub is put together."""

    runtime: Runtime
    services: Services
    counts: HubCounts
    pool: Pool
    kind: Kind
    shared: Shared
    folder: Path
    """Folder of the sockets of this run."""


async def _open_parts(plan: HubPlan, stack: AsyncExitStack) -> _Parts:
    """Open what is there before the hub and ends after it."""
    settings, log = plan.settings, plan.log.of("hub")
    templates = cache(partial(own_template, settings))
    enter = stack.enter_async_context
    runtime = await enter(
        open_runtime(GROUP_SPECS, settings, plan.redactor, plan.log, paired=is_paired(settings))
    )
    runtime.listeners.add(plan.port)
    folder = stack.enter_context(run_folder())
    # Closed after the pool: then no worker is left that could need them.
    services = await enter(open_services(runtime, folder / SERVICES))
    counts = HubCounts(runtime.metrics, log)
    pool, kind = await enter(
        open_pool(settings, folder, lambda: templates(paired=runtime.paired), counts.happened)
    )
    stack.callback(asyncio.create_task(_warm_up(kind, log)).cancel)
    shared = await enter(open_registry(settings, pool, plan.url, counts.happened))
    return _Parts(
        runtime=runtime,
        services=services,
        counts=counts,
        pool=pool,
        kind=kind,
        shared=shared,
        folder=folder,
    )


def _make_hub(plan: HubPlan, parts: _Parts, gate: BearerAuth | None) -> Hub:
    settings, log = plan.settings, plan.log.of("hub")
    access = None if gate else http_access(settings, plan.redactor)
    return Hub(
        registry=parts.shared.registry,
        pool=parts.pool,
        kind=parts.kind,
        pages=Upstream("", path=str(parts.folder / PAGES)),
        origin_policy=origin_policy(settings),
        clock=time.time,
        report=lambda what, error: log.error("request_failed", error, request=what),
        authenticate=None if gate is None else authenticator(gate),
        throttle=throttle(parts.runtime),
        traffic=parts.counts.passed,
        workers=parts.shared.workers,
        peers=parts.shared.peers,
        admit=None if access is None else admitter(access),
    )


def _gate(plan: HubPlan) -> BearerAuth | None:
    if plan.oauth is None:
        return None
    from pilothouse.server.transports.oauth import BearerAuth

    return BearerAuth(plan.oauth, plan.base_url)


def _about(plan: HubPlan) -> dict[str, Any]:
    """Return what relays are welcomed with."""
    return {
        "version": __version__,
        "pid": os.getpid(),
        "url": plan.url,
        "worker": plan.settings.worker,
    }


@asynccontextmanager
async def _serving(pages: Any, path: Path) -> AsyncIterator[None]:
    from pilothouse.server.transports.asgi import serving

    async with serving(pages, listen_at(str(path))):
        yield


async def _warm_up(kind: Kind, log: Log) -> None:
    """Prepare the workers, so that the first call need not wait for it."""
    began = time.monotonic()
    try:
        await kind.prepare()
    except StartFailed as failed:
        log.error("workers_cannot_start", why=str(failed))
    else:
        log.info("warm", seconds=round(time.monotonic() - began, 3))


async def _leave_when_unused(plan: HubPlan, running: RunningHub, over: asyncio.Event) -> None:
    idle_since, requests = time.monotonic(), -1
    while True:
        await asyncio.sleep(LOOK_S)
        plan.files.bound_log()
        now, asked = time.monotonic(), running.hub.listener.requests
        if running.in_use or asked != requests:
            idle_since, requests = now, asked
        elif now - idle_since >= plan.settings.hub_idle:
            plan.log.info("leaving", idle_s=round(now - idle_since))
            over.set()
            return

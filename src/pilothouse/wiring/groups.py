"""The groups that are served: what each brings, and what its ports are made of.

With `standalone.py` the only file that knows all groups. Modules are imported when used.
"""

from __future__ import annotations

import json
import os
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from pilothouse.server.groups import GroupSpec, LazyGroupSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.bookmarks.changes.profile import ConnectedProfile
    from pilothouse.core.settings import Settings
    from pilothouse.e2e.ports import Entrance
    from pilothouse.observe.record.store_limits import Caps
    from pilothouse.server.session import Session


@asynccontextmanager
async def _observatory(session: Session) -> AsyncIterator[object]:
    from pilothouse.observe.observer import ObserverDeps, open_observatory
    from pilothouse.observe.record.session_store import open_store

    caps_of = partial(_store_caps, session.settings)
    with open_store(session.settings.store, session.id, caps_of) as keep:
        deps = ObserverDeps(
            settings=session.settings,
            clock=session.clock,
            changed=session.changed,
            redactor=session.redactor,
            timeline=session.timeline,
            environ=os.environ,
            count=session.metrics.count,
            keep=keep,
            debug_port=lambda e2e_session: session.debug_ports.port_of(session.id, e2e_session),
            foreign_ports=lambda: session.debug_ports.foreign(session.id),
            priority=session.priority,
        )
        async with open_observatory(deps, session.metrics.at_scrape) as observatory:
            yield observatory


@asynccontextmanager
async def _sessions(session: Session) -> AsyncIterator[object]:
    from pathlib import Path
    from tempfile import gettempdir

    from pilothouse.core.child_env import own_environment
    from pilothouse.e2e.app_server.start import Starter
    from pilothouse.e2e.failure.dossier_page import dossier_page
    from pilothouse.e2e.failure.explain import Explainer
    from pilothouse.e2e.sessions import open_sessions
    from pilothouse.e2e.start import SessionDeps
    from pilothouse.machine.child import start_child
    from pilothouse.machine.chromium.finder import find_browser, lend_ffmpeg, needs_no_sandbox
    from pilothouse.machine.chromium.pipe_launch import share_pipe
    from pilothouse.machine.folders import private_folder
    from pilothouse.wiring.e2e_recording import SessionRecorder

    settings, redactor = session.settings, session.redactor

    def chromium() -> str:
        found = find_browser(os.environ, settings.browser)
        return str(found.path) if found else ""

    async def client_roots() -> list[Path]:
        return [Path(root) for root in await session.client_roots()] if session.client_roots else []

    def driver_environ() -> dict[str, str]:
        folder = partial(private_folder, settings.home, os.environ, "state", "playwright")
        return {**own_environment(os.environ), **lend_ffmpeg(os.environ, folder)}

    deps = SessionDeps(
        settings=settings,
        clock=session.clock,
        timeline=session.timeline,
        recorder=SessionRecorder(session),
        intercept=partial(_entrance, session),
        starter=Starter(
            settings=settings,
            # An app may keep caches there, which outlive a worker (hub/workers/worker.py).
            environ={**os.environ, "TMPDIR": gettempdir()},
            spawn=start_child,
            clock=session.clock,
            roots=(Path.cwd(), *map(Path, settings.roots)),
        ),
        explain=Explainer(dossier_page, redactor.texts, session.serves, settings.failure_picture),
        make_folder=lambda name: private_folder(
            settings.home, os.environ, "state", f"sessions/{name}"
        ),
        why_swept=partial(_why_swept, settings),
        state_folder=lambda: private_folder(settings.home, os.environ, "state", "logins"),
        find_browser=chromium,
        driver_environ=driver_environ,
        share_pipe=share_pipe,
        chromium_flags=("--no-sandbox",) if needs_no_sandbox() else (),
        listeners=session.listeners,
        redactor=redactor,
        client_roots=client_roots,
    )
    async with open_sessions(deps) as sessions:
        yield sessions


def _store_caps(settings: Settings, path: Path) -> Caps | None:
    """Return what a store may hold: as much as it likes where the user wants it elsewhere."""
    from pilothouse.machine.state.places import DAY_S, is_ours, store_bytes
    from pilothouse.observe.record.store_limits import Caps

    if not is_ours(path, settings, os.environ):
        return None
    return Caps(settings.keep_days * DAY_S, store_bytes(settings))


def _why_swept(settings: Settings, session_id: str) -> str:
    from pilothouse.wiring.state_sweep import why_swept

    return why_swept(settings, os.environ, session_id)


@asynccontextmanager
async def _entrance(
    session: Session, e2e_session: str, onward: Entrance
) -> AsyncIterator[Entrance]:
    """Open the intercepting proxy before the browser of one e2e session, for the block."""
    from pilothouse.core.declare.faults import Fault
    from pilothouse.e2e.model import BrowserLaunchFailed
    from pilothouse.e2e.ports import Entrance
    from pilothouse.intercept.ports import Interceptor
    from pilothouse.intercept.proxy import Proxy

    assert session.shared is not None
    async with AsyncExitStack() as stack:
        try:
            proxy = await session.shared.port(Proxy)
            await session.port(Interceptor)  # so that its packets reach the agent's timeline
            listening = proxy.browser(e2e_session, session.name, onward.port, onward.secret)
            port = await stack.enter_async_context(listening)
            entrance = Entrance(port, onward.secret, await proxy.trusted_key())
        except Fault as fault:
            raise BrowserLaunchFailed(
                f"the intercepting proxy cannot be used: {fault.message}",
                hint=fault.hint or "get_logs has what it said; or start without intercept",
            ) from None
        yield entrance


@asynccontextmanager
async def _proxy(shared: Session) -> AsyncIterator[object]:
    """Open the hub's proxy; without one that of this process, with REST API and config endpoint."""
    from pilothouse.wiring.access_token import access_token

    secret = access_token(shared.settings)
    shared.redactor.teach(secret.value())  # a misspelt argument must not show it
    if shared.hub is not None:
        from pilothouse.intercept.hub_client import open_remote_proxy

        async with open_remote_proxy(shared.hub) as remote:
            yield remote
        return
    from pilothouse.intercept.proxy import open_proxy
    from pilothouse.intercept.token import token_check
    from pilothouse.machine.child import start_child
    from pilothouse.machine.folders import private_folder
    from pilothouse.machine.net.http_token import http_token_file
    from pilothouse.wiring.intercept_http import intercept_listeners

    settings = shared.settings
    async with (
        open_proxy(
            folder=private_folder(settings.home, os.environ, "data", "intercept"),
            settings_folder=private_folder(settings.home, os.environ, "config", "intercept"),
            tokens=token_check(secret),
            clock=shared.clock,
            spawn=start_child,
            read_only=settings.read_only,
            own_ports=lambda: shared.listeners,
            on_history=partial(_tell_history, shared),
            engine_options=[
                f"--max-bytes={settings.history_mb << 20}",
                f"--max-age-s={settings.keep_days * 86_400}",
                *([f"--upstream-ca={settings.upstream_ca}"] if settings.upstream_ca else []),
                *([f"--client-cert={settings.client_cert}"] if settings.client_cert else []),
                *(["--insecure"] if settings.upstream_insecure else []),
                *(["--ask-everybody"] if settings.local_users == "all" else []),
                f"--token-file={http_token_file(settings).path}",
                f"--policy={_policy(settings)}",
            ],
        ) as proxy,
        intercept_listeners(shared, proxy),
    ):
        # Not before they listen: the engine must know their ports to keep clients out.
        await proxy.listen_if_wanted()
        yield proxy


def _policy(settings: Settings) -> str:
    """Return where browsers may go, as the proxy's engine takes it."""
    hosts = settings.allowed_hosts
    return json.dumps({"allowed_hosts": hosts, "development": not settings.production})


def _tell_history(shared: Session, reason: str) -> None:
    """Show among the services why packets are not recorded, or that they are again."""
    shared.services["packet history"] = f"off: {reason}" if reason else "on"


@asynccontextmanager
async def _interceptor(session: Session) -> AsyncIterator[object]:
    from pilothouse.intercept.agent import AgentInterceptor
    from pilothouse.intercept.hub_client import RemoteInterceptor
    from pilothouse.intercept.proxy import Proxy

    assert session.shared is not None
    proxy = await session.shared.port(Proxy)
    at_a_terminal = session.id in ("stdio", "call")
    filled_token = session.settings.packet_proxy_access_token if at_a_terminal else ""
    if session.hub is not None:
        with proxy.telling(session.timeline):
            yield RemoteInterceptor(
                proxy=proxy,
                session=session.name,
                redactor=session.redactor,
                filled_token=filled_token,
                read_only=session.settings.read_only,
            )
        return
    view = AgentInterceptor(
        proxy=proxy,
        session=session.id,
        redactor=session.redactor,
        timeline=session.timeline,
        filled_token=filled_token,
        who=f"session {session.id}",
    )
    async with proxy.view(view):
        yield view


@asynccontextmanager
async def _link(shared: Session) -> AsyncIterator[object]:
    """Open the hub's link; without one that of this process, to every Chrome with the extension."""
    import time

    from pilothouse import __version__
    from pilothouse.bookmarks.changes.apply import recover
    from pilothouse.bookmarks.changes.journal import open_journal
    from pilothouse.bookmarks.extension.guidance import Guidance
    from pilothouse.bookmarks.extension.listener import open_link
    from pilothouse.bookmarks.extension.pairing import Pairing
    from pilothouse.bookmarks.extension.server import ExtensionServer
    from pilothouse.machine.folders import private_folder
    from pilothouse.machine.port_holders import port_trouble
    from pilothouse.wiring.extension_pairing import extension_folder, mark_paired, pairing_secret

    settings = shared.settings
    journals = private_folder(settings.home, os.environ, "data", "bookmarks/journals")
    guidance = Guidance(extension_folder(), time.monotonic)
    if shared.hub is not None:
        from pilothouse.bookmarks.hub_client import open_remote_link

        look = partial(open_journal, journals, alone=False)
        async with open_remote_link(shared.hub, guidance, look) as remote:
            yield remote
        return

    async def connected(profile: ConnectedProfile) -> None:
        mark_paired(settings)
        await recover(profile)

    link = ExtensionServer(
        server=f"pilothouse {__version__}",
        pairing=Pairing(pairing_secret(settings)),
        clock=shared.clock,
        guidance=guidance,
        open_journal=partial(open_journal, journals, kept_s=settings.keep_days * 86_400),
        on_connected=connected,
        on_state=partial(shared.services.__setitem__, "bookmarks link"),
        on_port=shared.listeners.add,
        own_user_only=settings.local_users == "own",
    )
    async with open_link(link, settings.bookmarks_port, port_trouble):
        yield link


@asynccontextmanager
async def _view(session: Session) -> AsyncIterator[object]:
    from pathlib import Path

    from pilothouse.bookmarks.agent import AgentBookmarks
    from pilothouse.bookmarks.extension.server import ExtensionServer
    from pilothouse.core.net.url_policy import Policy
    from pilothouse.machine.folders import private_folder

    settings = session.settings

    def policy() -> Policy:
        return Policy(
            allowed_hosts=settings.allowed_hosts,
            development=not settings.production,
            blocked_ports=frozenset(session.listeners) | session.debug_ports.foreign(session.id),
        )

    assert session.shared is not None
    link = await session.shared.port(ExtensionServer)
    view = AgentBookmarks(
        link=link,
        session=session.name,
        redactor=session.redactor,
        timeline=session.timeline,
        changed=session.changed,
        export_folder=partial(
            private_folder, settings.home, os.environ, "data", "bookmarks/exports"
        ),
        file_roots=lambda: (Path.cwd(), *map(Path, settings.roots)),
        policy=policy,
    )
    with link.view(view):
        yield view


@asynccontextmanager
async def _moments(session: Session) -> AsyncIterator[object]:
    from pilothouse.wiring.timeline_sources import SessionMoments

    yield SessionMoments(session)


@asynccontextmanager
async def _watches(session: Session) -> AsyncIterator[object]:
    import secrets

    from pilothouse.server.render import Afterword
    from pilothouse.timeline.watcher import open_watches
    from pilothouse.timeline.watches import footer
    from pilothouse.wiring.timeline_sources import SessionMoments

    moments = SessionMoments(session)
    async with open_watches(moments, moments, session.changed) as watches:

        def afterword() -> Afterword | None:
            news = watches.take_news()
            if not news:
                return None
            text = footer(news).text(secrets.token_urlsafe(16))
            return Afterword(text, {"pilothouse/watches": news})

        session.afterword = afterword
        try:
            yield watches
        finally:
            session.afterword = None


def _house() -> GroupSpec:
    from pilothouse.server.prompts import PROMPTS
    from pilothouse.server.tools import RESOURCES, TOOLS

    return GroupSpec(tools=TOOLS, resources=RESOURCES, prompts=PROMPTS)


def _observe() -> GroupSpec:
    from pilothouse.observe.ports import Observer
    from pilothouse.observe.tools import RESOURCES, TOOLS

    return GroupSpec(tools=TOOLS, resources=RESOURCES, providers={Observer: _observatory})


def _e2e() -> GroupSpec:
    from pilothouse.e2e.ports import Sessions
    from pilothouse.e2e.tools.session import RESOURCES, TOOLS

    return GroupSpec(tools=TOOLS, resources=RESOURCES, providers={Sessions: _sessions})


def _intercept() -> GroupSpec:
    from pilothouse.intercept.ports import Interceptor
    from pilothouse.intercept.proxy import Proxy
    from pilothouse.intercept.tools.listing import RESOURCES, TOOLS

    return GroupSpec(
        tools=TOOLS, resources=RESOURCES, providers={Proxy: _proxy, Interceptor: _interceptor}
    )


def _bookmarks() -> GroupSpec:
    from pilothouse.bookmarks.extension.server import ExtensionServer
    from pilothouse.bookmarks.ports import Bookmarks
    from pilothouse.bookmarks.tools.listing import RESOURCES, TOOLS

    return GroupSpec(
        tools=TOOLS, resources=RESOURCES, providers={ExtensionServer: _link, Bookmarks: _view}
    )


def _timeline() -> GroupSpec:
    from pilothouse.timeline.ports import Moments, Watches
    from pilothouse.timeline.tools.listing import RESOURCES, TOOLS

    return GroupSpec(
        tools=TOOLS, resources=RESOURCES, providers={Moments: _moments, Watches: _watches}
    )


GROUP_SPECS = (
    LazyGroupSpec("house", _house),
    LazyGroupSpec("observe", _observe),
    LazyGroupSpec("e2e", _e2e),
    LazyGroupSpec("intercept", _intercept),
    LazyGroupSpec("bookmarks", _bookmarks),
    LazyGroupSpec("timeline", _timeline),
)
"""Specs of all groups, in the order in which their tools are listed."""

"""The groups that are served: what each brings, and what its ports are made of.

With `app.py` the only file that knows all groups. Their modules are imported when they are used.
"""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from pilothouse.server.parts import LaterPart, Part

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.e2e.ports import Entrance
    from pilothouse.server.session import Session


@asynccontextmanager
async def _observatory(session: Session) -> AsyncIterator[object]:
    from pilothouse.observe.adapter import open_observatory
    from pilothouse.observe.store import open_store

    with open_store(session.settings.store, session.id) as keep:
        async with open_observatory(
            session.settings,
            session.clock,
            session.changed,
            session.redactor,
            session.timeline,
            os.environ,
            session.metrics.count,
            session.metrics.at_scrape,
            keep,
            lambda e2e_session: session.debug_ports.port_of(session.id, e2e_session),
            lambda: session.debug_ports.foreign(session.id),
        ) as observatory:
            yield observatory


@asynccontextmanager
async def _helm(session: Session) -> AsyncIterator[object]:
    from pathlib import Path

    from pilothouse.browser import find_browser, needs_no_sandbox
    from pilothouse.children import start_child
    from pilothouse.e2e.adapter import open_sessions
    from pilothouse.e2e.bringing_up import Means
    from pilothouse.e2e.dossier_page import dossier_page
    from pilothouse.e2e.explain import Explainer
    from pilothouse.e2e.starting import Starter
    from pilothouse.folders import private_folder
    from pilothouse.recorder import SessionRecorder

    settings, redactor = session.settings, session.redactor

    def chromium() -> str:
        found = find_browser(os.environ, settings.browser)
        return str(found.path) if found else ""

    async def client_roots() -> list[Path]:
        return [Path(root) for root in await session.client_roots()] if session.client_roots else []

    means = Means(
        settings=settings,
        clock=session.clock,
        timeline=session.timeline,
        recorder=SessionRecorder(session),
        intercept=partial(_entrance, session),
        starter=Starter(
            settings=settings,
            environ=os.environ,
            spawn=start_child,
            clock=session.clock,
            roots=(Path.cwd(), *map(Path, settings.roots)),
        ),
        explain=Explainer(dossier_page, redactor.texts),
        make_folder=lambda name: private_folder(
            settings.home, os.environ, "state", f"sessions/{name}"
        ),
        state_folder=lambda: private_folder(settings.home, os.environ, "state", "logins"),
        find_browser=chromium,
        chromium_flags=("--no-sandbox",) if needs_no_sandbox() else (),
        listeners=session.listeners,
        mask=redactor.value,
        teach=redactor.teach,
        client_roots=client_roots,
    )
    async with open_sessions(means) as sessions:
        yield sessions


@asynccontextmanager
async def _entrance(session: Session, e2e_session: str, onward: int) -> AsyncIterator[Entrance]:
    """The intercepting proxy before the browser of one e2e session."""
    from pilothouse.core.faults import Fault
    from pilothouse.e2e.model import BrowserLaunchFailed
    from pilothouse.e2e.ports import Entrance
    from pilothouse.intercept.adapter import Proxy
    from pilothouse.intercept.ports import Interceptor

    assert session.shared is not None
    async with AsyncExitStack() as stack:
        try:
            proxy = await session.shared.port(Proxy)
            await session.port(Interceptor)  # so that its packets reach the agent's timeline
            port = await stack.enter_async_context(proxy.browser(e2e_session, session.id, onward))
            entrance = Entrance(port, await proxy.trusted_key())
        except Fault as fault:
            raise BrowserLaunchFailed(
                f"the intercepting proxy cannot be used: {fault.message}",
                hint=fault.hint or "get_logs has what it said; or start without intercept",
            ) from None
        yield entrance


@asynccontextmanager
async def _proxy(shared: Session) -> AsyncIterator[object]:
    """The one of this process, with its REST API and the endpoint for configurations."""
    from pilothouse.children import start_child
    from pilothouse.doors import intercept_doors
    from pilothouse.folders import private_folder
    from pilothouse.intercept.adapter import open_proxy
    from pilothouse.intercept.tokens import token_check
    from pilothouse.tokens import access_token

    settings = shared.settings
    secret = access_token(settings)
    async with (
        open_proxy(
            folder=private_folder(settings.home, os.environ, "data", "intercept"),
            settings_folder=private_folder(settings.home, os.environ, "config", "intercept"),
            tokens=token_check(secret),
            clock=shared.clock,
            spawn=start_child,
            read_only=settings.read_only,
            own_ports=lambda: shared.listeners,
            engine_options=[
                f"--max-bytes={settings.history_mb << 20}",
                *([f"--upstream-ca={settings.upstream_ca}"] if settings.upstream_ca else []),
                *(["--insecure"] if settings.upstream_insecure else []),
            ],
        ) as proxy,
        intercept_doors(shared, proxy),
    ):
        shared.redactor.teach(secret.value())  # a misspelt argument must not show it
        yield proxy


@asynccontextmanager
async def _interceptor(session: Session) -> AsyncIterator[object]:
    from pilothouse.intercept.adapter import Proxy
    from pilothouse.intercept.view import View

    assert session.shared is not None
    proxy = await session.shared.port(Proxy)
    at_a_terminal = session.id in ("stdio", "call")
    view = View(
        proxy=proxy,
        session=session.id,
        redactor=session.redactor,
        timeline=session.timeline,
        filled_token=session.settings.packet_proxy_access_token if at_a_terminal else "",
        who=f"session {session.id}",
    )
    async with proxy.view(view):
        yield view


@asynccontextmanager
async def _link(shared: Session) -> AsyncIterator[object]:
    """The one of this process, to which every Chrome with the extension comes."""
    import time

    from pilothouse import __version__
    from pilothouse.bookmarks.adapter import open_link
    from pilothouse.bookmarks.applying import recover
    from pilothouse.bookmarks.guidance import Guidance
    from pilothouse.bookmarks.journal import open_journal
    from pilothouse.bookmarks.link import Link
    from pilothouse.bookmarks.pairing import Pairing
    from pilothouse.folders import private_folder
    from pilothouse.pair import extension_folder, pairing_secret

    settings = shared.settings
    journals = private_folder(settings.home, os.environ, "data", "bookmarks/journals")
    link = Link(
        server=f"pilothouse {__version__}",
        pairing=Pairing(pairing_secret(settings)),
        clock=shared.clock,
        guidance=Guidance(extension_folder(), time.monotonic),
        open_journal=partial(open_journal, journals),
        on_connected=recover,
        on_state=partial(shared.services.__setitem__, "bookmarks link"),
        on_port=shared.listeners.add,
    )
    async with open_link(link, settings.bookmarks_port, port_trouble):
        yield link


def port_trouble(port: int, error: OSError) -> str:
    """Why a port cannot be had, and who has it where that can be known."""
    import errno

    from pilothouse.doctor_probe import listeners

    if error.errno != errno.EADDRINUSE:
        return f"port {port} cannot be used ({error.strerror})"
    holder = listeners().get(port)
    return f"port {port} is taken by {holder or 'a process that has not been found'}"


@asynccontextmanager
async def _bookmarks_view(session: Session) -> AsyncIterator[object]:
    from pathlib import Path

    from pilothouse.bookmarks.link import Link
    from pilothouse.bookmarks.view import View
    from pilothouse.core.urls import Policy
    from pilothouse.folders import private_folder

    settings = session.settings

    def policy() -> Policy:
        return Policy(
            allowed_hosts=settings.allowed_hosts,
            development=not settings.production,
            blocked_ports=frozenset(session.listeners) | session.debug_ports.foreign(session.id),
        )

    assert session.shared is not None
    link = await session.shared.port(Link)
    view = View(
        link=link,
        session=session.id,
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


def _house() -> Part:
    from pilothouse.server.tools import RESOURCES, TOOLS

    return Part(tools=TOOLS, resources=RESOURCES)


def _observe() -> Part:
    from pilothouse.observe.ports import Observer
    from pilothouse.observe.tools import RESOURCES, TOOLS

    return Part(tools=TOOLS, resources=RESOURCES, providers={Observer: _observatory})


def _e2e() -> Part:
    from pilothouse.e2e.ports import Helm
    from pilothouse.e2e.tools import RESOURCES, TOOLS

    return Part(tools=TOOLS, resources=RESOURCES, providers={Helm: _helm})


def _intercept() -> Part:
    from pilothouse.intercept.adapter import Proxy
    from pilothouse.intercept.ports import Interceptor
    from pilothouse.intercept.tools import RESOURCES, TOOLS

    return Part(
        tools=TOOLS, resources=RESOURCES, providers={Proxy: _proxy, Interceptor: _interceptor}
    )


def _bookmarks() -> Part:
    from pilothouse.bookmarks.link import Link
    from pilothouse.bookmarks.ports import Bookmarks
    from pilothouse.bookmarks.tools import RESOURCES, TOOLS

    return Part(
        tools=TOOLS, resources=RESOURCES, providers={Link: _link, Bookmarks: _bookmarks_view}
    )


PARTS = (
    LaterPart("house", _house),
    LaterPart("observe", _observe),
    LaterPart("e2e", _e2e),
    LaterPart("intercept", _intercept),
    LaterPart("bookmarks", _bookmarks),
)
"""What each group brings, in the order in which tools are listed."""

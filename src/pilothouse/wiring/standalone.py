"""The composition root: the only file that knows all groups, and how a process serves them."""

from __future__ import annotations

import errno
import gc
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.regex import BadPattern, compile_pattern
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.settings import SETTINGS
from pilothouse.machine.chromium.finder import find_browser
from pilothouse.machine.net.http_token import check_token, http_access, origin_policy
from pilothouse.server.logs import Log, adopt_library_logs
from pilothouse.server.runtime import Runtime, open_runtime
from pilothouse.wiring.daily_sweep import keep_swept
from pilothouse.wiring.extension_pairing import is_paired, watch_pairing
from pilothouse.wiring.groups import GROUP_SPECS

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Sequence

    from mcp.server import Server

    from pilothouse.core.settings import Settings
    from pilothouse.server.groups import AnyGroupSpec
    from pilothouse.server.transports.oauth import OAuthConfig

    type Extend = Callable[[Server[Any]], None]
    """Adds handlers to the MCP server; the conformance fixtures come in by it."""


PORT_TRIES = 50
"""Number of ports that are tried, from the default one on."""


class StartError(Exception):
    """Pilothouse cannot start as asked; the message is one line that names the fix."""


def make_redactor(settings: Settings) -> Redactor:
    """Make the redactor. Raises StartError for a pattern that RE2 does not take."""
    patterns = []
    for text in settings.redact:
        try:
            patterns.append(compile_pattern(text))
        except BadPattern as error:
            raise StartError(f"--redact {text!r}: {error}") from None
    redactor = Redactor(patterns=tuple(patterns), reveal=settings.reveal_secrets)
    for setting in SETTINGS:
        if setting.about.secret and (value := getattr(settings, setting.name)):
            redactor.teach(value)
    return redactor


def check_store(settings: Settings) -> None:
    """Check that the file for all events can be used. Raises StartError if it cannot."""
    if not settings.store:
        return
    from pilothouse.observe.record.session_store import open_store
    from pilothouse.observe.record.store import StoreError

    try:
        with open_store(settings.store, "start"):
            pass
    except StoreError as error:
        raise StartError(f"--store: {error}") from None


def check_client_cert(settings: Settings) -> None:
    """Check that a file has a certificate with its key. Raises StartError if it has none."""
    if not settings.client_cert:
        return
    import ssl

    try:
        # An encrypted key would be asked for at the terminal, which belongs to the protocol.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(settings.client_cert, password="")
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise StartError(
            f"--client-cert: {settings.client_cert} has no certificate with an unencrypted key that"
            f" can be read, in PEM ({said})"
        ) from None


def make_log(settings: Settings, redactor: Redactor) -> Log:
    level = "debug" if settings.mcp_debug else settings.log_level
    log = Log("pilothouse", level, redactor)
    adopt_library_logs(log, level)
    return log


def check_startable(settings: Settings) -> None:
    """Check that starting leaves nothing open to others. Raises StartError where it would."""
    oauth = (settings.oauth_issuer, settings.oauth_audience, settings.oauth_jwks_url)
    if any(oauth) and not all(oauth):
        raise StartError("OAUTH_ISSUER, OAUTH_AUDIENCE and OAUTH_JWKS_URL must be set together")
    is_loopback = _is_loopback(settings.http_host)
    if settings.http_token:
        if any(oauth):
            raise StartError("set PILOTHOUSE_HTTP_TOKEN or the OAUTH_ variables, not both")
        if trouble := check_token(settings, is_loopback=is_loopback):
            raise StartError(trouble)
        return
    if settings.production and not all(oauth):
        raise StartError(
            "production over HTTP needs OAUTH_ISSUER, OAUTH_AUDIENCE and OAUTH_JWKS_URL, or"
            " PILOTHOUSE_HTTP_TOKEN; set them, or PILOTHOUSE_ENV=development for this machine alone"
        )
    if is_loopback:
        return
    if not all(oauth):
        raise StartError(
            f"--host {settings.http_host} would be reachable from outside without authentication;"
            " set OAUTH_ISSUER, OAUTH_AUDIENCE and OAUTH_JWKS_URL, or PILOTHOUSE_HTTP_TOKEN, or"
            " listen on 127.0.0.1"
        )
    if not settings.public_url:
        raise StartError(
            f"--host {settings.http_host} needs PILOTHOUSE_PUBLIC_URL, the URL that clients use:"
            " it says which Host is ours and where the OAuth metadata is"
        )


def make_oauth(settings: Settings) -> OAuthConfig | None:
    """Return the OAuth configuration, if any. Raises StartError if its issuer cannot be trusted."""
    if not settings.oauth_issuer:
        return None
    from pilothouse.server.transports.oauth import OAuthConfig

    try:
        return OAuthConfig(settings.oauth_issuer, settings.oauth_audience, settings.oauth_jwks_url)
    except ValueError as error:
        raise StartError(str(error)) from None


def make_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return what HTTPS is served with, if it is. Raises StartError for unusable files."""
    if not settings.tls_cert and not settings.tls_key:
        return None
    if not settings.tls_cert or not settings.tls_key:
        raise StartError("--tls-cert and --tls-key must be set together")
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"--tls-cert and --tls-key cannot be used: {error}") from None
    return context


def _is_loopback(host: str) -> bool:
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def calm_collector() -> None:
    """Spare the collector what it need not look at while a page floods us: what was imported is
    never garbage, and events are freed by their count alone."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def serve_stdio(
    settings: Settings, specs: Sequence[AnyGroupSpec] = GROUP_SPECS, extend: Extend | None = None
) -> int:
    """Serve one client on stdin and stdout until it closes stdin."""
    check_store(settings)
    check_client_cert(settings)
    anyio.run(_stdio, _plan(settings, specs, extend))
    return 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """Settings and parts with which one process serves."""

    settings: Settings
    specs: Sequence[AnyGroupSpec]
    redactor: Redactor
    log: Log
    extend: Extend | None


def _plan(settings: Settings, specs: Sequence[AnyGroupSpec], extend: Extend | None) -> _Plan:
    redactor = make_redactor(settings)
    log = make_log(settings, redactor)
    calm_collector()
    return _Plan(settings, specs, redactor, log, extend)


async def _stdio(plan: _Plan) -> None:
    from mcp.server.stdio import stdio_server

    from pilothouse.server.mcp.handlers import build_server
    from pilothouse.server.mcp.sdk_bypass import SdkBypass
    from pilothouse.server.transports.stdio import StdioReader, StdioWriter, claimed_stdio

    settings, log = plan.settings, plan.log
    with claimed_stdio() as (wire_in, wire_out):
        bypass = SdkBypass()
        async with open_runtime(
            plan.specs, settings, plan.redactor, log, paired=is_paired(settings)
        ) as runtime:
            writer = StdioWriter(wire_out, bypass, runtime.priority.answered)
            reader = StdioReader(wire_in, writer, asked=runtime.priority.asked)
            server = build_server(runtime, bypass)
            if plan.extend is not None:
                plan.extend(server)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_leave_on_signal, tasks.cancel_scope, log)
                tasks.start_soon(keep_swept, settings, log.of("sweep"))
                if runtime.selection.unpaired:
                    tasks.start_soon(watch_pairing, runtime)
                if settings.metrics_port >= 0:
                    await tasks.start(_serve_metrics, runtime)
                async with stdio_server(reader, writer) as (read, write):  # type: ignore[arg-type]
                    await server.run(read, write, server.create_initialization_options())
                tasks.cancel_scope.cancel()


async def _signal(log: Log) -> None:
    """Wait until somebody wants this process to end."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for received in signals:
            log.info("stopping", signal=signal.Signals(received).name)
            return


async def _leave_on_signal(scope: anyio.CancelScope, log: Log) -> None:
    await _signal(log)
    scope.cancel()


async def _serve_metrics(
    runtime: Runtime, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Serve /metrics and /health beside a stdio client, on loopback."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    from pilothouse.core.net.origins import OriginPolicy
    from pilothouse.server.transports.asgi import serving
    from pilothouse.server.transports.edge import OriginGuard
    from pilothouse.server.transports.pages import health, health_answer, listen

    routes = [
        Route(
            "/metrics", lambda _: Response(runtime.metrics.exposition(), media_type="text/plain")
        ),
        Route("/health", lambda _: health_answer(health(runtime), _trouble(runtime.settings), 500)),
    ]
    listener = listen("127.0.0.1", runtime.settings.metrics_port)
    runtime.listeners.add(listener.getsockname()[1])
    runtime.log.info("metrics", url=f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
    task_status.started()
    access = http_access(runtime.settings, runtime.redactor)
    async with serving(OriginGuard(Starlette(routes=routes), OriginPolicy(), access), listener):
        await anyio.sleep_forever()


def _trouble(settings: Settings) -> str:
    """Return why a process that serves the e2e group alone cannot serve it; empty if it can."""
    if settings.tools != ("e2e",) or find_browser(os.environ, settings.browser):
        return ""
    return "no Chrome, Chromium or Edge was found; `pilothouse doctor` says what to do"


def serve_http(
    settings: Settings,
    specs: Sequence[AnyGroupSpec] = GROUP_SPECS,
    extend: Extend | None = None,
    ready: Callable[[str], None] | None = None,
    *,
    exact_port: bool = True,
) -> int:
    """Serve HTTP until a signal; `ready` is called with the base URL once it listens.

    A port that was asked for on the command line is that or none (`exact_port`); a default one
    that is taken makes room for the next free one.
    """
    check_startable(settings)
    check_store(settings)
    check_client_cert(settings)
    oauth = make_oauth(settings)
    make_tls(settings)
    plan = _plan(settings, specs, extend)
    anyio.run(_http, plan, listener(settings, exact=exact_port), oauth, ready)
    return 0


def listener(settings: Settings, *, exact: bool) -> socket.socket:
    """Listen on the port that was asked for or, unless `exact`, on the next free one.

    Raises:
        StartError: no port can be had.
    """
    from pilothouse.server.transports.pages import listen

    host, first = settings.http_host, settings.http_port
    tries = 1 if exact else PORT_TRIES
    refused: OSError | None = None
    for port in range(first, min(first + tries, 65536)) if first else [0]:
        try:
            return listen(host, port)
        except OSError as error:
            refused = refused or error
            if error.errno != errno.EADDRINUSE:
                break
    assert refused is not None
    from pilothouse.machine.port_holders import port_trouble

    trouble = port_trouble(first, refused, host)
    raise StartError(f"{trouble}; choose another with --port, or 0 for any free one")


async def _http(
    plan: _Plan,
    listener: socket.socket,
    oauth: OAuthConfig | None,
    ready: Callable[[str], None] | None,
) -> None:
    from pilothouse.dashboard.status_page import CSS, status_page
    from pilothouse.server.groups import summaries
    from pilothouse.server.mcp.handlers import build_server
    from pilothouse.server.transports.asgi import serving
    from pilothouse.server.transports.http import HttpAppDeps, http_app
    from pilothouse.wiring.agents import LocalAgents
    from pilothouse.wiring.dashboard import frame, pages

    def own_page(runtime: Runtime, url: str) -> str:
        return status_page(
            runtime.listings.values(),
            summaries(runtime.specs),
            sessions=len(runtime.sessions),
            uptime_sec=(runtime.clock() - runtime.started_at) / 1000,
            url=url,
        )

    settings, log = plan.settings, plan.log
    async with open_runtime(
        plan.specs, settings, plan.redactor, log, paired=is_paired(settings)
    ) as runtime:
        server = build_server(runtime)
        if plan.extend is not None:
            plan.extend(server)
        host, port = listener.getsockname()[:2]
        runtime.listeners.add(port)
        scheme = "https" if settings.tls_cert else "http"
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        base_url = settings.public_url.rstrip("/") or url
        showing = LocalAgents(runtime, lambda: frame(runtime, base_url))
        shown = pages(runtime, showing, lambda seen: own_page(runtime, seen), CSS)
        app = http_app(
            HttpAppDeps(
                runtime=runtime,
                server=server,
                origin_policy=origin_policy(settings),
                pages=shown,
                base_url=base_url,
                oauth=oauth,
                access=None if oauth else http_access(settings, plan.redactor),
                trouble=lambda: _trouble(settings),
            )
        )
        async with (
            serving(app, listener, settings.tls_cert, settings.tls_key),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(keep_swept, settings, log.of("sweep"))
            if runtime.selection.unpaired:
                tasks.start_soon(watch_pairing, runtime)
            if ready is not None:
                ready(url)
            await _signal(log)
            tasks.cancel_scope.cancel()

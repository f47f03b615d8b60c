# mypy: allow-untyped-calls
"""`python -m pilothouse.intercept.engine`: the proxy's process. Its owner is at its stdout."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.core.net.url_policy import Policy
from pilothouse.core.timeline.clock import anchored
from pilothouse.intercept.engine.announce import Announcer
from pilothouse.intercept.engine.certificates import spki_hash
from pilothouse.intercept.engine.commands import Commands
from pilothouse.intercept.engine.connections import ConnectionHooks
from pilothouse.intercept.engine.flows.http import Capture
from pilothouse.intercept.engine.flows.sockets import Live
from pilothouse.intercept.engine.link import EngineLink, LogHandler, take_standard_output
from pilothouse.intercept.engine.listeners import ProxyListeners
from pilothouse.intercept.engine.local_clients import LocalClients
from pilothouse.intercept.engine.mitmproxy_master import EngineMaster
from pilothouse.intercept.engine.own_ports import OwnPortGuard
from pilothouse.intercept.engine.rules.apply import RuleApplier
from pilothouse.intercept.engine.rules.breakpoints import AUTO_FORWARD_S, Breakpoints
from pilothouse.intercept.engine.rules.mocks import Mocks
from pilothouse.intercept.history.writer import HistoryWriter
from pilothouse.machine.held_folders import held
from pilothouse.machine.net.http_token import token_at

if TYPE_CHECKING:
    import socket

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.intercept.model import Exchange
    from pilothouse.intercept.replay.jobs import Jobs
    from pilothouse.intercept.replay.sockets import Gateway, SendTarget

HISTORY = "history.db"
MAX_BYTES = 1 << 30


async def run(options: argparse.Namespace, owner: socket.socket) -> None:
    """Serve until the owner closes its end or we are asked to end."""
    clock = anchored(time.time, time.monotonic)
    link = await EngineLink.open(owner)
    _log_to(link, clock)
    master = EngineMaster(
        options.folder,
        upstream_ca=options.upstream_ca,
        client_cert=options.client_cert,
        verify=not options.insecure,
    )
    announcer = Announcer()

    def tell_recorded(exchanges: list[Exchange]) -> None:
        if rows := announcer.rows(exchanges):
            link.tell({"event": "recorded", "rows": rows})

    history = HistoryWriter(
        options.folder / HISTORY,
        max_bytes=options.max_bytes,
        max_age_s=options.max_age_s,
        clock=clock,
        on_rows=tell_recorded,
        on_state=lambda reason: link.tell({"event": "history", "reason": reason}),
    )
    listeners = ProxyListeners(master.proxy)
    commands = _assemble(
        _Parts(
            options=options,
            link=link,
            clock=clock,
            master=master,
            history=history,
            listeners=listeners,
        )
    )
    # What is allocated by now stays: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    serving = asyncio.create_task(link.serve(commands.do))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    link.tell({"event": "ready"})
    await asyncio.wait([serving])
    await commands.close()
    await listeners.close()
    await history.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Parts of which an engine is put together."""

    options: argparse.Namespace
    link: EngineLink
    clock: Clock
    master: EngineMaster
    history: HistoryWriter
    listeners: ProxyListeners


def _assemble(parts: _Parts) -> Commands:
    options, history, listeners = parts.options, parts.history, parts.listeners
    guard = OwnPortGuard(listeners.ports, _policy(json.loads(options.policy)))
    mocks, breakpoints = Mocks(), Breakpoints(parts.clock, parts.link.tell, options.hold_s)
    changes = RuleApplier(breakpoints)
    live = Live(history, listeners, changes, parts.master.proxy)
    token = token_at(options.token_file).present if options.token_file else lambda: None
    parts.master.addons.add(
        # The first one: what it refuses is not looked at by the others.
        LocalClients(listeners, token, asks_everybody=options.ask_everybody),
        Capture(history, listeners, guard, mocks, changes),
        live,
        ConnectionHooks(changes, listeners, guard, mocks, parts.master.proxy),
    )
    return Commands(
        changes=changes,
        listeners=listeners,
        guard=guard,
        mocks=mocks,
        breakpoints=breakpoints,
        live=live,
        history=history,
        open_jobs=lambda: _open_jobs(parts, guard, live),
        spki=spki_hash(options.folder),
    )


def _open_jobs(parts: _Parts, guard: OwnPortGuard, live: Live) -> Jobs:
    from pilothouse.intercept.query.reader import HistoryReader
    from pilothouse.intercept.replay.jobs import Jobs
    from pilothouse.intercept.replay.sockets import Gateway

    options, history, listeners = parts.options, parts.history, parts.listeners

    async def record(exchange: Exchange) -> None:
        history.post(exchange)
        await history.recorded(exchange)

    async def find(target: SendTarget) -> list[str]:
        is_pages = bool(target.session)
        # A listed name is not known by the address it led to, and that is judged anyway.
        host = target.host if is_pages else target.ip or target.host
        return await guard.addresses(host, target.port, is_pages=is_pages)

    def find_gateway(target: SendTarget) -> Gateway | None:
        judge = listeners.judge_of(target.session, target.listener) if target.session else None
        return Gateway(judge.upstream, judge.secret) if judge else None

    return Jobs(
        HistoryReader(options.folder / HISTORY),
        record,
        live.inject,
        parts.clock,
        ssl_insecure=options.insecure,
        ca_file=options.upstream_ca,
        client_cert=options.client_cert,
        is_forbidden=guard.forbids,
        find=find,
        find_gateway=find_gateway,
    )


def _policy(told: dict[str, Any]) -> Policy:
    """Return the policy for where a browser may go whose session is over."""
    hosts = told.get("allowed_hosts")
    return Policy(
        allowed_hosts=None if hosts is None else tuple(hosts),
        development=told.get("development", True),
    )


def _log_to(link: EngineLink, clock: Clock) -> None:
    root = logging.getLogger()
    root.addHandler(LogHandler(link, clock))
    root.setLevel(logging.WARNING)
    logging.getLogger("pilothouse").setLevel(logging.INFO)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pilothouse.intercept.engine")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--max-bytes", type=int, default=MAX_BYTES, help="of the history's file")
    parser.add_argument("--max-age-s", type=float, default=0.0, help="of packets; 0 is no limit")
    parser.add_argument(
        "--upstream-ca", type=Path, help="authorities of servers, besides the usual"
    )
    parser.add_argument("--client-cert", type=Path, help="shown to servers that ask for one")
    parser.add_argument("--insecure", action="store_true", help="accept any server's certificate")
    parser.add_argument("--token-file", type=Path, help="has the token of other users")
    parser.add_argument(
        "--ask-everybody", action="store_true", help="for the token, also our own user"
    )
    parser.add_argument("--policy", default="{}", help="where sessions' browsers may go, as JSON")
    parser.add_argument("--hold-s", type=float, default=AUTO_FORWARD_S)
    return parser.parse_args()


def main() -> None:
    options = _options()
    owner = take_standard_output()
    with held(options.folder):
        asyncio.run(run(options, owner))


if __name__ == "__main__":
    main()

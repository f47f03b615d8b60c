"""The filtering proxy through which a session's browser goes.

`url_policy.Policy` decides; this file makes it hold. A host is judged as spelled, resolved once,
each address judged, and the connection goes to an address that passed: there is no second lookup
that could answer differently. An own origin of the session is not looked up at all: it leads where
it led when it was judged. Tunnels and plain requests are taken, one per connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, cast
from weakref import WeakSet

from pilothouse.core.net.http1 import MAX_HEAD_BYTES, BadMessage
from pilothouse.core.net.proxy_auth import CHALLENGE, is_shown
from pilothouse.core.net.url_policy import UrlError, target_of
from pilothouse.e2e.egress_proxy.app_addresses import addresses_of, look_up
from pilothouse.e2e.egress_proxy.http import ProxyRequest, parse_request
from pilothouse.e2e.egress_proxy.pipes import answer, join
from pilothouse.machine.net.local_users import Caller, caller_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from pilothouse.core.net.url_policy import Address, Policy, UrlTarget, Verdict
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.e2e.egress_proxy.app_addresses import Resolve
MAX_CONNECTIONS = 512
MAX_REFUSALS = 200
HEAD_S = 60.0
"""Seconds for a whole request head; so a browser's idle preconnection is kept as long."""
UNKNOWN_HEAD_S = 5.0
"""The same for somebody unknown: another user could hold all connections meanwhile."""
RESOLVE_S = 10.0
CONNECT_S = 15.0
NEXT_ADDRESS_S = 3.0
"""Seconds that an address may keep us while there is another one to try."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyRefusal:
    """A request that the policy did not let out."""

    at: float
    """Epoch milliseconds."""
    method: str
    host: str
    port: int
    rule: str
    reason: str
    url: str
    """URL as it was requested; of a tunnel only `host:port` is known."""


class FilteringProxy:
    """A proxy that runs; `open_proxy` makes one."""

    port: int
    secret: str
    """Password of clients of whom the system does not tell whose they are."""

    def __init__(
        self,
        policy: Callable[[], Policy],
        note: Callable[[PolicyRefusal], None],
        resolve: Resolve,
        clock: Clock,
    ) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.refusals: deque[PolicyRefusal] = deque(maxlen=MAX_REFUSALS)
        """Requests that were refused, the newest last."""
        self._policy = policy
        self._note = note
        self._resolve = resolve
        self._clock = clock
        self._browsers: set[asyncio.Transport] = set()
        self._servers: set[asyncio.Transport] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unknown: WeakSet[asyncio.Transport] = WeakSet()
        """Connections that have to show the secret."""
        self._has_told = False

    def find(self, url: str) -> PolicyRefusal | None:
        """Return the last refusal of that URL's host and port: why a page of it did not load."""
        try:
            target = target_of(url)
        except UrlError:
            return None
        where = (target.host.name, target.port)
        return next((r for r in reversed(self.refusals) if (r.host, r.port) == where), None)

    # Each connection: a head, a judgement, then two ends joined

    def head_came(self, browser: asyncio.Transport, head: bytes, rest: bytes) -> None:
        """Serve a request whose head is complete; `rest` came after it."""
        task = asyncio.get_running_loop().create_task(self._serve(browser, head, rest))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def admit_user(self, browser: asyncio.Transport) -> bool:
        """Return whether our own user may have connected: nobody else's browser goes through here.
        Where that cannot be known, the request must show the secret."""
        caller = caller_of(browser)
        if caller is Caller.OTHER:
            self._tell_of("a process of another user")
        elif caller is Caller.UNKNOWN:
            self._unknown.add(browser)
        return caller is not Caller.OTHER

    def patience_with(self, browser: asyncio.Transport) -> float:
        """Return the seconds for which its request head may be on its way."""
        return UNKNOWN_HEAD_S if browser in self._unknown else HEAD_S

    def _tell_of(self, who: str) -> None:
        if not self._has_told:
            self._has_told = True
            log.warning("refused %s at a browser's proxy, port %s", who, self.port)

    def admit(self, browser: asyncio.Transport) -> bool:
        """Admit one more connection if there is room; tell whether there was."""
        _sweep(self._browsers)
        if len(self._browsers) >= MAX_CONNECTIONS:
            return False
        self._browsers.add(browser)
        return True

    async def _serve(self, browser: asyncio.Transport, head: bytes, rest: bytes) -> None:
        served = False
        try:
            request = parse_request(head)
            if browser in self._unknown and not is_shown(request.authorization, self.secret):
                if request.authorization:  # a browser asks without it first
                    self._tell_of("somebody unknown")
                reason = "this proxy is that of one browser, which has its password"
                status = HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
                answer(browser, status, reason, fields=[CHALLENGE])
                served = True
                return
            server = await self._reach(browser, request)
            if server is not None:
                join(browser, server, request, rest)
            served = True
        except BadMessage as error:
            answer(browser, error.status, str(error))
            served = True
        finally:
            if not served:  # cancelled, or a fault of ours: nothing gets out
                browser.abort()

    async def _reach(
        self, browser: asyncio.Transport, request: ProxyRequest
    ) -> asyncio.Transport | None:
        """Open a connection to where the request wants to go; return None when it was refused."""
        verdict = self._judge_spelling(request)
        try:
            target = target_of(f"{request.scheme or 'http'}://{request.authority}/")
        except UrlError:
            self._refuse(browser, request, request.authority, 0, verdict)
            return None
        host, port = target.host, target.port
        if not verdict.allowed:
            self._refuse(browser, request, host.name, port, verdict)
            return None
        policy = self._current_policy()
        addresses: Sequence[Address] = policy.kept_addresses(request.scheme, host, port)
        if not addresses:
            addresses = await self._addresses(target)
            policy = self._current_policy()  # it may have changed meanwhile
        passed = []
        for address in addresses:
            verdict = policy.check_address(host.name, address, port, request.scheme)
            if verdict.allowed:
                passed.append(address)
        if not passed:
            self._refuse(browser, request, host.name, port, verdict)
            return None
        return await self._connect(passed, port, str(host))

    def _current_policy(self) -> Policy:
        # Asked each time: a session's own origins and the blocked ports change while it lasts.
        policy = self._policy()
        return replace(policy, blocked_ports=policy.blocked_ports | {self.port})

    def _judge_spelling(self, request: ProxyRequest) -> Verdict:
        policy = self._current_policy()
        schemes = (request.scheme,) if request.scheme else ("https", "http")
        verdicts = [policy.check_url(f"{scheme}://{request.authority}/") for scheme in schemes]
        return next((verdict for verdict in verdicts if verdict.allowed), verdicts[0])

    def _refuse(
        self,
        browser: asyncio.Transport,
        request: ProxyRequest,
        host: str,
        port: int,
        verdict: Verdict,
    ) -> None:
        answer(browser, HTTPStatus.FORBIDDEN, verdict.reason, verdict.rule)
        refusal = PolicyRefusal(
            at=self._clock(),
            method=request.method,
            host=host,
            port=port,
            rule=verdict.rule,
            reason=verdict.reason,
            url=request.url,
        )
        self.refusals.append(refusal)
        self._note(refusal)

    async def _addresses(self, target: UrlTarget) -> Sequence[Address]:
        name = target.host.name
        try:
            async with asyncio.timeout(RESOLVE_S):
                addresses = await addresses_of(target.host, self._resolve)
        except TimeoutError:
            reason = f"{name} was not resolved within {RESOLVE_S:g} s"
            raise BadMessage(reason, HTTPStatus.GATEWAY_TIMEOUT) from None
        except OSError as error:
            reason = f"{name} could not be resolved ({error.strerror})"
            raise BadMessage(reason, HTTPStatus.BAD_GATEWAY) from None
        if not addresses:
            raise BadMessage(f"{name} has no address", HTTPStatus.BAD_GATEWAY)
        return addresses

    async def _connect(
        self, addresses: Sequence[Address], port: int, shown: str
    ) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CONNECT_S
        failure: OSError = TimeoutError()
        for place, address in enumerate(addresses, 1):
            others = place < len(addresses)
            patience = min(deadline, loop.time() + NEXT_ADDRESS_S) if others else deadline
            try:
                async with asyncio.timeout_at(patience):
                    server = await _dial(address, port)
            except OSError as error:
                failure = error
                continue
            _sweep(self._servers)
            self._servers.add(server)
            return server
        if isinstance(failure, TimeoutError):
            reason = f"{shown}:{port} did not answer in time"
            raise BadMessage(reason, HTTPStatus.GATEWAY_TIMEOUT)
        reason = f"{shown}:{port} cannot be reached ({os.strerror(failure.errno or 0)})"
        raise BadMessage(reason, HTTPStatus.BAD_GATEWAY)

    async def close(self) -> None:
        """End every connection and every request that is still being judged."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for transport in self._servers:
            transport.abort()


@asynccontextmanager
async def open_proxy(
    policy: Callable[[], Policy],
    note: Callable[[PolicyRefusal], None],
    *,
    resolve: Resolve | None = None,
    clock: Clock = lambda: time.time() * 1000,
) -> AsyncIterator[FilteringProxy]:
    """Run a proxy on a free port of 127.0.0.1 for as long as the block lasts.

    `policy` is called for every request, `note` for every refusal.
    """
    # Threads of its own: a resolver that hangs must not keep others from theirs.
    with _Resolver() as resolver:
        proxy = FilteringProxy(policy, note, resolve or resolver, clock)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Head(proxy), "127.0.0.1", 0, backlog=1024)
        proxy.port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            server.close()
            await proxy.close()
            server.abort_clients()
            await server.wait_closed()


class _Resolver:
    """The system's resolver."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(8, "resolver")

    def __enter__(self) -> _Resolver:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, name: str) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, look_up, name)


async def _dial(address: Address, port: int) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, (str(address), port))
        transport, _ = await loop.create_connection(_Waiting, sock=sock)
    except BaseException:
        sock.close()
        raise
    return transport


def _sweep(transports: set[asyncio.Transport]) -> None:
    """Forget those that have closed, but not each time."""
    if len(transports) >= MAX_CONNECTIONS:
        transports.difference_update([one for one in transports if one.is_closing()])


def _no_delay(transport: asyncio.BaseTransport) -> None:
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Waiting(asyncio.Protocol):
    """A connection to a server, before it is joined to the browser's."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        _no_delay(transport)
        # Some servers speak first; what they say waits in the socket.
        cast("asyncio.Transport", transport).pause_reading()


class _Head(asyncio.Protocol):
    """A browser's connection until its request head is complete."""

    def __init__(self, proxy: FilteringProxy) -> None:
        self._proxy = proxy
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._browser = cast("asyncio.Transport", transport)
        _no_delay(transport)
        is_admitted = self._proxy.admit_user(self._browser)
        patience = self._proxy.patience_with(self._browser)
        self._late = asyncio.get_running_loop().call_later(patience, self._give_up)
        if not is_admitted:
            self._browser.abort()
        elif not self._proxy.admit(self._browser):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")

    def data_received(self, data: bytes) -> None:
        searched = max(0, len(self._received) - 3)
        self._received += data
        end = self._received.find(b"\r\n\r\n", searched)
        if max(end, len(self._received) if end < 0 else 0) > MAX_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too large")
        elif end >= 0:
            self._late.cancel()
            self._browser.pause_reading()
            head, rest = bytes(self._received[:end]), bytes(self._received[end + 4 :])
            self._proxy.head_came(self._browser, head, rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()

    def _give_up(self) -> None:
        if self._received:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the head did not come in time")
        else:
            self._browser.close()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._late.cancel()
        answer(self._browser, status, reason)

"""Asks a web server for the head of one page, within the URL policy.

Redirects are followed by hand: each address is judged as it is spelled, resolved once, judged
again by what it resolved to, and the connection goes to an address that passed. No cookies and no
credentials are sent, and no body is read.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from pilothouse.core.net.url_policy import UrlError, UrlTarget, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from pilothouse.core.net.url_policy import Address, Policy

MOST_HOPS = 10
MOST_HEAD_BYTES = 64 * 1024
USER_AGENT = "Mozilla/5.0 (compatible; Pilothouse link check)"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PERMANENT = frozenset({301, 308})
_SAFE_IN_TARGET = "/?:@!$&'()*+,;=-._~%[]"

type Turn = Callable[[str], AbstractAsyncContextManager[None]]
"""A block in which this host is asked, and nobody else asks it."""


class LinkUnanswered(Exception):
    """An error for a link that no server answered, or none may be asked for; the text says why."""

    def __init__(self, reason: str, *, is_blocked: bool = False) -> None:
        super().__init__(reason)
        self.is_blocked = is_blocked


class HungUp(LinkUnanswered):
    """A server took the question and gave no answer to it."""


@dataclass(slots=True)
class LinkAnswer:
    """The answer of the last server, and the redirects to it."""

    status: int
    url: str
    hops: list[tuple[int, str]] = field(default_factory=list)
    """Status and address of each redirect."""

    @property
    def moved_for_good(self) -> bool:
        return bool(self.hops) and all(status in _PERMANENT for status, _ in self.hops)


class Fetcher:
    """A client that requests the heads of pages."""

    def __init__(
        self,
        policy: Callable[[], Policy],
        turn: Turn,
        request_s: float,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Give each request `request_s` seconds, without the wait for its turn."""
        self._policy = policy
        self._turn = turn
        self._request_s = request_s
        self._context = context

    async def ask(self, url: str) -> LinkAnswer:
        """Send HEAD, and GET where that does not go well: many servers know no HEAD.

        Raises:
            LinkUnanswered: no server answered, or none may be asked.
        """
        with suppress(HungUp):
            answer = await self._follow("HEAD", url)
            if answer.status < 400:
                return answer
        return await self._follow("GET", url)

    async def _follow(self, method: str, url: str) -> LinkAnswer:
        hops: list[tuple[int, str]] = []
        while True:
            status, location = await self._once(method, url)
            if status not in _REDIRECTS or not location:
                return LinkAnswer(status, url, hops)
            try:
                url = urljoin(url, location)
            except ValueError:
                raise LinkUnanswered("it redirects to what is no address") from None
            hops.append((status, url))
            if len(hops) > MOST_HOPS:
                raise LinkUnanswered(f"more than {MOST_HOPS} redirects")

    async def _once(self, method: str, url: str) -> tuple[int, str]:
        """Return the status of one request, and where it sends us."""
        verdict = self._policy().check_url(url)
        if not verdict.allowed:
            raise LinkUnanswered(verdict.reason, is_blocked=True)
        try:
            target = target_of(url)
        except UrlError as error:  # about:blank is allowed, but is no server's
            raise LinkUnanswered(str(error), is_blocked=True) from None
        async with self._turn(str(target.host)):
            try:
                async with asyncio.timeout(self._request_s):
                    addresses = self._passed(target, await _resolve(target))
                    return await self._exchange(method, url, target, addresses)
            except ssl.SSLCertVerificationError as error:
                reason = f"its certificate is not trusted: {error.verify_message}"
                raise LinkUnanswered(reason) from None
            except TimeoutError:
                raise LinkUnanswered(f"no answer within {self._request_s:g} s") from None
            except (OSError, ValueError) as error:
                # ValueError: a name that cannot be one, which only TLS finds out.
                raise LinkUnanswered(_reason(error)) from None

    def _passed(self, target: UrlTarget, addresses: Sequence[Address]) -> list[Address]:
        policy = self._policy()
        verdicts = [
            (address, policy.check_address(target.host.name, address, target.port, target.scheme))
            for address in addresses
        ]
        passed = [address for address, verdict in verdicts if verdict.allowed]
        if not passed:
            raise LinkUnanswered(verdicts[-1][1].reason, is_blocked=True)
        return passed

    async def _exchange(
        self, method: str, url: str, target: UrlTarget, addresses: Sequence[Address]
    ) -> tuple[int, str]:
        reader, writer = await self._connect(target, addresses)
        try:
            writer.write(request_head(method, url, target))
            return await _read_head(reader)
        finally:
            writer.transport.abort()

    async def _connect(
        self, target: UrlTarget, addresses: Sequence[Address]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        secured: dict[str, Any] = {}
        if target.scheme == "https":
            context = self._context or await asyncio.to_thread(_usual_context)
            secured = {"ssl": context, "server_hostname": target.host.name}
        failure: OSError = TimeoutError()
        for address in addresses:
            try:
                return await asyncio.open_connection(str(address), target.port, **secured)
            except ssl.SSLError:
                raise
            except OSError as error:
                failure = error
        raise failure


def request_head(method: str, url: str, target: UrlTarget) -> bytes:
    """Return a request as small as servers take it."""
    parts = urlsplit(url)
    path = quote(parts.path or "/", safe=_SAFE_IN_TARGET)
    query = f"?{quote(parts.query, safe=_SAFE_IN_TARGET)}" if parts.query else ""
    usual = {"http": 80, "https": 443}[target.scheme]
    host = str(target.host) if target.port == usual else f"{target.host}:{target.port}"
    lines = (
        f"{method} {path}{query} HTTP/1.1",
        f"Host: {host}",
        f"User-Agent: {USER_AGENT}",
        "Accept: */*",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii", "replace")


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, str]:
    import h11  # comes with uvicorn

    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD_BYTES)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "-")]))
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(16 * 1024)
                if not data:
                    raise ConnectionResetError
                connection.receive_data(data)
            elif isinstance(event, h11.Response):
                headers = dict(event.headers)
                return event.status_code, headers.get(b"location", b"").decode("utf-8", "replace")
    except h11.RemoteProtocolError:
        raise HungUp("it did not answer in HTTP") from None
    except ConnectionError:
        raise HungUp("it closed the connection without an answer") from None


async def _resolve(target: UrlTarget) -> Sequence[Address]:
    if target.host.address is not None:
        return (target.host.address,)
    name = target.host.name
    loop = asyncio.get_running_loop()
    try:
        # As bytes, or Python would re-encode the name and refuse what a resolver takes.
        found = await loop.getaddrinfo(name.encode("ascii"), None, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise LinkUnanswered(f"{name} has no address") from None
    return [ip_address(str(place[0]).partition("%")[0]) for *_, place in found]


def _reason(error: Exception) -> str:
    # What asyncio says of a failed connection is for programmers; the number tells it in words.
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


@cache
def _usual_context() -> ssl.SSLContext:
    """Return a cached context, because reading the trusted authorities takes long."""
    return ssl.create_default_context()

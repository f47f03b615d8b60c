"""Probes of a server: whether it answers, where, and whose port that is.

Both loopback addresses are asked, 127.0.0.1 and ::1: what binds to "localhost" may have taken
either.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from pilothouse.core.net import url_policy

LOOPBACK = ("127.0.0.1", "::1")
TRY_S = 5.0
"""Seconds for one request: the first one may make a framework compile the page."""

_URL = re.compile(
    r"(?P<scheme>https?)://(?:[\w-]+\.)*(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])"
    r":(?P<port>\d{2,5})(?P<path>/[^\s\"'<>)\]]*)?",
    re.IGNORECASE,
)
_PORT = re.compile(
    r"\b(?:listen|running|start|serv|ready|available|bound)\w*\b.*?(?:\bport\W{1,3}|:)"
    r"(?P<port>\d{2,5})\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AppAddress:
    """An address on this machine at which a server may answer."""

    port: int
    scheme: str = "http"
    path: str = "/"
    main: bool = False
    """True if the output calls it the local address of the app, as Vite, Next.js and others do."""

    @property
    def url(self) -> str:
        # By name, whichever address it is bound to: then cookies and allowed origins are the same
        # in every run, and they are what the framework expects in development.
        path = "" if self.path == "/" else self.path
        return f"{self.scheme}://localhost:{self.port}{path}"


def announced(line: str) -> AppAddress | None:
    """Return the address that a line of output names, None if it names none."""
    found = _URL.search(line)
    if found:
        port = int(found["port"])
        main = re.search(r"\blocal\b", line[: found.start()], re.IGNORECASE) is not None
        # Elsewhere a path may be anything: the health check, an example.
        path = (found["path"] or "/") if main else "/"
        return AppAddress(port, found["scheme"].lower(), path, main) if port < 65_536 else None
    named = _PORT.search(line)
    return AppAddress(int(named["port"])) if named and int(named["port"]) < 65_536 else None


def patience(status: int) -> float:
    """Return the seconds for which a server has to go on answering like this to count as ready."""
    if status < 400 or status in (400, 401, 402, 403):
        return 0.0
    if status < 500:
        return 1.0  # the 404 of an API without a page at /, or of a router not yet loaded
    if status == 500:
        return 5.0  # a page that does not compile: the agent shall see it
    return math.inf  # a gateway whose backend is still coming up


async def status_of(address: AppAddress, within: float) -> int | None:
    """Return the HTTP status with which an address of this machine answers, if it does in time."""
    return await _status(LOOPBACK, address, f"localhost:{address.port}", within)


async def status_of_url(
    url: str, addresses: Sequence[url_policy.Address], within: float
) -> int | None:
    """Return the HTTP status of an app elsewhere, at judged addresses: no name is looked up."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = AppAddress(port, parts.scheme, parts.path or "/")
    hosts = tuple(map(str, addresses))
    return await _status(hosts, address, parts.netloc, within, parts.hostname) if hosts else None


async def _status(
    hosts: tuple[str, ...],
    address: AppAddress,
    name: str,
    within: float,
    tls_name: str | None = None,
) -> int | None:
    """Send a GET by hand: a client would follow redirects, pool connections or decode the body."""
    secured: dict[str, Any] = {}
    if address.scheme == "https":
        secured = {"ssl": _any_certificate(), "server_hostname": tls_name}
    try:
        async with asyncio.timeout(within):
            reader, writer = await _connected(hosts, address.port, secured)
            try:
                writer.write(
                    f"GET {address.path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n"
                    "Accept: text/html,*/*;q=0.8\r\nUser-Agent: pilothouse\r\n\r\n".encode()
                )
                line = await reader.readline()
            finally:
                writer.transport.abort()
    except (OSError, ValueError):  # a TimeoutError is an OSError
        return None
    found = re.match(rb"HTTP/1\.[01] ([1-5]\d\d)\b", line)
    return int(found[1]) if found else None


async def _connected(
    hosts: tuple[str, ...], port: int, secured: dict[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # One after the other: what does not listen refuses at once, and what listens on both
    # addresses is asked once only.
    for host in hosts[:-1]:
        with suppress(OSError):
            return await asyncio.open_connection(host, port, **secured)
    return await asyncio.open_connection(hosts[-1], port, **secured)


def _any_certificate() -> ssl.SSLContext:
    """Accept any certificate: a dev server signs for itself; only the status is taken from it."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def listening_ports(pid: int) -> set[int]:
    """Return the TCP ports on which a process of ours, or anything that it started, listens."""
    import psutil

    ports: set[int] = set()
    try:
        # What goes into the background is adopted by the reaper that stands between us and it.
        above = [psutil.Process(pid), *psutil.Process(pid).parents()]
        root = next((one for one in above if one.ppid() == os.getpid()), above[0])
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return ports
    for process in family:
        try:
            sockets = process.net_connections(kind="tcp")
        except (psutil.Error, OSError):
            continue
        ports |= {one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN}
    return ports


def holder_of(port: int) -> str:
    """Return who listens on a port, as far as this user may know: `node (pid 4711)`."""
    import psutil

    for process in psutil.process_iter():
        try:
            sockets = process.net_connections(kind="tcp")
            if any(
                s.laddr and s.laddr.port == port and s.status == psutil.CONN_LISTEN for s in sockets
            ):
                return f"{process.name()} (pid {process.pid})"
        except (psutil.Error, OSError):
            continue
    return "another process"

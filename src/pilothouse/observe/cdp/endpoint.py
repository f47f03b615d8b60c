"""Finding a browser's WebSocket from a host and port, without being led elsewhere.

The host is resolved once and every address must be this machine's; the connection then goes to
that address. What the browser answers is checked as well: a port that some other program holds
could point anywhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pilothouse.core.net.url_policy import loopback_only
from pilothouse.observe.cdp.client import CONNECT_S
from pilothouse.observe.model import BrowserUnreachable, SecurityBlocked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_ANSWER_BYTES = 1024 * 1024
_PATH = "/devtools/browser"

START_HINT = (
    "start a browser with `pilothouse chrome`, or Chrome yourself with"
    " --remote-debugging-port=9222 --user-data-dir=FOLDER (since Chrome 136 the port is ignored on"
    " the default profile; from 144 on chrome://inspect/#remote-debugging can allow it)"
)


@dataclass(frozen=True, slots=True)
class CdpEndpoint:
    """A browser that answered: its checked address and its WebSocket."""

    host: str
    port: int
    url: str


async def find_endpoint(
    host: str, port: int, *, local_only: bool, environ: Mapping[str, str]
) -> CdpEndpoint:
    """Return the WebSocket of the browser on that port.

    Raises:
        SecurityBlocked: the host, or what answered there, is not this machine.
        BrowserUnreachable: nothing answers, or it is no browser.
    """
    addresses = await _addresses(host, port, local_only=local_only)
    for address in addresses:
        try:
            status, body = await _get(address, port, "/json/version", host)
            break
        except BrowserUnreachable:
            # localhost is ::1 first on most machines, where Chrome does not listen.
            if address == addresses[-1]:
                raise
    if status == 200:
        path = _checked_path(body, port, local_only=local_only)
    else:
        # Remote debugging that was allowed in chrome://inspect answers no HTTP at all; the
        # browser then writes the path of its WebSocket beside the profile.
        path = next((p for number, p in active_ports(environ) if number == port), "")
    if not path:
        raise BrowserUnreachable(
            f"what answers on {host}:{port} is no browser's debugging port (HTTP {status})",
            hint=START_HINT,
            host=host,
            port=port,
        )
    shown = f"[{address}]" if ":" in address else address
    return CdpEndpoint(host, port, f"ws://{shown}:{port}{path}")


async def _addresses(host: str, port: int, *, local_only: bool) -> list[str]:
    plain = host.strip("[]")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            plain, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except (OSError, UnicodeError) as error:
        raise BrowserUnreachable(
            f"host {host!r} has no address",
            hint=START_HINT,
            host=host,
            port=port,
            cause=str(error),
        ) from None
    addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
    verdict = loopback_only(plain, addresses)
    if local_only and not verdict.allowed:
        raise SecurityBlocked(
            verdict.reason,
            hint="use 127.0.0.1; CDP_SECURITY_LOCALONLY=false (--no-localonly) lifts this",
            host=host,
        )
    return [str(address) for address in addresses]


def _checked_path(body: bytes, port: int, *, local_only: bool) -> str:
    """Return the WebSocket's path as the browser names it, judging the host it names too."""
    try:
        url = urlsplit(str(json.loads(body)["webSocketDebuggerUrl"]))
        named, named_port = url.hostname or "", url.port
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    if local_only:
        try:
            addresses = [ipaddress.ip_address("127.0.0.1" if named == "localhost" else named)]
        except ValueError:
            addresses = []
        if named_port != port or not addresses or not loopback_only(named, addresses).allowed:
            raise SecurityBlocked(
                f"the browser on port {port} points to another place: {named}:{named_port}",
                hint="something other than a browser may hold this port; choose another one",
            )
    return url.path if url.path.startswith(_PATH) else ""


async def _get(address: str, port: int, path: str, host: str) -> tuple[int, bytes]:
    """Send a single GET; a client library would be a heavy import for one line of JSON."""
    shown = f"[{address}]" if ":" in address else address
    request = f"GET {path} HTTP/1.1\r\nHost: {shown}:{port}\r\nConnection: close\r\n\r\n"
    writer = None
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(address, port)
            writer.write(request.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (
                    int(line.split(b":", 1)[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ),
                None,
            )
            if length is None:
                body = b""
                while len(body) < MAX_ANSWER_BYTES and (part := await reader.read(65_536)):
                    body += part
            else:
                body = await reader.readexactly(min(length, MAX_ANSWER_BYTES))
            return int(head.split(b" ", 2)[1]), body
    except TimeoutError:
        why, cause = f"did not answer within {CONNECT_S:g} s", "timeout"
    except (OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as error:
        why = f"cannot be reached ({error.__class__.__name__})"
        cause = str(error) or error.__class__.__name__
    finally:
        if writer is not None:
            writer.close()
    raise BrowserUnreachable(
        f"{host}:{port} {why}", hint=START_HINT, host=host, port=port, cause=cause
    )


def active_ports(environ: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Yield port and WebSocket path of each browser of this user that wrote them down."""
    for folder in profile_folders(environ):
        try:
            lines = (folder / "DevToolsActivePort").read_text().splitlines()
            yield int(lines[0]), lines[1]
        except (OSError, ValueError, IndexError):
            continue


def profile_folders(environ: Mapping[str, str]) -> list[Path]:
    """Return where Chrome, Chromium and Edge keep their default profiles."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
        names = ["Google/Chrome", "Chromium", "Microsoft Edge"]
    else:
        base = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        names = ["google-chrome", "chromium", "microsoft-edge"]
    return [base / name for name in names]

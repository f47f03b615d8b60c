"""What the filtering proxy reads and writes: requests to a proxy, and servers' answers.

Requests are read strictly, because one that can be understood in two ways can hide another.
Servers' answers are read leniently, as browsers do.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from pilothouse.core.net.http1 import (
    HOP_BY_HOP,
    SAYS_THE_LENGTH,
    STATUS_LINE,
    BadMessage,
    kept,
    parse_request_head,
    upgrades,
    write_head,
)
from pilothouse.core.net.proxy_auth import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pilothouse.core.net.http1 import Body


# Requests


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A request to the proxy."""

    method: str
    url: str
    """Target as it was requested: `host:port` of a tunnel, else a whole URL."""
    authority: str
    scheme: str | None = None
    """Scheme of the URL, None for a tunnel, which does not say what will go through it."""
    forwarded: bytes = b""
    """The head as the server gets it; nothing of a tunnel's."""
    body: Body | None = None
    upgrades: bool = False
    authorization: str = ""
    """Credentials that it shows to the proxy itself."""

    @property
    def is_tunnel(self) -> bool:
        return self.scheme is None


_TUNNEL_TARGET = re.compile(r"(?:\[[^\[\]@/?#\\]*\]|[^\[\]:@/?#\\]+):[0-9]{1,5}")
_ABSOLUTE_TARGET = re.compile(r"(https?|wss?)://([^/?#\\@]*)((?:[/?][^#]*)?)", re.IGNORECASE)
_ONLY_OURS = frozenset({"x-pilothouse-blocked", "x-pilothouse-failed"})


def parse_request(head: bytes) -> ProxyRequest:
    """Read a head, given without the empty line that ends it.

    Raises:
        BadMessage: it is no request to a proxy, or its end could be read in two ways.
    """
    read = parse_request_head(head)
    method, target = read.method, read.target
    shown = read.one(HEADER.lower()) or ""
    if method == "CONNECT":
        if read.body is not None or not _TUNNEL_TARGET.fullmatch(target):
            raise BadMessage("CONNECT takes host:port and no body")
        return ProxyRequest(method, target, target, authorization=shown)
    absolute = _ABSOLUTE_TARGET.fullmatch(target)
    if absolute is None or absolute[1].lower() not in ("http", "ws"):
        raise BadMessage("this is a proxy: it takes CONNECT host:port and whole http:// URLs")
    scheme, authority, path = absolute.groups()
    if not path.startswith("/"):
        path = "*" if method == "OPTIONS" and not path else f"/{path}"
    changes = upgrades(read)
    connection = (
        [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        if changes
        else [("Connection", "close")]
    )
    # Host is written anew from what was judged.
    passed = kept(read.fields, read.values, {"host", *_ONLY_OURS})
    first = f"{method} {path} HTTP/1.{read.minor}"
    forwarded = write_head(first, [("Host", authority), *passed, *connection])
    return ProxyRequest(
        method, target, authority, scheme.lower(), forwarded, read.body, changes, shown
    )


# Answers


class ForwardedHead(NamedTuple):
    """A server's head, with what concerned only our connection to it replaced."""

    status: int
    head: bytes
    says_its_length: bool
    """True if the head gives the body's length; otherwise the body ends with the connection."""


def rewrite_answer(head: bytes) -> ForwardedHead:
    """Rewrite a head, given without the empty line that ends it. Raises BadMessage for none."""
    status_line, *lines = re.split(rb"\r?\n", head)
    match = STATUS_LINE.match(status_line)
    if match is None:
        raise BadMessage("the server's answer is not HTTP/1", HTTPStatus.BAD_GATEWAY)
    status, kept, names, keeps = int(match[1]), [status_line], set(), False
    for line in lines:
        if not line.startswith((b" ", b"\t")):  # a folded line shares the fate of the one before
            name = line.partition(b":")[0].strip().lower().decode("latin-1")
            names.add(name)
            keeps = name not in HOP_BY_HOP | _ONLY_OURS
        if keeps:
            kept.append(line)
    if status == HTTPStatus.SWITCHING_PROTOCOLS:
        kept += [b"Connection: Upgrade", b"Upgrade: websocket"]
    elif status >= 200:
        kept.append(b"Connection: close")
    return ForwardedHead(
        status, b"\r\n".join([*kept, b"", b""]), not names.isdisjoint(SAYS_THE_LENGTH)
    )


def _ascii(text: str) -> str:
    return re.sub(r"[^ -~]", "?", text)


def own_answer(
    status: HTTPStatus, reason: str, rule: str = "", *, fields: Iterable[tuple[str, str]] = ()
) -> bytes:
    """Return an answer of the proxy itself; `rule` is the policy's, if that refused."""
    title = f"{status.value} {status.phrase}"
    body = (
        f"<!doctype html><meta charset=utf-8><title>{title}</title><h1>{title}</h1>"
        f"<p>Pilothouse: {html.escape(reason)}</p>\n"
    ).encode()
    head = [
        f"HTTP/1.1 {title}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Content-Security-Policy: default-src 'none'",
        f"X-Pilothouse-Blocked: {rule}" if rule else f"X-Pilothouse-Failed: {_ascii(reason)}",
        *(f"{name}: {value}" for name, value in fields),
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body

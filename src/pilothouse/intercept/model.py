"""Records of the intercepting proxy, and the faults of its tools.

An exchange is one request with its response, or one message of a WebSocket, TCP or UDP connection.
Each of its one or two packets is a row of the history. The rows of an exchange share `group`, which
is the id of its first packet, and both carry its method, url, status and duration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pilothouse.core.declare.faults import Fault
from pilothouse.core.timeline.events import Event

type Kind = Literal["HTTP", "WebSocket", "SSE", "gRPC", "TCP", "UDP"]
"""Values of the column `type`."""


class EngineUnreachable(Fault):
    """The proxy's engine does not run or does not answer."""

    code = "engine_unreachable"
    number = -32001
    status = 503


class BadFilter(Fault):
    """The filter cannot be read; `position` says where."""

    code = "bad_filter"
    number = -32002
    status = 400


class PacketNotFound(Fault):
    """The history has no packet of that id, or has made room since."""

    code = "packet_not_found"
    number = -32003
    status = 404


class BadConfig(Fault):
    """The configuration is not whole or not sound; nothing was changed."""

    code = "bad_config"
    number = -32004
    status = 400


class ConfigMisfit(BadConfig):
    """The items of the configuration do not fit together; nothing was changed."""

    code = "config_misfit"
    status = 409


class BackupNotFound(BadConfig):
    """There is no backup of that id."""

    code = "backup_not_found"
    status = 404


class TokenRefused(Fault):
    """The access token is missing or wrong."""

    code = "token_refused"
    number = -32005
    status = 401


class ReadOnly(Fault):
    """Pilothouse was started with --read-only."""

    code = "read_only"
    number = -32005
    status = 403


def only_reads() -> ReadOnly:
    return ReadOnly(
        "Pilothouse was started with --read-only",
        hint="start it without --read-only to change or send anything",
    )


class JobNotFound(Fault):
    """There is no job of that id."""

    code = "job_not_found"
    number = -32602
    status = 404


FAULTS = (TokenRefused, EngineUnreachable)
"""Faults that every tool of the group may answer."""


@dataclass(frozen=True, slots=True)
class ConnectionEnd:
    """One end of a connection."""

    ip: str = ""
    port: int = 0


@dataclass(slots=True, kw_only=True)
class WireMessage:
    """One direction of an exchange, as its bytes were on the wire.

    `head` is the start line and the headers with the empty line after them: as they came for
    HTTP/1, written in the form of HTTP/1 for HTTP/2 and 3, empty for messages without headers.
    `body` is as transferred, so still gzipped if it was, but without chunk framing.
    """

    time: float
    """Epoch milliseconds of its first byte."""
    head: bytes = b""
    body: bytes = b""
    """Bytes that are kept of it: the first part of a large one."""
    length: int = 0
    """Full length of head and body together."""
    body_length: int = 0
    """Full length of the body."""
    modified: bool = False
    """True if a rule, a breakpoint or a resend's edits changed it."""
    original: tuple[bytes, bytes] | None = None
    """Head and body before they were modified, where they were."""
    trailers: bytes = b""
    chunks: tuple[int, ...] = ()
    """Sizes of the chunks of a body that was sent in several."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One exchange as it is posted to the history; a second call adds the response.

    For messages of WebSocket, TCP and UDP there is only one side: `request` for those that the
    client sent, `response` for those of the server.
    """

    connection: str
    """Id of the client's connection; messages of one WebSocket share it."""
    kind: Kind = "HTTP"
    client: ConnectionEnd = field(default_factory=ConnectionEnd)
    server: ConnectionEnd = field(default_factory=ConnectionEnd)
    server_name: str = ""
    """Host as the client named it."""
    scheme: str = ""
    """One of http, https, ws, wss, tcp, tls and udp."""
    method: str = ""
    url: str = ""
    """Path and query."""
    version: str = ""
    """HTTP/1.1, HTTP/2.0 …"""
    status: int | None = None
    duration_ms: float | None = None
    """Milliseconds from the request's first byte to the response's last."""
    alpn: str = ""
    encode: str = "HTTP"
    """Encoder, as the configuration names it."""
    session: str = ""
    """The agent's session whose listener took it; empty for listeners that belong to none."""
    listener: int = 0
    """Port of the listener; 0 for what we sent ourselves, unless a browser had asked for it."""
    resend: bool = False
    job: str = ""
    key: str = ""
    """The id that the proxy adds for joining it with what the browser saw."""
    error: str = ""
    """Reason why there is no response, or why it ended early."""
    request: WireMessage | None = None
    response: WireMessage | None = None
    request_id: int = 0
    response_id: int = 0
    """Packet ids, set when the row is in the file; 0 before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketRecorded(Event):
    source: ClassVar[str] = "packets"

    packet_id: int
    group: int
    kind: str
    method: str
    url: str
    server_name: str
    status: int | None
    resend: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged(Event):
    source: ClassVar[str] = "packets"

    what: str
    backup_id: str = ""

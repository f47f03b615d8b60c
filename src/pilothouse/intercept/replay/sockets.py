"""Sending of one message on a connection of its own, and reading of what comes back.

The bytes of an HTTP/1 request go out as they are, malformed or not. A send never raises for what
the network or the server does: the outcome has how far it got and why it went no further.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pilothouse.core.net.http1 import MAX_HEAD_BYTES, write_head
from pilothouse.core.net.proxy_auth import HEADER, credentials
from pilothouse.intercept.model import ConnectionEnd
from pilothouse.intercept.replay.http1_response import Conversation, Http1, Http1Response
from pilothouse.intercept.replay.http2 import Http2, request_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from pilothouse.core.timeline.clock import Clock

    type Hold = Callable[[], Awaitable[None]]
    """Function that returns when a send may go out."""
    type Find = Callable[[SendTarget], Awaitable[Sequence[str]]]
    """Function that gives the addresses to which a send may go, or raises OSError."""
    type FindGateway = Callable[[SendTarget], Gateway | None]
    """Function that gives the proxy by which a send is to go, if one judges for who had asked."""

_PIECE = 64 * 1024
_FIRST_S = 2.0
"""Seconds in which the answer to a raw payload has to begin; many payloads have none."""
_QUIET_S = 0.3
"""Seconds without more after which it is over."""
_MOST_DATAGRAMS = 1_000
_MISSING = (
    "the server asks for a client certificate: start Pilothouse with --client-cert FILE (PEM, with"
    " its key)"
)
_REFUSED = "the server did not accept the client certificate of --client-cert"
_CERTIFICATE_ALERTS = frozenset(
    f"{version}_ALERT_{alert}"
    for version in ("SSLV3", "TLSV1", "TLSV13")
    for alert in (
        "CERTIFICATE_REQUIRED",
        "BAD_CERTIFICATE",
        "UNKNOWN_CA",
        "CERTIFICATE_UNKNOWN",
        "CERTIFICATE_EXPIRED",
        "UNSUPPORTED_CERTIFICATE",
    )
)
"""Reasons that a server gives for a certificate that it does not take, or for none."""
_HANDSHAKE, _CERTIFICATE_REQUEST = 22, 13
"""Numbers of RFC 8446: a record's type, and a message's."""
_asking: WeakSet[ssl.SSLObject] = WeakSet()
"""Connections whose servers asked for a certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTarget:
    """Target of a send: the address that was recorded, else the name."""

    host: str
    """Name as the client gave it; TLS and HTTP/2 name it again."""
    ip: str = ""
    port: int
    is_secure: bool = False
    session: str = ""
    """Session whose browser had asked there; empty for everybody else."""
    listener: int = 0
    """Port of the proxy at which it had asked."""

    def __str__(self) -> str:
        return f"{self.ip or self.host}:{self.port}"

    @property
    def authority(self) -> str:
        usual = 443 if self.is_secure else 80
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == usual else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Gateway:
    """A proxy of a session, which decides where its browser may go."""

    port: int
    secret: str = field(repr=False)


@dataclass(slots=True)
class Outcome:
    """Outcome of a send."""

    started: float
    ended: float = 0.0
    client: ConnectionEnd = field(default_factory=ConnectionEnd)
    server: ConnectionEnd = field(default_factory=ConnectionEnd)
    alpn: str = ""
    response: Http1Response = field(default_factory=Http1Response)
    error: str = ""
    """Reason why there is no response, or why it is not whole."""
    reached: str = "while connecting"
    wants_certificate: bool = False
    """True if the server asked for a client certificate."""

    @property
    def has_response(self) -> bool:
        return bool(self.response.head or self.response.body)


class Sender:
    """Sender that opens a connection for each send, and closes it afterwards."""

    def __init__(
        self,
        clock: Clock,
        *,
        ssl_insecure: bool = False,
        ca_file: Path | None = None,
        client_cert: Path | None = None,
        find: Find | None = None,
        find_gateway: FindGateway | None = None,
    ) -> None:
        """Take `ca_file` with authorities that are trusted besides the usual ones, and
        `client_cert` for servers that ask for a certificate."""
        self._clock = clock
        self._find = find or _unjudged
        self._find_gateway = find_gateway or (lambda _: None)
        self._ssl_insecure = ssl_insecure
        self._ca_file = ca_file
        self._client_cert = client_cert

    async def http(
        self,
        target: SendTarget,
        head: bytes,
        body: bytes,
        trailers: bytes = b"",
        *,
        chunks: Sequence[int] = (),
        is_http2: bool = False,
        timeout_s: float = 30.0,
        hold: Hold | None = None,
    ) -> Outcome:
        """Send one request, and read its response as far as it comes within the time.

        It goes out when `hold` returns, which is awaited once there is a connection for it.
        """
        scheme = "https" if target.is_secure else "http"
        talk: Conversation = Http1(head, body, trailers, chunks)
        if is_http2:
            talk = Http2(request_of(head, body, trailers, scheme=scheme, host=target.authority))
        outcome = Outcome(self._clock(), response=talk.response)
        try:
            async with asyncio.timeout(timeout_s):
                alpn = "h2" if is_http2 else "http/1.1"
                await self._converse(target, talk, outcome, alpn, hold)
        except TimeoutError:
            outcome.error = f"no end within {timeout_s * 1000:.0f} ms, {outcome.reached}"
        except (OSError, ValueError) as problem:
            # ValueError: a name that cannot be one, which only the resolver and TLS find out.
            outcome.error = f"{outcome.reached}: {self._reason(problem, outcome)}"
        outcome.error = outcome.error or talk.error
        outcome.ended = self._clock()
        return outcome

    async def _converse(
        self,
        target: SendTarget,
        talk: Conversation,
        outcome: Outcome,
        alpn: str,
        hold: Hold | None,
    ) -> None:
        outcome.reached = f"while connecting to {target}"
        reader, writer = await self._connect(target, outcome, alpn)
        try:
            if target.is_secure and alpn == "h2" and outcome.alpn != "h2":
                outcome.error = (
                    f"{target} does not speak HTTP/2 (it chose {outcome.alpn or 'none'})"
                )
                return
            if hold is not None:
                outcome.reached = "while the other sends were waited for"
                await hold()
            outcome.reached = "before a response came"
            while not talk.is_done:
                # Not drained: a server may answer without reading all of the request first.
                writer.write(talk.to_send())
                talk.receive(await reader.read(_PIECE), self._clock())
                if outcome.has_response:
                    outcome.reached = "while the response was read"
        finally:
            writer.transport.abort()

    async def _connect(
        self, target: SendTarget, outcome: Outcome, alpn: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        secured: dict[str, Any] = {}
        if target.is_secure:
            context = await asyncio.to_thread(
                _context, self._ssl_insecure, self._ca_file, self._client_cert, alpn
            )
            secured = {"ssl": context, "server_hostname": target.host or target.ip}
        gateway = self._find_gateway(target)
        if gateway:
            sock = await _tunnel(gateway, target)
        else:
            # Connect to what was judged: another look-up could give another answer.
            sock = await _dial(await self._find(target), target.port)
        reader, writer = await asyncio.open_connection(sock=sock, limit=_PIECE, **secured)
        outcome.client = _address(writer.get_extra_info("sockname"))
        if not gateway:
            outcome.server = _address(writer.get_extra_info("peername"))
        spoken = writer.get_extra_info("ssl_object")
        outcome.alpn = (spoken.selected_alpn_protocol() or "") if spoken else ""
        outcome.wants_certificate = spoken in _asking
        return reader, writer

    async def tcp(self, target: SendTarget, payload: bytes, *, timeout_s: float = 30.0) -> Outcome:
        """Send a payload, and read what comes back until the server closes or falls silent."""
        outcome = Outcome(self._clock())
        try:
            async with asyncio.timeout(timeout_s):
                outcome.reached = f"while connecting to {target}"
                reader, writer = await self._connect(target, outcome, "")
            writer.write(payload)
            try:
                await self._listen(lambda: reader.read(_PIECE), outcome, timeout_s)
            finally:
                writer.close()
        except TimeoutError:
            outcome.error = f"no connection within {timeout_s * 1000:.0f} ms, {outcome.reached}"
        except (OSError, ValueError) as problem:
            outcome.error = f"{outcome.reached}: {self._reason(problem, outcome)}"
        outcome.ended = self._clock()
        return outcome

    async def udp(self, target: SendTarget, payload: bytes, *, timeout_s: float = 30.0) -> Outcome:
        """Send a datagram, and read those that come back until the server falls silent."""
        outcome = Outcome(self._clock())
        outcome.reached = f"while sending to {target}"
        try:
            address, *_ = await self._find(target)
            transport, inbox = await asyncio.get_running_loop().create_datagram_endpoint(
                _Inbox, remote_addr=(address, target.port)
            )
            outcome.client = _address(transport.get_extra_info("sockname"))
            outcome.server = _address(transport.get_extra_info("peername"))
            try:
                transport.sendto(payload)
                await self._listen(inbox.next, outcome, timeout_s)
            finally:
                transport.close()
        except OSError as problem:
            outcome.error = f"{outcome.reached}: {self._reason(problem, outcome)}"
        outcome.ended = self._clock()
        return outcome

    async def _listen(self, receive: Any, outcome: Outcome, timeout_s: float) -> None:
        wait = min(_FIRST_S, timeout_s)
        ends = self._clock() + timeout_s * 1000
        while self._clock() < ends:
            try:
                data = await asyncio.wait_for(receive(), wait)
            except TimeoutError:
                return
            if not data:
                return
            outcome.response.time = outcome.response.time or self._clock()
            outcome.response.add(data)
            wait = _QUIET_S

    def _reason(self, problem: Exception, outcome: Outcome) -> str:
        refused = isinstance(problem, ssl.SSLError) and problem.reason in _CERTIFICATE_ALERTS
        # A server that closes at once takes its alert back: all that comes is the reset.
        reset = isinstance(problem, ConnectionError) and outcome.wants_certificate
        if refused or reset:
            return _REFUSED if self._client_cert else _MISSING
        if isinstance(problem, ssl.SSLCertVerificationError):
            return f"the server's certificate is not trusted: {problem.verify_message}"
        said = problem.strerror if isinstance(problem, OSError) else ""
        return said or str(problem) or type(problem).__name__


async def _unjudged(target: SendTarget) -> Sequence[str]:
    return (target.ip or target.host,)


async def _tunnel(gateway: Gateway, target: SendTarget) -> socket.socket:
    """Connect by a session's proxy, which judges as it does for the session's browser.

    Raises:
        OSError: it refused, or did not get there.
    """
    sock = await _dial(["127.0.0.1"], gateway.port)
    try:
        loop = asyncio.get_running_loop()
        name = f"[{target.host}]" if ":" in target.host else target.host
        where = f"{name}:{target.port}"
        fields = [("Host", where), (HEADER, credentials(gateway.secret))]
        await loop.sock_sendall(sock, write_head(f"CONNECT {where} HTTP/1.1", fields))
        head = b""
        while b"\r\n\r\n" not in head:
            # One by one: what comes behind the head is the server's.
            piece = await loop.sock_recv(sock, 1)
            if not piece or len(head) > MAX_HEAD_BYTES:
                raise ConnectionResetError(errno.ECONNRESET, "the session's proxy hung up")
            head += piece
        if head.split(b" ", 2)[1] != b"200":
            raise PermissionError(errno.EACCES, _refusal(head, where))
    except BaseException:
        sock.close()
        raise
    return sock


def _refusal(head: bytes, where: str) -> str:
    """Return why a session's proxy did not open a tunnel, as it says itself."""
    told = re.search(rb"(?im)^x-pilothouse-(blocked|failed): ([^\r\n]*)", head)
    if told is None:
        return f"the session's proxy did not connect to {where}"
    said = told[2].decode("latin-1")
    if told[1].lower() == b"blocked":
        return f"{where} is not open to the browser that had asked there ({said})"
    return said


async def _dial(addresses: Sequence[str], port: int) -> socket.socket:
    """Connect to the first of these addresses that takes it; raises the last one's OSError."""
    failure = OSError("there is no address")
    for address in addresses:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


class _Inbox(asyncio.DatagramProtocol):
    """Queue of datagrams in the order in which they came."""

    def __init__(self) -> None:
        self._came: asyncio.Queue[bytes | OSError] = asyncio.Queue(_MOST_DATAGRAMS)

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._put(data)

    def error_received(self, exc: Exception) -> None:
        self._put(exc if isinstance(exc, OSError) else OSError(str(exc)))

    def _put(self, came: bytes | OSError) -> None:
        if not self._came.full():
            self._came.put_nowait(came)

    async def next(self) -> bytes:
        came = await self._came.get()
        if isinstance(came, OSError):
            raise came
        return came


@cache
def _context(
    insecure: bool, ca_file: Path | None, client_cert: Path | None, alpn: str
) -> ssl.SSLContext:
    """Make a TLS context; it is kept, because reading the trusted authorities takes long."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_default_certs()
        if ca_file is not None:
            context.load_verify_locations(ca_file)
    if client_cert is not None:
        context.load_cert_chain(client_cert)
    if alpn:
        context.set_alpn_protocols([alpn])
    # Python has no public way to learn that a server asked for a certificate.
    setattr(context, "_msg_callback", _note_request)  # noqa: B010
    return context


def _note_request(spoken: ssl.SSLObject, direction: str, *message: Any) -> None:
    """Keep that the server of a connection asks for a certificate."""
    if direction == "read" and message[1:3] == (_HANDSHAKE, _CERTIFICATE_REQUEST):
        _asking.add(spoken)


def _address(pair: Any) -> ConnectionEnd:
    return ConnectionEnd(str(pair[0]), int(pair[1])) if pair else ConnectionEnd()

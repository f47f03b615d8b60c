"""Real servers on loopback for tests of the proxy: HTTP/1, HTTP/2, WebSocket, TCP and UDP echo."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import hashlib
import ipaddress
import json
import ssl
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.errors
import h2.events
import websockets
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    type Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PIECE = bytes(range(256)) * 256
"""64 KiB in which every byte value stands."""


# TLS


@dataclass(frozen=True)
class Authority:
    """Signs for localhost, in the tests alone."""

    ca_file: Path
    chain_file: Path

    def context(self, *alpn: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain_file)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        return context


@cache
def authority(folder: Path) -> Authority:
    """A certificate authority with one certificate for localhost and 127.0.0.1."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name, name = _name("Upstream CA"), _name("localhost")
    ca = _certificate(ca_name, ca_name, ca_key, ca_key, is_ca=True)
    leaf = _certificate(name, ca_name, key, ca_key, is_ca=False)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = Authority(folder / "upstream-ca.pem", folder / "upstream.pem")
    made.ca_file.write_bytes(ca.public_bytes(pem))
    made.chain_file.write_bytes(private + leaf.public_bytes(pem))
    return made


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    is_ca: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(_usage(is_ca=is_ca), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
        .sign(signer, hashes.SHA256())
    )


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


# HTTP/1


@dataclass
class Upstream:
    """What a server has seen, and what it waits for."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    """Of each request, with the empty line."""
    open: int = 0
    """Connections that are open now."""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """The second event of /sse, and the end of /slow, wait for it."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def http_upstream(context: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    """Serves /echo, /hello, /bytes/N, /chunked/N, /gzip, /sse, /slow and POST /digest."""
    upstream = Upstream()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream.open += 1
        try:
            while await _serve_one(upstream, reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            upstream.open -= 1
            writer.close()

    async with listening(accept, context) as upstream.port:
        yield upstream


@asynccontextmanager
async def listening(accept: Accept, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Take connections on a free port until the block ends; the port."""
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        server.close_clients()
        await server.wait_closed()


async def _serve_one(
    upstream: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    upstream.heads.append(head)
    line, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = line.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (text.partition(":") for text in lines)
    }
    digest, length = hashlib.sha256(), 0
    async for piece in _body(reader, headers):
        digest.update(piece)
        length += len(piece)
    if path.startswith("/chunked/"):
        await _send_chunked(writer, int(path.rpartition("/")[2]))
    elif path == "/sse":
        await _send_events(upstream, writer)
    else:
        if path == "/slow":
            await upstream.go_on.wait()
        await _send_whole(writer, method, path, headers, length, digest.hexdigest())
    return True


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    if "chunked" in headers.get("transfer-encoding", ""):
        while size := int(await reader.readline(), 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
        return
    left = int(headers.get("content-length", 0))
    while left:
        piece = await reader.read(min(left, 1 << 16))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece


async def _send_whole(
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    headers: dict[str, str],
    length: int,
    digest: str,
) -> None:
    extra, kind, body = b"", b"application/json", b""
    size = 0
    if path.startswith("/bytes/"):
        size, kind = int(path.rpartition("/")[2]), b"application/octet-stream"
    elif path == "/gzip":
        body, extra = gzip.compress(b"a secret word" * 20), b"Content-Encoding: gzip\r\n"
        kind = b"text/plain"
    elif path == "/hello":
        body, kind = b"hello, world", b"text/plain"
        extra = b"X-Two: one\r\nX-Two: two\r\n"
    else:
        told = {"method": method, "path": path, "headers": headers, "length": length}
        body = json.dumps({**told, "sha256": digest}).encode()
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%bContent-Length: %d\r\n\r\n"
        % (kind, extra, size or len(body))
    )
    writer.write(body)
    await _send_bytes(writer, size)


async def _send_bytes(writer: asyncio.StreamWriter, size: int) -> None:
    while size > 0:
        writer.write(PIECE[:size])
        size -= len(PIECE)
        await writer.drain()


async def _send_chunked(writer: asyncio.StreamWriter, size: int) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    while size > 0:
        piece = PIECE[:size]
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        size -= len(piece)
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _send_events(upstream: Upstream, writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    for text in (b"data: first\n\n", b"data: second\n\n"):
        writer.write(b"%x\r\n%b\r\n" % (len(text), text))
        await writer.drain()
        await upstream.go_on.wait()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def content_of(size: int) -> bytes:
    """What /bytes/N and /chunked/N send."""
    whole, rest = divmod(size, len(PIECE))
    return PIECE * whole + PIECE[:rest]


# HTTP/2


@asynccontextmanager
async def h2_upstream(context: ssl.SSLContext) -> AsyncIterator[Upstream]:
    """Answers every HTTP/2 request with `h2:` and its path; /grpc sends two messages, the second
    when it may go on, and trailers; /reset breaks off."""
    upstream = Upstream()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        connection = h2.connection.H2Connection(config)
        connection.initiate_connection()
        streams: list[int] = []
        writer.write(connection.data_to_send())
        with suppress(OSError):
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        _answer_h2(upstream, connection, event, streams)
                writer.write(connection.data_to_send())
                await writer.drain()
                for stream in streams:
                    await upstream.go_on.wait()
                    connection.send_data(stream, b"second")
                    connection.send_headers(stream, [("grpc-status", "0")], end_stream=True)
                    writer.write(connection.data_to_send())
                streams.clear()
        writer.close()

    async with listening(accept, context) as upstream.port:
        yield upstream


def _answer_h2(
    upstream: Upstream,
    connection: h2.connection.H2Connection,
    event: h2.events.RequestReceived,
    streams: list[int],
) -> None:
    headers = {str(name): str(value) for name, value in event.headers or []}
    upstream.heads.append(repr(headers).encode())
    stream = event.stream_id or 0
    if headers[":path"] == "/grpc":
        connection.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        connection.send_data(stream, b"first")
        streams.append(stream)
        return
    if headers[":path"] == "/reset":
        connection.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
        return
    body = f"h2:{headers[':path']}".encode()
    length = ("content-length", str(len(body)))
    connection.send_headers(stream, [(":status", "200"), ("content-type", "text/plain"), length])
    connection.send_data(stream, body, end_stream=True)


# Messages


@asynccontextmanager
async def websocket_upstream(context: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    """Sends back every message, after `echo:` if it is text."""

    async def accept(socket: websockets.ServerConnection) -> None:
        async for message in socket:
            await socket.send(f"echo:{message}" if isinstance(message, str) else message)

    async with websockets.serve(accept, "127.0.0.1", 0, ssl=context) as server:
        yield Upstream(port=int(next(iter(server.sockets)).getsockname()[1]))


@asynccontextmanager
async def tcp_upstream() -> AsyncIterator[Upstream]:
    """Sends back what it is sent."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async with listening(accept) as port:
        yield Upstream(port=port)


@asynccontextmanager
async def udp_upstream() -> AsyncIterator[Upstream]:
    """Sends back what it is sent."""

    class Echo(asyncio.DatagramProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            assert isinstance(self.transport, asyncio.DatagramTransport)
            self.transport.sendto(data, addr)

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    try:
        yield Upstream(port=transport.get_extra_info("sockname")[1])
    finally:
        transport.close()

"""HTTP/3 on loopback: a server that answers every request, and a client that asks once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aioquic.quic.events import QuicEvent

    from tests.support.upstreams import Authority


class _Spoken(QuicConnectionProtocol):
    """Hands on what HTTP/3 makes of the datagrams."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.http = H3Connection(self._quic)

    def quic_event_received(self, event: QuicEvent) -> None:
        for one in self.http.handle_event(event):
            self.heard(one)

    def heard(self, event: H3Event) -> None:
        raise NotImplementedError


class _Server(_Spoken):
    def heard(self, event: H3Event) -> None:
        if isinstance(event, HeadersReceived):
            path = dict(event.headers)[b":path"]
            fields = [(b":status", b"200"), (b"content-type", b"text/plain")]
            self.http.send_headers(event.stream_id, fields)
            self.http.send_data(event.stream_id, b"h3:" + path, end_stream=True)
            self.transmit()


class _Client(_Spoken):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.body = b""
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def heard(self, event: H3Event) -> None:
        if isinstance(event, DataReceived):
            self.body += event.data
        if isinstance(event, HeadersReceived | DataReceived) and event.stream_ended:
            self.done.set_result(self.body)


@asynccontextmanager
async def h3_upstream(authority: Authority, port: int) -> AsyncIterator[None]:
    """Answers with `h3:` and the path."""
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(authority.chain_file, authority.chain_file)
    server = await serve("127.0.0.1", port, configuration=configuration, create_protocol=_Server)
    try:
        yield
    finally:
        server.close()  # type: ignore[no-untyped-call]


async def h3_get(port: int, path: str, trusted: Path) -> bytes:
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, server_name="localhost")
    configuration.load_verify_locations(str(trusted))
    async with connect(
        "127.0.0.1", port, configuration=configuration, create_protocol=_Client
    ) as client:
        assert isinstance(client, _Client)
        stream = client._quic.get_next_available_stream_id()
        fields = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", b"localhost"),
            (b":path", path.encode()),
        ]
        client.http.send_headers(stream, fields, end_stream=True)
        client.transmit()
        return await client.done

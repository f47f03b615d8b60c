"""Servers that keep every byte they are sent, and jobs on a real history."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h2.config
import h2.connection
import h2.events

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.model import ConnectionEnd, Exchange, WireMessage
from pilothouse.intercept.query.reader import HistoryReader
from pilothouse.intercept.replay.http1 import (
    Chunks,
    content_length,
    is_chunked,
    parse_head,
    split_message,
)
from pilothouse.intercept.replay.jobs import Jobs
from tests.integration.intercept.history_rig import CLOCK, open_writer
from tests.support.upstreams import listening

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from pilothouse.intercept.history.writer import HistoryWriter
    from pilothouse.intercept.ports import Detail

    type Answer = bytes | Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]

GUARD_S = 30.0
ALL_BYTES = bytes(range(256))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Wire:
    """What a server was sent: one item for each connection."""

    port: int = 0
    came: list[bytes] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    names: list[str | None] = field(default_factory=list)
    """That TLS asked for."""


def is_whole(request: bytes) -> bool:
    head, body = split_message(request)
    parsed = parse_head(head)
    if not parsed.end:
        return False
    if is_chunked(parsed):
        chunks = Chunks()
        list(chunks.feed(body))
        return chunks.is_done
    return len(body) >= (content_length(parsed) or 0)


@asynccontextmanager
async def wire_server(
    answer: Answer = OK, *, context: ssl.SSLContext | None = None, closes: bool = True
) -> AsyncIterator[Wire]:
    """Keeps a request as it came, answers with these bytes, and closes."""
    wire = Wire()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire.open += 1
        wire.most_open = max(wire.most_open, wire.open)
        came = b""
        with suppress(OSError, asyncio.CancelledError):
            while not is_whole(came) and (data := await reader.read(65536)):
                came += data
            wire.came.append(came)
            if callable(answer):
                await answer(came, writer)
            else:
                writer.write(answer)
            if not closes:
                await reader.read()
        wire.open -= 1
        writer.close()

    if context is not None:
        context.sni_callback = lambda _socket, name, _context: wire.names.append(name)
    async with listening(accept, context) as wire.port:
        yield wire


@dataclass
class Http2Wire:
    """What an HTTP/2 server was sent on its streams."""

    port: int = 0
    headers: list[list[tuple[bytes, bytes]]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)


@asynccontextmanager
async def http2_server(
    context: ssl.SSLContext | None, *, body: bytes = b"hello", resets: bool = False
) -> AsyncIterator[Http2Wire]:
    """Answers 103 first, then 200 with the body and a trailer."""
    wire = Http2Wire()

    def answer(connection: h2.connection.H2Connection) -> None:
        if resets:
            connection.reset_stream(1, 11)
            return
        connection.send_headers(1, [(":status", "103"), ("link", "</a.css>")])
        connection.send_headers(1, [(":status", "200"), ("x-two", "1"), ("x-two", "2")])
        connection.send_data(1, body[: 2**14])
        connection.send_headers(1, [("x-sum", "9")], end_stream=True)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        config = h2.config.H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
        )
        connection = h2.connection.H2Connection(config)
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    match event:
                        case h2.events.RequestReceived():
                            wire.headers.append(list(event.headers))
                        case h2.events.DataReceived():
                            wire.body += event.data
                            connection.acknowledge_received_data(
                                event.flow_controlled_length, event.stream_id
                            )
                        case h2.events.TrailersReceived():
                            wire.trailers = list(event.headers)
                        case h2.events.StreamEnded():
                            answer(connection)
                writer.write(connection.data_to_send())
                await writer.drain()
        writer.close()

    async with listening(accept, context) as wire.port:
        yield wire


@dataclass
class Injected:
    """Live connections of a proxy, as far as a resend sees them."""

    live: set[str] = field(default_factory=set)
    put: list[tuple[str, bool, bytes, bool]] = field(default_factory=list)

    async def __call__(
        self, connection: str, *, to_client: bool, payload: bytes, is_text: bool
    ) -> None:
        if connection not in self.live:
            raise InvalidInput(f"connection: {connection} is not open any more")
        self.put.append((connection, to_client, payload, is_text))


@dataclass
class Rig:
    """Jobs with the history that they read and write."""

    jobs: Jobs
    writer: HistoryWriter
    reader: HistoryReader
    injected: Injected

    async def packet(
        self, port: int, head: bytes, body: bytes = b"", *, answered: bool = True, **facts: Any
    ) -> int:
        """Record a packet as the proxy would; its id."""
        body_length = facts.pop("body_length", len(body))
        trailers = facts.pop("trailers", b"")
        words = [*head.split(b" ", 2), b"", b""]
        given: dict[str, Any] = (
            {
                "connection": "c1",
                "server": ConnectionEnd("127.0.0.1", port),
                "server_name": "localhost",
                "scheme": "http",
                "method": words[0].decode("latin-1"),
                "url": words[1].decode("latin-1"),
                "version": "HTTP/1.1",
                "request": WireMessage(
                    time=CLOCK(), head=head, body=body, length=len(head) + body_length,
                    body_length=body_length, trailers=trailers,
                ),
            }
            | facts
        )  # fmt: skip
        exchange = Exchange(**given)
        if answered and exchange.request and head:
            exchange.status = 200
            exchange.response = WireMessage(time=CLOCK(), head=OK[:-2], body=b"ok", body_length=2)
        await self.record(exchange)
        return exchange.request_id or exchange.response_id

    async def record(self, exchange: Exchange) -> None:
        self.writer.post(exchange)
        await self.writer.recorded(exchange)

    def detail(self, packet_id: int) -> Detail:
        return self.reader.detail(packet_id)


@asynccontextmanager
async def open_jobs(folder: Path, clock: Callable[[], float] = CLOCK) -> AsyncIterator[Rig]:
    path = folder / "history.db"
    injected = Injected()
    async with open_writer(path) as writer:
        reader = HistoryReader(path)

        async def record(exchange: Exchange) -> None:
            writer.post(exchange)
            await writer.recorded(exchange)

        async def is_forbidden(_host: str, port: int) -> bool:
            return port == 32350

        jobs = Jobs(reader, record, injected, clock, ssl_insecure=True, is_forbidden=is_forbidden)
        try:
            yield Rig(jobs, writer, reader, injected)
        finally:
            await jobs.stop()
            reader.close()


GET = b"GET /a?sessionId=abc HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def resent(rig: Rig, packet_id: int, **plan: Any) -> dict[str, Any]:
    async with asyncio.timeout(GUARD_S):
        return await rig.jobs.resend({"packet_id": packet_id, "session": "s1", **plan})


async def bulk(rig: Rig, packet_ids: list[int], **plan: Any) -> dict[str, Any]:
    async with asyncio.timeout(GUARD_S):
        return await rig.jobs.bulk_send({"packet_ids": packet_ids, "session": "s1", **plan})


def regex(pattern: str, replacement: str, **more: Any) -> dict[str, Any]:
    return {"type": "regex_replace", "pattern": pattern, "replacement": replacement, **more}

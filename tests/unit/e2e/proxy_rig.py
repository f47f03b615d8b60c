"""A filtering proxy with a policy and names that a test sets, and servers behind it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

from pilothouse.core.net.url_policy import Policy
from pilothouse.e2e.egress_proxy.proxy import FilteringProxy, PolicyRefusal, open_proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from pilothouse.core.net.url_policy import Address

    type Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

GUARD_S = 30
DEVELOPMENT = Policy(development=True)
PRODUCTION = Policy()


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1")


class Rig:
    """A proxy whose policy and names a test sets as it goes."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.noted: list[PolicyRefusal] = []
        self.names: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.proxy: FilteringProxy

    async def resolve(self, name: str) -> Sequence[Address]:
        """Each name's answers in turn; the last one again and again."""
        self.asked.append(name)
        if name not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = self.names[name]
        return [ip_address(one) for one in (answers.pop(0) if len(answers) > 1 else answers[0])]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port, limit=2**24)
        self.writers.append(writer)
        return reader, writer

    async def ask(self, wire: bytes, *, then_eof: bool = False) -> bytes:
        """Everything that comes back."""
        reader, writer = await self.connect()
        async with asyncio.timeout(GUARD_S):
            writer.write(wire)
            if then_eof:
                writer.write_eof()
            answer = await reader.read(-1)
        writer.close()
        return answer

    async def get(self, url: str, *lines: str) -> bytes:
        return await self.ask(head(f"GET {url} HTTP/1.1", *lines, "", ""))

    async def tunnel(self, where: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        writer.write(head(f"CONNECT {where} HTTP/1.1", f"Host: {where}", "", ""))
        async with asyncio.timeout(GUARD_S):
            answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        return reader, writer


@asynccontextmanager
async def rig(policy: Policy = DEVELOPMENT) -> AsyncIterator[Rig]:
    made = Rig(policy)
    async with open_proxy(
        lambda: made.policy, made.noted.append, resolve=made.resolve, clock=lambda: 1234.5
    ) as proxy:
        made.proxy = proxy
        yield made
    for writer in made.writers:
        writer.close()


class Upstream:
    """A server that counts its connections and keeps what it read."""

    def __init__(self) -> None:
        self.connections = 0
        self.seen = bytearray()
        self.port = 0


@asynccontextmanager
async def upstream(handle: Handle | bytes, host: str = "127.0.0.1") -> AsyncIterator[Upstream]:
    """With bytes: answers them to any request head and hangs up."""
    made = Upstream()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        try:
            if isinstance(handle, bytes):
                made.seen += await reader.readuntil(b"\r\n\r\n")
                writer.write(handle)
            else:
                await handle(reader, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        server.abort_clients()
        await server.wait_closed()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()

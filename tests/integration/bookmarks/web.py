"""A web of a few pages on loopback, each of which answers as a test says."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator


@dataclass
class Web:
    """One server; `pages` is what it says to a path, for HEAD and GET apart where they differ."""

    port: int = 0
    scheme: str = "http"
    pages: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of every request."""
    heads: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    slow_s: float = 0.0

    def url(self, path: str = "/", host: str = "localhost") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, _ = head.split("\r\n", 1)[0].split(" ")
            self.asked.append((method, path))
            self.heads.append(head)
            self.times.append(asyncio.get_running_loop().time())
            await asyncio.sleep(self.slow_s)
            writer.write(self.pages.get(f"{method} {path}") or self.pages.get(path) or answer(404))
            await writer.drain()
        except (OSError, EOFError):
            pass  # the client has what it wanted
        finally:
            self.at_once -= 1
            writer.close()


def answer(status: int, location: str = "") -> bytes:
    more = f"Location: {location}\r\n" if location else ""
    return f"HTTP/1.1 {status} Said\r\n{more}Content-Length: 0\r\n\r\n".encode()


@asynccontextmanager
async def web(
    pages: dict[str, bytes] | None = None, context: ssl.SSLContext | None = None
) -> AsyncIterator[Web]:
    made = Web(pages=pages or {}, scheme="https" if context else "http")
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made
        server.close_clients()

"""What the tests of plain dev servers share: starting them, and hearing what they tell."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pilothouse.e2e.app_server.plain import start_plain
from pilothouse.e2e.egress_proxy.app_addresses import LOCALHOST
from pilothouse.e2e.model import ServerStartFailed, ServiceSpec
from pilothouse.machine.child import start_child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from pilothouse.core.net.url_policy import Address
    from pilothouse.e2e.app_server.plain import PlainServer
    from pilothouse.machine.child import Child

GUARD_S = 60


def clock() -> float:
    return time.time() * 1000


async def here() -> Sequence[Address]:
    """Give the addresses of an app on this machine."""
    return LOCALHOST


def base_env() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    # Next.js would report to its makers, and look up packages that the lock file lacks.
    quiet = {"NEXT_TELEMETRY_DISABLED": "1", "NEXT_IGNORE_INCORRECT_LOCKFILE": "1"}
    return {**kept, **quiet}


class Bench:
    """Starts servers and keeps what they tell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[tuple[str, str]] = []
        self.reports: list[str] = []
        self.exits: list[int] = []
        self.exited = asyncio.Event()
        self.children: list[Child] = []
        self.before: Callable[[Mapping[str, str]], None] = lambda _: None
        self.is_up: Callable[[Mapping[str, str]], Awaitable[object]] | None = None
        """Is waited for once the command runs: only then does its time limit begin."""

    async def spawn(self, argv: Sequence[str], **how: Any) -> Child:
        self.before(how["env"])
        child = await start_child(argv, **how)
        self.children.append(child)
        if self.is_up is not None:
            await self.is_up(how["env"])
        return child

    async def start(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str] | None = None,
        *,
        timeout_s: float = GUARD_S,
        **spec: Any,
    ) -> PlainServer:
        def ended(code: int) -> None:
            self.exits.append(code)
            self.exited.set()

        words = [shutil.which(argv[0]) or argv[0], *argv[1:]]
        return await start_plain(
            ServiceSpec(cwd=str(cwd), env=env or {}, timeout_ms=int(timeout_s * 1000), **spec),
            words,
            spawn=self.spawn,
            folder=self.folder,
            env=base_env(),
            clock=clock,
            on_line=lambda stream, line: self.lines.append((stream, line)),
            on_exit=ended,
            report=self.reports.append,
        )

    @asynccontextmanager
    async def running(self, *args: Any, **how: Any) -> AsyncIterator[PlainServer]:
        server = await self.start(*args, **how)
        try:
            yield server
        finally:
            await server.stop()
        self.nothing_lives()

    def nothing_lives(self) -> None:
        assert all(child.gone for child in self.children)


async def page(url: str) -> str:
    async with httpx.AsyncClient(trust_env=False, timeout=GUARD_S) as client:
        return (await client.get(url)).text


@asynccontextmanager
async def answering(status: int) -> AsyncIterator[str]:
    """Answer every request with this status, in this process; give the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://localhost:{server.sockets[0].getsockname()[1]}"


def content(path: str) -> str:
    return Path(path).read_text()


async def failing(bench: Bench, *args: Any, **how: Any) -> ServerStartFailed:
    with pytest.raises(ServerStartFailed) as failed:
        await bench.start(*args, **how)
    bench.nothing_lives()
    return failed.value

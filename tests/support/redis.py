"""A Redis of a test's own: on a free port, without a file, gone with whoever started it."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from pilothouse.hub.sessions.redis_wire import RedisAway, RedisRefused, RedisWire, parse_address
from pilothouse.machine.child import start_child
from tests.support.ports import free_port
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.machine.child import Child

PASSWORD = "correct horse"


class RedisServer:
    """A server that can be killed and started anew, empty, on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: Child | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/3"

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    async def start(self) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("redis-server is missing: apt-get install redis-server")
        argv = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        argv += ["--dir", str(self._folder), "--requirepass", PASSWORD, "--daemonize", "no"]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            self._child = await start_child(
                argv, cwd=self._folder, env=os.environ, stdout=nowhere, stderr=nowhere
            )
        finally:
            os.close(nowhere)
        await until(self._answers, missing=lambda: "an answer of redis-server")

    async def _answers(self) -> bool:
        assert self._child is not None
        assert self._child.exit_code is None, "redis-server did not start"
        wire = RedisWire(parse_address(self.url))
        try:
            await wire.connect()
        except (RedisAway, RedisRefused):
            return False
        finally:
            await wire.close()
        return True

    async def kill(self) -> None:
        assert self._child is not None
        await self._child.stop(0)

    async def ask(self, *words: str | int) -> object:
        wire = RedisWire(parse_address(self.url))
        await wire.connect()
        try:
            return await wire.call(*words)
        finally:
            await wire.close()


@asynccontextmanager
async def redis_server(folder: Path) -> AsyncIterator[RedisServer]:
    server = RedisServer(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()

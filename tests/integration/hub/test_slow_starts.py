"""Workers that take long to start, as an HTTP client sees it: it is told soon, and served later."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from pilothouse.core.net.origins import OriginPolicy
from pilothouse.hub.ports import Upstream
from pilothouse.hub.sessions.registry import MemoryRegistry
from pilothouse.hub.state import Hub
from pilothouse.hub.workers import command
from pilothouse.hub.workers.capacity import WorkerLimits
from pilothouse.hub.workers.command import HttpCommand, StdioCommand
from pilothouse.hub.workers.pool import Pool
from pilothouse.hub.workers.spawned import CommandLaunch
from pilothouse.machine import processes
from pilothouse.machine.child import start_child
from tests.support.http_agent import BOTH, GUARD_S
from tests.support.listener_rig import hello
from tests.support.servers import ROOT, environment
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.hub.workers.command import CommandKind

pytestmark = pytest.mark.anyio

ODD = str(ROOT / "tests" / "support" / "odd_server.py")
SOON_S = 0.3
"""Instead of the 8 seconds for which a client waits."""
HELLO = hello()


class Starts:
    """Commands that were started, and failures that were reported."""

    def __init__(self, sockets: Path, mark: str) -> None:
        self._sockets = sockets
        self._env = environment({"LC_MARK": mark})
        self.number = 0
        self.failures: list[str] = []

    def kind(self, over: str, *argv: str) -> CommandKind:
        async def spawn(*args: object, **wishes: object) -> object:
            self.number += 1
            return await start_child(*args, **wishes)  # type: ignore[arg-type]

        launch = CommandLaunch(argv, ROOT, self._env)
        kind: CommandKind
        if over == "http":
            kind = HttpCommand(spawn, lambda record: launch)  # type: ignore[arg-type]
        else:
            kind = StdioCommand(spawn, lambda record: launch, self._sockets)  # type: ignore[arg-type]
        kind.report = lambda event, **details: self.failures.append(event)
        return kind


@asynccontextmanager
async def served(kind: CommandKind) -> AsyncIterator[httpx.AsyncClient]:
    """Serve a hub of these workers; the client asks it."""
    pool = Pool(kind, WorkerLimits(), time.monotonic, processes.memory)
    hub = Hub(
        registry=MemoryRegistry(time.time),
        pool=pool,
        kind=kind,
        pages=Upstream("", path="/nowhere"),
        origin_policy=OriginPolicy(),
        clock=time.time,
        report=lambda what, error: pytest.fail(f"{what}: {error}"),
    )
    server = await asyncio.get_running_loop().create_server(hub.listener.client, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers=BOTH, timeout=GUARD_S
        ) as client:
            yield client
    finally:
        server.close()
        await hub.close()
        await pool.close()


@pytest.fixture
def starts(sockets: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> Starts:
    monkeypatch.setattr(command, "TEMPLATE_S", SOON_S)
    return Starts(sockets, mark)


async def test_a_worker_that_never_answers_is_a_503_after_the_limit_of_one_attempt(
    starts: Starts,
) -> None:
    async with served(starts.kind("stdio", "sleep", "1000")) as client:
        for _ in range(2):
            # A guard, of half the time for which the start goes on.
            async with asyncio.timeout(30):
                answer = await client.post("/mcp", json=HELLO)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert f"within {SOON_S:g} s" in answer.json()["error"]["message"]
        # Of one start: that goes on, and is counted once.
        assert starts.failures == ["worker_start_failed"]


async def test_a_server_that_listens_late_serves_who_comes_next(
    starts: Starts, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    waits = f"until test -e {go}; do sleep 0.05; done; "
    waits += shlex.join(["exec", sys.executable, ODD, "http", "2025"])
    async with served(starts.kind("http", "sh", "-c", waits)) as client:

        async def status() -> int:
            return (await client.post("/mcp", json=HELLO)).status_code

        assert [await status() for _ in range(2)] == [503, 503]
        os.close(os.open(go, os.O_CREAT | os.O_WRONLY))

        async def is_served() -> bool:
            return await status() == 200

        await until(is_served)
        assert starts.number == 1

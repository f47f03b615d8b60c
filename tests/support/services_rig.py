"""A hub's shared services with real workers that reach them, the hub being the test's own process.

The hub has neither listeners nor a pool: workers are started and killed by hand.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from pilothouse.core.settings import Settings, packed
from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.services.server import open_services
from pilothouse.hub.workers.builtin import SERVICES
from pilothouse.server.runtime import open_runtime
from pilothouse.wiring import standalone
from pilothouse.wiring.access_token import access_token
from pilothouse.wiring.groups import GROUP_SPECS
from tests.support.forking import PRODUCT, START_S, forking
from tests.support.intercepting import config
from tests.support.living import living
from tests.support.ports import free_port
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.hub.services.server import Services
    from pilothouse.hub.workers.builtin import Builtin, ForkedWorker
    from pilothouse.server.runtime import Runtime

GUARD_S = 60.0
LONGEST = 256 << 20
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Agent:
    """An agent whose relay speaks with its worker."""

    def __init__(self, key: Key, worker: ForkedWorker) -> None:
        self.key = key
        self.name = key.name
        self.worker = worker
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def meet(self) -> None:
        reader, self._writer = await asyncio.open_unix_connection(
            self.worker.address.lines, limit=LONGEST
        )
        self._reading = asyncio.create_task(self._read(reader))
        await self.ask("initialize", HELLO)
        self._say({"method": "notifications/initialized"})

    async def leave(self) -> None:
        self._reading.cancel()
        self._writer.close()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _say(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "method" not in message and message["id"] in self._waiting:
                    self._waiting[message["id"]].set_result(message)
        except OSError:
            pass
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the worker has ended"))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._say({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(GUARD_S):
                answer = await self._waiting[number]
        finally:
            del self._waiting[number]
        result: dict[str, Any] = answer["result"]
        return result

    async def result(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of an answer that is no failure."""
        result = await self.result(tool, **arguments)
        assert not result.get("isError"), result
        content: dict[str, Any] = result["structuredContent"]
        return content

    async def fault(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error that a call answers."""
        result = await self.result(tool, **arguments)
        assert result["isError"], result
        error: dict[str, Any] = result["structuredContent"]["error"]
        return error

    async def events(self, name: str) -> list[dict[str, Any]]:
        """What its timeline has of this name."""
        told = await self.ask("resources/read", {"uri": "pilothouse://timeline"})
        timeline = json.loads(told["contents"][0]["text"])
        return [event for event in timeline["events"] if event["event"] == name]

    async def kill(self) -> None:
        """End its worker as a crash would."""
        if not self.worker.died.done():
            os.kill(self.worker.pid, signal.SIGKILL)
            await asyncio.wait_for(asyncio.shield(self.worker.died), GUARD_S)


@dataclass
class Rig:
    runtime: Runtime
    services: Services
    kind: Builtin
    settings: Settings
    mark: str
    """In the environment of all that its workers start."""
    _agents: list[Agent] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    @property
    def token(self) -> str:
        return access_token(self.settings).value()

    @property
    def bookmarks_port(self) -> int:
        """Where the link listens, once it was asked for."""
        state = self.runtime.services["bookmarks link"]
        return int(state.partition("127.0.0.1:")[2].partition(",")[0])

    async def agent(self, before: Agent | None = None, **settings: Any) -> Agent:
        """A worker for a new agent, or for one that had another before; the settings are its
        relay's own."""
        key = before.key if before is not None else Key("relay", f"agent {next(self._numbers)}")
        given = {**packed(self.settings), **settings}
        record = SessionRecord(key.value, key, "2025", 0.0, 0.0, settings=given)
        worker = await self.kind.start(key, record, START_S)
        agent = Agent(key, worker)
        await agent.meet()
        self._agents.append(agent)
        return agent

    async def clear(self) -> None:
        """End all workers."""
        for agent in self._agents:
            await agent.kill()
            await agent.leave()
        self._agents.clear()
        await until(lambda: len(self.services) == 0)


@asynccontextmanager
async def sharing(*, offers: bool = True, **settings: Any) -> AsyncIterator[Rig]:
    """A hub until the block ends; without `offers` its workers find no services."""
    sockets = Path(tempfile.mkdtemp(prefix="ph-"))
    mark = uuid.uuid4().hex
    home = sockets / "home"
    home.mkdir()
    chosen = Settings(
        home=str(home),
        log_level="error",
        profile="full",
        rest_port=0,
        config_port=0,
        bookmarks_port=0,
        **settings,
    )
    redactor = standalone.make_redactor(chosen)
    log = standalone.make_log(chosen, redactor)
    path = sockets / (SERVICES if offers else "elsewhere")
    try:
        async with (
            open_runtime(GROUP_SPECS, chosen, redactor, log) as runtime,
            open_services(runtime, path) as services,
            forking(sockets, mark, PRODUCT) as kind,
        ):
            rig = Rig(runtime, services, kind, chosen, mark)
            try:
                yield rig
            finally:
                await rig.clear()
        await until(lambda: living(mark) == [])
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


async def add(agent: Agent, title: str) -> dict[str, Any]:
    """Make a bookmark of this title on the bar."""
    url = f"https://{title.replace(' ', '-')}.example/"
    return await agent.call("bookmark_add", title=title, url=url, parentId="1")


async def listen(rig: Rig, agent: Agent) -> int:
    """Have the proxy listen on a free port, for everybody."""
    port = free_port()
    await agent.call("update_config", access_token=rig.token, config_json=config(port))
    return port


async def get(port: int, url: str) -> None:
    """Ask for it through the proxy on that port."""
    async with httpx.AsyncClient(proxy=f"http://127.0.0.1:{port}", timeout=30) as client:
        await client.get(url)


async def packets(rig: Rig, agent: Agent, **more: Any) -> list[dict[str, Any]]:
    """What the agent is shown of the history, oldest first."""
    fields = ["id", "session", "resend"]
    told = await agent.call(
        "get_history", access_token=rig.token, order="id asc", fields=fields, **more
    )
    found: list[dict[str, Any]] = told["packets"]
    return found


async def both(rig: Rig, agent: Agent, **more: Any) -> list[dict[str, Any]]:
    """The request and the response, once both are written."""

    async def there() -> list[dict[str, Any]]:
        found = await packets(rig, agent, **more)
        return found if len(found) >= 2 else []

    rows: list[dict[str, Any]] = await until(there)
    return rows

"""A real engine in a process of its own, asked as its owner asks it."""

from __future__ import annotations

import asyncio
import sqlite3
import ssl
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from pilothouse.intercept.engine_process import EngineProcess, open_engine
from pilothouse.machine.child import start_child

# bench/rows/intercept_engine.py takes these two from here.
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from pilothouse.intercept.engine_process import OnStart

GUARD_S = 30.0


@dataclass
class Rig:
    folder: Path
    events: list[dict[str, Any]] = field(default_factory=list)
    engine: EngineProcess = field(init=False)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def on_event(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self._news.set()

    async def ask(self, do: str, **args: Any) -> Any:
        return await self.engine.ask(do, within=GUARD_S, **args)

    async def event(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event of that sort, also if it has yet to come."""
        async with asyncio.timeout(GUARD_S):
            while True:
                self._news.clear()
                for event in self.events:
                    if wanted(event):
                        return event
                await self._news.wait()

    async def packets(self) -> list[dict[str, Any]]:
        """All rows with their contents, oldest first."""
        await self.ask("flush")
        with sqlite3.connect(self.folder / "history.db") as file:
            file.row_factory = sqlite3.Row
            found = file.execute(
                "SELECT * FROM packets JOIN contents USING (id) ORDER BY packets.id"
            ).fetchall()
        file.close()
        return [dict(row) for row in found]

    async def pair(self, url: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Request and response of the last exchange with that path, once both are recorded."""

        async def both() -> tuple[dict[str, Any], dict[str, Any]] | None:
            rows = [row for row in await self.packets() if row["url"] == url]
            asked = [row for row in rows if not row["is_response"]]
            told = [row for row in rows if row["is_response"]]
            if asked and told and told[-1]["group_id"] == asked[-1]["group_id"]:
                return asked[-1], told[-1]
            return None

        return await until(both)

    async def listen(self, **config: Any) -> list[dict[str, Any]]:
        states: list[dict[str, Any]] = await self.ask("configure", config=configuration(**config))
        return states

    async def session(self, session: str = "s1", upstream: int | None = None) -> int:
        opened = await self.ask("open_browser", name=session, session=session, upstream=upstream)
        return int(opened["port"])

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[list[float]]:
        """Asks the engine all the time meanwhile; for how many seconds it let each question wait,
        which is no less than its event loop stood still."""
        waits: list[float] = []
        is_over = asyncio.Event()

        async def ask() -> None:
            while not waits or not is_over.is_set():
                start = time.perf_counter()
                await self.ask("ping")
                waits.append(time.perf_counter() - start)
                await asyncio.sleep(0.002)

        asking = asyncio.create_task(ask())
        try:
            yield waits
        finally:
            is_over.set()
            await asking

    def trust(self) -> ssl.SSLContext:
        """What a client has to trust to be intercepted."""
        return ssl.create_default_context(cafile=self.folder / "ca" / "mitmproxy-ca-cert.pem")

    def client(self, port: int, **options: Any) -> httpx.AsyncClient:
        """Whose requests go through the proxy on that port."""
        return httpx.AsyncClient(
            proxy=f"http://127.0.0.1:{port}", verify=self.trust(), timeout=GUARD_S, **options
        )


@asynccontextmanager
async def running_engine(
    folder: Path, *options: str, on_start: OnStart | None = None
) -> AsyncIterator[Rig]:
    rig = Rig(folder)
    async with open_engine(
        folder, start_child, rig.on_event, on_start=on_start, options=options
    ) as rig.engine:
        await rig.ask("ping")
        yield rig


def configuration(
    listen: Sequence[dict[str, Any]] = (),
    servers: Sequence[dict[str, Any]] = (),
    edits: Sequence[dict[str, Any]] = (),
    passes: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """A configuration in which what is not said has its usual value."""
    return {
        "listenPorts": [
            {"id": at, "enabled": True, "type": "HTTP_PROXY", "server_id": -1, **one}
            for at, one in enumerate(listen, 1)
        ],
        "servers": [
            {
                "id": at,
                "ip": "127.0.0.1",
                "encoder": "HTTP",
                "use_ssl": False,
                "http_proxy": False,
                **one,
            }
            for at, one in enumerate(servers, 1)
        ],
        "modifications": [
            {
                "id": at,
                "enabled": True,
                "server_id": -1,
                "direction": "ALL",
                "method": "SIMPLE",
                **one,
            }
            for at, one in enumerate(edits, 1)
        ],
        "sslPassThroughs": [
            {"id": at, "enabled": True, "listen_port": -1, **one}
            for at, one in enumerate(passes, 1)
        ],
    }

"""Server-sent events for one open page, for as long as it stays open."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.dashboard.ports import NoSuchAgent
from pilothouse.dashboard.rows import packed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Send

    from pilothouse.dashboard.ports import RowBatch

ROWS_S = 0.1
"""Least seconds between two messages with rows: what comes meanwhile goes into one."""
FIRST_S = 0.3
"""Seconds after the first of them, which has few: a page is to draw these before the others."""
OVERVIEW_S = 1.0
HEARTBEAT_S = 15.0
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-accel-buffering", b"no"),
]
_STEADY = ("uptimeSec", "idleSec")
"""Facts that change by themselves, and are no news."""
_MEMORY_STEP = 4 << 20
"""Bytes by which an agent's memory changes before that is news."""


class PageStream:
    """Sender of what one page wants to see. Nothing is requested for it once it is closed."""

    def __init__(
        self,
        overview: Callable[[], Awaitable[dict[str, Any]]],
        rows: Callable[[str, str], Awaitable[RowBatch]],
        agent: str,
        cursor: str,
    ) -> None:
        """Send the overview alone if `agent` is empty."""
        self._overview = overview
        self._next_rows = rows
        self._agent = agent
        self._cursor = cursor
        self._turn = anyio.Lock()
        self._reading = anyio.CancelScope()

    async def serve(self, receive: Receive, send: Send) -> None:
        """Send events until the page is closed."""
        self._send = send
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if self._agent:
            await self._tell("agent", packed({"agent": self._agent}))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._overviews)
            tasks.start_soon(self._heartbeats)
            if self._agent:
                tasks.start_soon(self._rows)
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

    async def _write(self, data: bytes) -> None:
        async with self._turn:
            message = {"type": "http.response.body", "body": data, "more_body": True}
            await self._send(message)

    async def _tell(self, event: str, data: bytes) -> None:
        await self._write(b"event: %b\ndata: %b\n\n" % (event.encode(), data))

    async def _rows(self) -> None:
        """Send rows until the agent is gone. The page stays open: it sees when there is another."""
        pause = ROWS_S if self._cursor else FIRST_S
        with self._reading, suppress(NoSuchAgent):
            while True:
                batch = await self._next_rows(self._agent, self._cursor)
                sent_at = time.monotonic()
                self._cursor = batch.cursor
                await self._tell("rows", batch.packed)
                await anyio.sleep(max(0.0, sent_at + pause - time.monotonic()))
                pause = ROWS_S
        await self._tell("gone", packed({"agent": self._agent}))

    async def _overviews(self) -> None:
        told = None
        while True:
            overview = await self._overview()
            news = steady(overview)
            if news != told:
                told = news
                await self._tell("overview", packed(overview))
            if not is_live(overview, self._agent):
                self._reading.cancel()
            await anyio.sleep(OVERVIEW_S)

    async def _heartbeats(self) -> None:
        while True:
            await anyio.sleep(HEARTBEAT_S)
            await self._write(b": still here\n\n")


def is_live(overview: dict[str, Any], agent: str) -> bool:
    return any(one["id"] == agent and one["state"] == "live" for one in overview["sessions"])


def steady(value: Any) -> Any:
    """Return an overview without what changes all the time: two that are alike are no news."""
    if isinstance(value, dict):
        made = {name: steady(inner) for name, inner in value.items() if name not in _STEADY}
        if isinstance(memory := made.get("memory"), int):
            made["memory"] = memory // _MEMORY_STEP
        return made
    return [steady(inner) for inner in value] if isinstance(value, list) else value

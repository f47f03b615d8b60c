"""A worker's log as its relay gets it, which writes it to the standard error of its own client.

Lines are sent together, a moment after they were written, so that no answer waits for one. A relay
that does not read loses the oldest: the hub's log has them all.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING

from pilothouse.core.log_message import pack

if TYPE_CHECKING:
    from pilothouse.server.transports.stdio import StdioWriter

TOGETHER_S = 0.01
MOST_WAITING = 1_000


class LogEcho:
    """A sender of log lines along one connection."""

    def __init__(self, writer: StdioWriter) -> None:
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        """Id of the loop's thread, which need not wake the loop."""
        self._waiting: deque[str] = deque(maxlen=MOST_WAITING)
        self._is_due = False
        self._is_over = False
        self._sending: asyncio.Task[None] | None = None

    def add(self, line: str) -> None:
        """Send a line soon; threads may call this."""
        self._waiting.append(line)
        if self._is_due:
            return
        self._is_due = True
        if threading.get_ident() == self._thread:
            self._loop.call_later(TOGETHER_S, self._start)
        else:
            self._loop.call_soon_threadsafe(self._loop.call_later, TOGETHER_S, self._start)

    def _start(self) -> None:
        self._sending = asyncio.ensure_future(self._flush())

    async def close(self) -> None:
        """Send all that was added; what is on its way already has left the queue."""
        if self._sending is not None:
            await self._sending
        await self._flush()

    def stop(self) -> None:
        """Send nothing more: the descriptor is closed, and its number may soon be another's."""
        self._is_over = True
        if self._sending is not None:
            self._sending.cancel()

    async def _flush(self) -> None:
        self._is_due = False
        if self._is_over:
            return
        lines, self._waiting = self._waiting, deque(maxlen=MOST_WAITING)
        if lines:
            try:
                await self._writer.write("".join(map(pack, lines)))
            except OSError:
                pass  # the relay has gone

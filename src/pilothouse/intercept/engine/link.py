"""The engine's end of the socket: one JSON object a line, requests in, answers and events out."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

import orjson

from pilothouse.core.declare.faults import Fault, Internal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pilothouse.core.timeline.clock import Clock

LONGEST_LINE = 64 << 20
FULL = 8 << 20
"""Bytes that wait to be read by the owner, above which events are left out."""
_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warn"), (logging.INFO, "info"))
logger = logging.getLogger(__name__)


def take_standard_output() -> socket.socket:
    """Take the owner's socket, given as standard output; what is printed goes to stderr now."""
    link = socket.socket(fileno=os.dup(1))
    os.dup2(2, 1)
    return link


class EngineLink:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._missed = 0
        self._running: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, link: socket.socket) -> EngineLink:
        return cls(*await asyncio.open_unix_connection(sock=link, limit=LONGEST_LINE))

    def tell(self, event: dict[str, Any]) -> None:
        """Send an event, unless the owner does not keep up; later it gets how many it missed."""
        if self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > FULL:
            self._missed += 1
            return
        if self._missed:
            self._send({"event": "missed", "count": self._missed})
            self._missed = 0
        self._send(event)

    def tell_from_any_thread(self, event: dict[str, Any]) -> None:
        if threading.current_thread() is threading.main_thread():
            self.tell(event)
        else:
            self._loop.call_soon_threadsafe(self.tell, event)

    async def serve(self, do: Callable[[str, dict[str, Any]], Awaitable[Any]]) -> None:
        """Answer requests, each in a task of its own, until the owner closes the socket."""
        while line := await self._line():
            if (request := _request(line)) is None:
                # To end for one odd line would lose all that the engine records.
                logger.error("a request of %d bytes is none, and is not answered", len(line))
                continue
            task = asyncio.create_task(self._answer(request, do))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _line(self) -> bytes:
        """Return the next line, empty at the end and for a last one that has no end."""
        try:
            return await self._reader.readline()
        except (OSError, ValueError) as error:
            logger.error("the owner's socket broke: %s", error)
            return b""

    async def _answer(
        self, request: dict[str, Any], do: Callable[[str, dict[str, Any]], Awaitable[Any]]
    ) -> None:
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["result"] = await do(request["do"], request["args"])
        except Fault as fault:
            answer["error"] = _reported(fault)
        except Exception as error:
            logger.exception("%s failed", request["do"])
            reason = f"{type(error).__name__}: {error}"
            answer["error"] = _reported(Internal(f"{request['do']} failed in the proxy: {reason}"))
        if not self._writer.is_closing():
            self._send(answer)

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(orjson.dumps(message, default=str) + b"\n")


def _request(line: bytes) -> dict[str, Any] | None:
    """Return the request of a line, None if it is none."""
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    is_one = (
        isinstance(request, dict)
        and isinstance(request.get("id"), int)
        and isinstance(request.get("do"), str)
        and isinstance(request.get("args"), dict)
    )
    return request if is_one else None


def _reported(fault: Fault) -> dict[str, Any]:
    return {
        "code": fault.code,
        "message": fault.message,
        "hint": fault.hint,
        "details": fault.details,
    }


class LogHandler(logging.Handler):
    """Handler that sends log records to the owner."""

    def __init__(self, link: EngineLink, clock: Clock) -> None:
        super().__init__()
        self._link = link
        self._clock = clock

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        self._link.tell_from_any_thread(
            {
                "event": "log",
                "time": self._clock(),
                "level": next((name for at, name in _LEVELS if record.levelno >= at), "debug"),
                "message": message,
                "thread": record.threadName or "",
                "class": record.name,
            }
        )

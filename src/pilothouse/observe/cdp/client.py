"""A DevTools client: one WebSocket or pipe, flat sessions, a deadline for every command.

The reader never ends because of one bad frame. A handler may send commands without waiting for any
of their answers.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from pilothouse.core.call_priority import CallPriority
from pilothouse.observe.cdp.websocket import WireError, connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.machine.chromium.shared_pipe import BrowserPipe

    type OnEvent = Callable[[str, dict[str, Any], str], None]
    """Method, parameters and CDP session id (empty for the browser's own) of one event."""

CONNECT_S = 15.0
ENABLE_S = 5.0
COMMAND_S = 30.0
MOST_SAID = 2_000
"""Characters that are kept of a browser's error message."""
MAX_FRAME_BYTES = 256 * 1024 * 1024


class Carrier(Protocol):
    """A transport of messages to a browser: a `Pausable` that may be closed."""

    closed: asyncio.Event

    def send(self, text: bytes) -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...
    def close(self) -> None: ...


class CdpError(Exception):
    """The browser refused a command."""

    def __init__(self, method: str, message: str, code: int = 0) -> None:
        super().__init__(f"{method}: {message}")
        self.message = message
        self.code = code


class CdpTimeout(CdpError):
    """The browser did not answer a command in time."""


class CdpGone(CdpError):
    """The connection or the target went away before a command was answered."""


@dataclass(slots=True)
class _Pending:
    method: str
    session: str
    sent_at: float
    answer: asyncio.Future[dict[str, Any]]


@dataclass(slots=True)
class Counts:
    """Counts of what happened on a connection."""

    frames: int = 0
    bad_frames: int = 0
    commands: int = 0
    command_seconds: float = 0.0


class Cdp:
    """A connection to one browser."""

    def __init__(self, on_event: OnEvent, priority: CallPriority | None = None) -> None:
        self._on_event = on_event
        self._priority = priority or CallPriority()
        self._wire: Carrier | None = None
        self._root = ""
        """The session that stands for the browser; on a pipe its own one is somebody else's."""
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._closed = False
        self.counts = Counts()

    @classmethod
    async def open(cls, url: str, on_event: OnEvent, priority: CallPriority | None = None) -> Cdp:
        """Connect. Raises OSError, TimeoutError or CdpError if the browser cannot be reached."""
        cdp = cls(on_event, priority)
        try:
            cdp._wire = await connect(url, cdp._take, max_bytes=MAX_FRAME_BYTES, deadline=CONNECT_S)
        except WireError as error:
            raise CdpError("connect", str(error)) from error
        cdp._priority.add(cdp._wire)
        return cdp

    @classmethod
    async def share(
        cls, pipe: BrowserPipe, on_event: OnEvent, priority: CallPriority | None = None
    ) -> Cdp:
        """Speak on a pipe by which somebody else drives the browser.

        Raises:
            OSError, TimeoutError: the browser has ended or does not answer.
        """
        cdp = cls(on_event, priority)
        cdp._wire = line = await pipe.open_line(cdp._take)
        cdp._root, cdp._last_id = line.session, line.first_id
        cdp._priority.add(line)
        return cdp

    async def run(self) -> None:
        """Wait until the connection is gone; then every open command fails."""
        assert self._wire is not None
        try:
            await self._wire.closed.wait()
        finally:
            self._closed = True
            self._priority.discard(self._wire)
            self._fail(lambda pending: True, "the browser closed the connection")

    @property
    def is_open(self) -> bool:
        return not self._closed

    async def close(self) -> None:
        self._closed = True
        if self._wire is not None:
            self._priority.discard(self._wire)
            self._wire.close()
            await self._wire.closed.wait()

    # Commands

    async def call(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        session: str = "",
        deadline: float = COMMAND_S,
    ) -> dict[str, Any]:
        """Send a command and wait for its answer.

        Raises:
            CdpTimeout: no answer within the deadline.
            CdpGone: the connection or the target went away.
            CdpError: the browser refused.
        """
        answer = self.post(method, params, session)
        try:
            async with asyncio.timeout(deadline):
                return await answer
        except TimeoutError:
            raise CdpTimeout(method, f"no answer within {deadline:g} s") from None

    def post(
        self, method: str, params: dict[str, Any] | None = None, session: str = ""
    ) -> asyncio.Future[dict[str, Any]]:
        """Send a command without waiting; whoever wants the answer awaits the future."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(CdpGone(method, "the browser closed the connection"))
            _observed(future)
            return future
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params or {}}
        if target := session or self._root:
            message["sessionId"] = target
        try:
            packed = orjson.dumps(message)
        except TypeError:
            future.set_exception(CdpError(method, "its parameters cannot be sent as JSON"))
            _observed(future)
            return future
        self._pending[self._last_id] = _Pending(method, session, time.monotonic(), future)
        future.add_done_callback(partial(self._forget, self._last_id))
        assert self._wire is not None
        self._wire.send(packed)
        self.counts.commands += 1
        return future

    def _forget(self, number: int, _: asyncio.Future[dict[str, Any]]) -> None:
        self._pending.pop(number, None)

    def fail_session(self, session: str, why: str) -> None:
        """Fail what waits for a session that can no longer answer, such as a crashed page's."""
        self._fail(lambda pending: pending.session == session, why)

    def _fail(self, which: Callable[[_Pending], bool], why: str) -> None:
        for pending in list(self._pending.values()):
            if which(pending) and not pending.answer.done():
                pending.answer.set_exception(CdpGone(pending.method, why))
                _observed(pending.answer)

    # The wire

    def _take(self, raw: bytes) -> None:
        """Take in one frame. Whatever is wrong with it, the next one is read."""
        self.counts.frames += 1
        try:
            message = _parse(raw)
            method = message.get("method")
            if method is not None:
                session = message.get("sessionId") or ""
                if session == self._root:
                    session = ""
                self._on_event(method, message.get("params") or {}, session)
            else:
                self._answered(message)
        except Exception:
            self.counts.bad_frames += 1

    def _answered(self, message: dict[str, Any]) -> None:
        pending = self._pending.get(message["id"])
        if pending is None or pending.answer.done():
            return
        self.counts.command_seconds += time.monotonic() - pending.sent_at
        error, result = message.get("error"), message.get("result") or {}
        if error is None and isinstance(result, dict):
            pending.answer.set_result(result)
            return
        # Whatever was answered, the command has its answer: nobody waits until its deadline.
        told = error if isinstance(error, dict) else {}
        said = str(told.get("message", error))[:MOST_SAID] if error else "the answer is no object"
        pending.answer.set_exception(CdpError(pending.method, said, _code(told)))
        _observed(pending.answer)


def part_of[T](method: str, answer: dict[str, Any], name: str, kind: type[T]) -> T:
    """Return a member of a command's answer that each browser gives.

    Raises:
        CdpError: it is missing; what answered is no browser, or a broken one.
    """
    part = answer.get(name)
    if not isinstance(part, kind):
        raise CdpError(method, f"the answer has no {name}")
    return part


def _code(error: dict[str, Any]) -> int:
    code = error.get("code", 0)
    return code if isinstance(code, int) else 0


def _observed(future: asyncio.Future[Any]) -> None:
    """Mark an exception as seen: nobody has to await a command that was only posted."""
    future.exception()


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        message = orjson.loads(raw)
    except orjson.JSONDecodeError:
        # Halves of characters, which JavaScript strings may hold, are refused by orjson.
        message = json.loads(raw.decode("utf-8", "replace"))
    if not isinstance(message, dict):
        raise TypeError("a frame is a JSON object")
    return message

"""One debugging pipe for two: Playwright drives a browser by it, and the observer watches.

Playwright's messages pass as they come. The observer has a session of its own on the same pipe, so
that neither is disturbed by what the other attaches to. Nothing here ever waits for a write: the
driver may be waiting for us while we write to it. Who does not read gets what is his later, and
only when that grows beyond all measure the browser is not read from any more. The end of one side
is the end of the others.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from typing import TYPE_CHECKING

from pilothouse.core.net.devtools import (
    END,
    FIRST_OWN_ID,
    Cutter,
    MessageRoutes,
    is_about_leaving,
    parsed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

READ_BYTES = 64 * 1024
SLICE_BYTES = 16 * 1024
"""Bytes of the observer's messages taken in at once, so that other tasks run during a flood."""
HOLD_S = 0.02
"""Seconds that the observer waits for a call at most: a call may wait for what it observes."""
OBSERVER_BYTES = 64 * 1024 * 1024
"""Bytes that may wait for the observer."""
DRIVER_BYTES = 256 * 1024 * 1024
"""Bytes that may wait for a driver that does not read."""
BROWSER_BYTES = 1024 * 1024
"""Bytes that may wait for a browser that does not read, before its driver has to."""
ATTACH_S = 15.0
ENDS = 4
"""Number of ends: a driver's and a browser's, each one to read from and one to write to."""


class BrowserPipe:
    """The pipe of a browser that runs. Made by `open` alone."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.on_close: Callable[[], None] = lambda: None
        self._routes = MessageRoutes()
        self._commands = Cutter()
        self._messages = Cutter()
        self._line: ObserverLine | None = None
        self._attached: asyncio.Future[str] | None = None
        self._slow: set[object] = set()
        """Readers that lag so far behind that the browser is not read from."""
        self._from_driver = _End(self._take_commands, self.close)
        self._from_browser = _End(self._take_messages, self.close)
        # Only the other end of the pair tells that all has been read.
        self._to_driver = _End()
        self._to_browser = _End()
        self._to_driver.on_full = lambda full: self._lags(self._to_driver, full)
        self._to_browser.on_full = self._from_driver.pause

    @classmethod
    async def open(cls, descriptors: list[int]) -> BrowserPipe:
        """Take over what a launcher sent: the driver's two ends, then the browser's two."""
        pipe = cls()
        from_driver, to_driver, to_browser, from_browser = (
            socket.socket(fileno=descriptor) for descriptor in descriptors
        )
        # What is written to comes first, because what is read from begins at once.
        await pipe._to_driver.open(to_driver, DRIVER_BYTES)
        await pipe._to_browser.open(to_browser, BROWSER_BYTES)
        await pipe._from_driver.open(from_driver)
        await pipe._from_browser.open(from_browser)
        return pipe

    def close(self) -> None:
        """Pass the end of one side on; what was sent before it still arrives."""
        if self.closed.is_set():
            return
        self.closed.set()
        for end in (self._from_driver, self._from_browser, self._to_driver, self._to_browser):
            end.close()
        if self._attached is not None and not self._attached.done():
            self._attached.cancel()
        if self._line is not None:
            self._line.end()
        self.on_close()

    # Passing on

    def _take_commands(self, data: bytes) -> None:
        if commands := self._commands.whole(data):
            self._to_browser.write(commands)

    def _take_messages(self, data: bytes) -> None:
        passed = []
        for message in self._messages.feed(data):
            if not self._routes.is_own(message):
                passed.append(message)
                if self._line is not None and is_about_leaving(message):
                    self._line.put(message)
            elif self._line is not None:
                self._line.put(message)
            else:
                self._take_session(message)
        if passed:
            passed.append(b"")
            self._to_driver.write(END.join(passed))
        if self._line is not None:
            self._line.take_some()
            self._lags(self._line, self._line.waiting_bytes > OBSERVER_BYTES)

    def _lags(self, who: object, lags: bool) -> None:
        before = bool(self._slow)
        (self._slow.add if lags else self._slow.discard)(who)
        if before is not bool(self._slow):
            self._from_browser.pause(not before)

    # The observer

    async def open_line(self, take: Callable[[bytes], None]) -> ObserverLine:
        """Give the observer a session on this pipe, whose messages go to `take`.

        Raises:
            OSError: the browser has ended, or is observed already.
            TimeoutError: it does not answer.
        """
        if self.closed.is_set() or self._line is not None or self._attached is not None:
            raise OSError("the browser has ended or is observed already")
        self._attached = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ATTACH_S):
                self._command("Target.attachToBrowserTarget")
                session = await self._attached
        except asyncio.CancelledError:
            if self.closed.is_set():
                raise OSError("the browser has ended") from None
            raise
        finally:
            self._attached = None
        self._line = ObserverLine(self, session, take)
        return self._line

    def _take_session(self, message: bytes) -> None:
        result = parsed(message).get("result")
        session = result.get("sessionId") if isinstance(result, dict) else None
        if not isinstance(session, str) or not session:
            return
        if self._attached is not None and not self._attached.done():
            self._routes.add(session)
            self._attached.set_result(session)

    def leave(self, line: ObserverLine) -> None:
        """End the observer's session; the browser and its driver go on."""
        if self._line is line:
            self._line = None
            self._lags(line, False)
            self._command("Target.detachFromTarget", sessionId=line.session)

    def _command(self, method: str, **params: str) -> None:
        told = {"id": FIRST_OWN_ID, "method": method, "params": params}
        self.write(json.dumps(told).encode())

    def write(self, command: bytes) -> None:
        """Send a whole command to the browser."""
        self._to_browser.write(command + END)

    def caught_up(self, line: ObserverLine) -> None:
        """Read on, if it was this line that lagged."""
        if line in self._slow and line.waiting_bytes < OBSERVER_BYTES // 2:
            self._lags(line, False)


class ObserverLine:
    """The observer's part of a pipe. Its messages wait while calls are answered (a `Pausable`)."""

    first_id = FIRST_OWN_ID + 1

    def __init__(self, pipe: BrowserPipe, session: str, take: Callable[[bytes], None]) -> None:
        self.session = session
        self.closed = asyncio.Event()
        self.waiting_bytes = 0
        self._pipe = pipe
        self._take = take
        self._waiting: deque[bytes] = deque()
        self._next: asyncio.Handle | None = None
        """Handle of the next slice, None without one; a timer's while messages are held."""
        self._ended = False

    def put(self, message: bytes) -> None:
        """Queue a message for the observer."""
        self._waiting.append(message)
        self.waiting_bytes += len(message)

    def take_some(self) -> None:
        """Hand over what waits, in slices with a turn of the event loop between them."""
        if self._next is None:
            self._take_slice()

    def _take_slice(self) -> None:
        self._next = None
        rest = SLICE_BYTES
        while self._waiting and rest > 0:
            message = self._waiting.popleft()
            rest -= len(message)
            self.waiting_bytes -= len(message)
            self._take(message)
        self._pipe.caught_up(self)
        if self._next is not None:
            return  # taking a message in may have sent one, or made it wait
        if self._waiting:
            self._next = asyncio.get_running_loop().call_soon(self._take_slice)
        elif self._ended:
            self.closed.set()

    def send(self, command: bytes) -> None:
        """Send a command of the observer's; returns at once."""
        self.release()  # its answer may be waited for
        self._pipe.write(command)

    @property
    def is_held(self) -> bool:
        """Tell whether it waits for a call."""
        return isinstance(self._next, asyncio.TimerHandle)

    def hold(self) -> None:
        """Take nothing for a moment, if more waits than one slice."""
        if self._waiting and not self.is_held:
            if self._next is not None:
                self._next.cancel()
            self._next = asyncio.get_running_loop().call_later(HOLD_S, self._take_slice)

    def release(self) -> None:
        """Go on with what was held."""
        if self._next is not None and self.is_held:
            self._next.cancel()
            self._next = asyncio.get_running_loop().call_soon(self._take_slice)

    def end(self) -> None:
        """Take in what the browser sent last; then this is closed."""
        self._ended = True
        self.take_some()

    def close(self) -> None:
        """End the observer's session, and take nothing more."""
        self._waiting.clear()
        self._pipe.leave(self)
        self.closed.set()


class _End(asyncio.BufferedProtocol):
    """Our end of one direction of a pipe."""

    def __init__(
        self,
        on_data: Callable[[bytes], None] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self.on_full: Callable[[bool], None] = lambda full: None
        """Callback for when more waits to be written than should, and when it does no longer."""
        self._buffer = memoryview(bytearray(READ_BYTES if on_data else 1))
        self._transport: asyncio.Transport | None = None

    async def open(self, end: socket.socket, limit: int = 0) -> None:
        end.setblocking(False)
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_accepted_socket(lambda: self, end)
        if limit:
            self._transport.set_write_buffer_limits(limit)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        if self._on_data is not None:
            self._on_data(bytes(self._buffer[:count]))

    def connection_lost(self, error: Exception | None) -> None:
        if self._on_end is not None:
            self._on_end()

    def pause_writing(self) -> None:
        self.on_full(True)

    def resume_writing(self) -> None:
        self.on_full(False)

    @property
    def is_paused(self) -> bool:
        """Tell whether nothing is read because of what waits elsewhere."""
        return self._transport is not None and not self._transport.is_reading()

    def pause(self, paused: bool) -> None:
        assert self._transport is not None
        (self._transport.pause_reading if paused else self._transport.resume_reading)()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

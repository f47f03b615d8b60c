"""The stdio transport: one JSON-RPC message a line, and nothing else on stdout.

While serving, fd 0 is empty and fd 1 leads to stderr, so that neither a stray print nor a child
process can read or write the wire. Reading and writing wait for the descriptor instead of using a
thread each, which is quicker for small messages.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import select
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pilothouse.core.net import jsonrpc
from pilothouse.ipc.lines import Splitter
from pilothouse.server.mcp.sdk_bypass import SdkBypass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

_CHUNK = 1 << 16
_WIDE = 1 << 20


@contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """Open private descriptors of the wire, diverting the standard ones until the block ends."""
    wire_in = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    wire_out = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield wire_in, wire_out
    finally:
        os.set_blocking(wire_out, True)
        os.dup2(wire_in, 0)
        os.dup2(wire_out, 1)
        for fd in (nothing, wire_in, wire_out):
            os.close(fd)


async def _ready(fd: int, watch: Callable[..., None], unwatch: Callable[[int], bool]) -> None:
    """Wait until a descriptor can be read or written; regular files always can."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    try:
        watch(fd, wake)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        return
    try:
        await future
    finally:
        unwatch(fd)


class StdioWriter:
    """A writer of lines, one after the other, that does not block the event loop."""

    def __init__(
        self,
        fd: int,
        bypass: SdkBypass | None = None,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        """Write to `fd`; `answered` is called when a line was written."""
        self._fd = fd
        self._answered = answered
        self._bypass = bypass or SdkBypass()
        self._turn = asyncio.Lock()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        # Our end of a pipe or a socket may be set not to block; a terminal is shared with others
        # who would be surprised. There, what surely fits is written piece by piece.
        self._piece = select.PIPE_BUF
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode):
            os.set_blocking(fd, False)
            self._piece = _widened(fd)
        elif stat.S_ISSOCK(mode):  # clients on Node.js make these
            os.set_blocking(fd, False)
            self._piece = _WIDE

    async def write(self, text: str) -> int:
        await self._send(self._bypass.deliver(text))
        self._answered()
        return len(text)

    async def flush(self) -> None:
        """Do nothing, as nothing is held back."""

    async def _send(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        view = memoryview(data)
        async with self._turn:
            while view:
                if not self._poll.poll(0):
                    await _ready(self._fd, loop.add_writer, loop.remove_writer)
                try:
                    view = view[os.write(self._fd, view[: self._piece]) :]
                except BlockingIOError:
                    await _ready(self._fd, loop.add_writer, loop.remove_writer)


def _widened(fd: int) -> int:
    """Make room for a whole page of events, to wake a reader once; return the bytes that fit."""
    with suppress(AttributeError, OSError):  # only Linux has it, and a user may have no more left
        return fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _WIDE)
    return _CHUNK


class StdioReader:
    """The lines that are sound JSON-RPC; the others are answered here."""

    def __init__(
        self,
        fd: int,
        writer: StdioWriter,
        *,
        are_sound: bool = False,
        asked: Callable[[], None] = lambda: None,
    ) -> None:
        """Read lines from `fd`.

        Args:
            writer: Answers those that are not sound.
            are_sound: Whoever wrote the lines has looked at them already.
            asked: Is called when a line has come.
        """
        self._fd = fd
        self._asked = asked
        self._writer = writer
        self._are_sound = are_sound

    def __aiter__(self) -> AsyncIterator[str]:
        return self._lines()

    async def _lines(self) -> AsyncIterator[str]:
        async for raw in self._split():
            if not raw.strip():
                continue
            message = None if self._are_sound else jsonrpc.parse(raw)
            if isinstance(message, jsonrpc.Refusal):
                await self._writer.write(json.dumps(message.response()) + "\n")
                continue
            yield raw.decode()

    async def _split(self) -> AsyncIterator[bytes]:
        """Yield lines without their end; too long a one is kept up to a byte over the limit."""
        loop = asyncio.get_running_loop()
        splitter = Splitter(jsonrpc.MAX_BYTES + 1)
        while True:
            await _ready(self._fd, loop.add_reader, loop.remove_reader)
            chunk = os.read(self._fd, _CHUNK)
            for line in splitter.take(chunk):
                self._asked()
                yield line
            if not chunk:
                yield splitter.rest()
                return

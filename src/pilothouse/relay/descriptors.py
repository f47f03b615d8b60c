"""The ends of a relay's wires: descriptors that are read and written without waiting."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import stat
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 1 << 16
"""Bytes of one read at most: more is new memory each time, at ten times the cost of the read."""
WIDE = 1 << 20
CONGESTED = 1 << 20
"""Bytes that wait at an end, beyond which nothing more is read for it."""


class End:
    """A descriptor, and what waits to be written to it."""

    def __init__(self, fd: int, *, is_shared: bool = False) -> None:
        """Wrap a descriptor; `is_shared` leaves it blocking, as its other users expect."""
        self.fd = fd
        self.waiting = 0
        self._is_broken = False
        self._pieces: deque[memoryview] = deque()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        # A pipe or socket is ours alone, so it may be set not to block; a terminal is shared with
        # others, who do not expect that. There only as much is written as surely fits.
        self._piece = select.PIPE_BUF
        mode = os.fstat(fd).st_mode
        if not is_shared and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            os.set_blocking(fd, False)
            self._piece = WIDE
            widen(fd)

    @property
    def is_congested(self) -> bool:
        return self.waiting > CONGESTED

    def send(self, line: bytes) -> None:
        """Write a line, now as far as it goes. Raises OSError when nobody reads any more."""
        self.pass_on(memoryview(line + b"\n"))

    def pass_on(self, line: memoryview) -> None:
        """Write a line that has its end; what has to wait is copied, the rest never is."""
        if self._is_broken:
            raise BrokenPipeError
        self.waiting += len(line)
        if self._pieces:
            self._pieces.append(memoryview(bytes(line)))
            return
        self._pieces.append(line)
        self.flush()
        if self._pieces:
            self._pieces[0] = memoryview(bytes(self._pieces[0]))

    def flush(self) -> None:
        """Write what can be written. Raises OSError."""
        while self._pieces:
            first = self._pieces[0]
            if self._piece != WIDE and not self._poll.poll(0):
                return
            try:
                written = os.write(self.fd, first[: self._piece])
            except BlockingIOError:
                return
            except OSError:
                self._is_broken = True
                raise
            self.waiting -= written
            if written == len(first):
                self._pieces.popleft()
            else:
                self._pieces[0] = first[written:]


class LogEnd:
    """Standard error: log lines go there as far as somebody reads it, and hold up nothing.

    Those that do not fit are left out here; the hub's log has them all.
    """

    def __init__(self, fd: int) -> None:
        try:
            self._end: End | None = End(fd, is_shared=True)
        except OSError:  # it is closed
            self._end = None

    @property
    def waiting_fd(self) -> int | None:
        """The descriptor, while something waits to be written to it."""
        return self._end.fd if self._end is not None and self._end.waiting else None

    def write(self, line: bytes) -> None:
        """Write a line with its end, unless too much waits."""
        if self._end is not None and not self._end.is_congested:
            try:
                self._end.pass_on(memoryview(line))
            except OSError:
                self._end = None

    def flush(self) -> None:
        """Write what can be written."""
        if self._end is not None:
            try:
                self._end.flush()
            except OSError:
                self._end = None


class Inflow:
    """Whole lines out of a descriptor, from a buffer of its own: a large answer is not copied.

    New memory for each answer would cost more than all else that is done with it.
    """

    def __init__(self, fd: int, room: int = WIDE) -> None:
        self._fd = fd
        self._least = room
        self._room = bytearray(room)
        self._filled = 0

    def read(self) -> int | None:
        """Read once; return the number of bytes, 0 at the end, None when there is nothing yet."""
        if self._filled == len(self._room):
            self._resize(2 * self._filled)
        with memoryview(self._room) as room, room[self._filled :] as free:
            try:
                came = os.readv(self._fd, [free])
            except OSError as error:
                return _without_data(error)
        self._filled += came
        return came

    def lines(self) -> Iterator[memoryview]:
        """Yield each line that is whole now, with its end; it is valid until the next is taken."""
        start = 0
        while (end := self._room.find(b"\n", start, self._filled) + 1) > 0:
            with memoryview(self._room) as room, room[start:end] as line:
                yield line
            start = end
        if start:
            rest = self._filled - start
            self._room[:rest] = self._room[start : self._filled]
            self._filled = rest
            if len(self._room) > self._least >= rest:
                self._resize(self._least)

    def _resize(self, size: int) -> None:
        room = bytearray(size)
        room[: self._filled] = self._room[: self._filled]
        self._room = room


def read(fd: int) -> bytes | None:
    """Return what can be read; empty at the end, None when there is nothing yet."""
    try:
        return os.read(fd, CHUNK)
    except OSError as error:
        return None if _without_data(error) is None else b""


def _without_data(error: OSError) -> int | None:
    """Return what a failed read means, 0 the end and None nothing yet; raise any other error."""
    if isinstance(error, BlockingIOError):
        return None
    # A peer that was killed with something unread; a terminal that was closed.
    if error.errno in (errno.ECONNRESET, errno.EIO):
        return 0
    raise error


def widen(fd: int) -> None:
    """Make room in a pipe for a large answer, so that a reader is woken once."""
    with suppress(AttributeError, OSError):  # only Linux has it, and a user may have no more left
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, WIDE)


class UnixSocketEnd(End):
    """A connection to a unix socket."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        with suppress(OSError):
            link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WIDE)
        super().__init__(link.fileno())
        self._link = link
        self._writing_ends = False

    def end_writing(self) -> None:
        """End the stream to the other side, after what waits to be written."""
        self._writing_ends = True
        self._end_if_due()

    def flush(self) -> None:
        super().flush()
        self._end_if_due()

    def _end_if_due(self) -> None:
        if self._writing_ends and not self.waiting:
            with suppress(OSError):
                self._link.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._link.close()

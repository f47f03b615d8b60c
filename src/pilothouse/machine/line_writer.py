"""Writes lines of JSON to a stream that its reader may leave unread."""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import TextIO

MOST_WAIT_MS = 1_000
"""Milliseconds to wait for the reader of the lines: once, and then lines are only written when it
reads again, because the event loop waits with us."""


class LineWriter:
    """A writer of whole lines: whoever shares a pipe may set it not to block, as Node.js does, and
    Python then drops what does not fit at once.

    What was left unread for too long is not written, but counted: the next line that gets through
    has the number as `dropped`.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._rest = memoryview(b"")
        """Rest of a line of which the reader has taken only a part."""
        self._dropped = 0
        self._is_unread = False
        self._lock = threading.RLock()

    def write(self, line: str) -> None:
        """Write a JSON object and the end of its line, if somebody reads.

        Raises:
            OSError, ValueError: it cannot be written.
        """
        # The stream is looked up at each write: a transport may have moved stderr meanwhile.
        stream = self._stream or sys.stderr
        try:
            descriptor = stream.fileno()
        except (AttributeError, OSError, ValueError):  # a stream in memory
            stream.write(line + "\n")
            stream.flush()
            return
        try:
            stream.flush()
        except BlockingIOError:
            self._dropped += 1
            return
        with self._lock:
            self._write(descriptor, line)

    def _write(self, descriptor: int, line: str) -> None:
        if not self._finish(descriptor):
            self._dropped += 1
            return
        told = f'{line[:-1]}, "dropped": {self._dropped}}}' if self._dropped else line
        self._rest = whole = memoryview(f"{told}\n".encode())
        self._is_unread = not self._finish(descriptor)
        if len(self._rest) < len(whole):
            self._dropped = 0
        else:
            self._rest = whole[:0]
            self._dropped += 1

    def _finish(self, descriptor: int) -> bool:
        """Write what is left of a line; tell whether all of it was taken."""
        while self._rest:
            try:
                self._rest = self._rest[os.write(descriptor, self._rest) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                if self._is_unread or not poll.poll(MOST_WAIT_MS):
                    return False
        return True

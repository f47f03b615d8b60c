"""A file of JSON lines that only grows, until it is written anew.

What is appended is one write, so that whoever is killed leaves at most the last line torn, and that
is cut off when the file is opened to be written. It is not forced to the disk: it outlives the
process, not a power cut.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

type Line = dict[str, Any]


class JournalFile:
    """A file of lines for its user alone. All methods raise OSError where the disk refuses."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _opened(path)
        self.size = 0

    def close(self) -> None:
        # Whoever still writes must not write into a file that has the number after it.
        file, self._file = self._file, -1
        os.close(file)

    @property
    def is_current(self) -> bool:
        """Tell whether nobody else has written it, put another in its place or removed it."""
        with suppress(FileNotFoundError):
            found = os.stat(self.path)
            return (found.st_ino, found.st_size) == (os.fstat(self._file).st_ino, self.size)
        return False

    def read(self, *, alone: bool) -> Iterator[tuple[Line, int]]:
        """Yield every line that can be read, and its length.

        A torn one at the end is left out, and cut off if nobody else can be writing it right now.
        """
        with open(self.path, "rb") as file:
            data = file.read()
        self.size = data.rfind(b"\n") + 1
        if alone:
            os.ftruncate(self._file, self.size)
            os.utime(self._file)  # its age is that of its profile's last use
        for raw in data[: self.size].split(b"\n")[:-1]:
            with suppress(ValueError):
                yield _parsed(raw), len(raw) + 1

    def append(self, data: bytes) -> None:
        """Append all of the data, or nothing."""
        written = -1
        try:
            written = os.write(self._file, data)
        finally:
            if written != len(data):
                os.ftruncate(self._file, self.size)
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size += written

    def replace(self, data: Iterable[bytes]) -> None:
        """Put another content in its place; whoever is killed leaves the one or the other."""
        draft = self.path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        with open(_opened(draft), "wb") as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
        before, self._file = self._file, _opened(self.path)
        os.close(before)
        self.size = os.fstat(self._file).st_size


def to_line(line: Line) -> bytes:
    try:
        return orjson.dumps(line) + b"\n"
    except TypeError:  # halves of characters, which titles may hold, are no UTF-8
        return json.dumps(line).encode() + b"\n"


def _parsed(raw: bytes) -> Line:
    """Parse a JSON object. Raises ValueError for anything else."""
    try:
        line = orjson.loads(raw)
    except orjson.JSONDecodeError:
        line = json.loads(raw)
    if not isinstance(line, dict):
        raise ValueError("it is no object")
    return line


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(path, flags, 0o600)
    os.fchmod(file, 0o600)
    with suppress(OSError):  # as where the file system has no locks
        fcntl.flock(file, fcntl.LOCK_SH)  # no sweep removes it while it is open
    return file

"""A log of bounded size: when it is full, its older half makes room.

    app.stdout.log                  what is written now
    app.stdout.log.from-52428800    what came before it; the number is the place, in all that was
                                    ever written, of its first byte

So the name of the log stays, and a reader knows by the names alone where a place that it was given
is by now, or how much it has missed (reader.py).
"""

from __future__ import annotations

import logging
import os
import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LEAST_BYTES = 1 << 20
CHUNK = 65_536
"""Bytes that are written at once, or a little more."""
KINDS = ("stdout", "stderr", "combined")
"""Kinds of logs: each is named NAME.KIND.log."""
_ENDS = tuple(f".{kind}.log" for kind in KINDS)
_OLDER = re.compile(r"(?P<name>.+)\.from-(?P<place>\d{1,18})", re.ASCII)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC

log = logging.getLogger(__name__)


def older_name(name: str, place: int) -> str:
    """Return the name of the older half of a log, which begins at this place."""
    return f"{name}.from-{place}"


def place_of(name: str, found: str) -> int | None:
    """Return where the older half of a log begins; None if the file found is none of that log."""
    if not found.startswith(f"{name}.from-"):
        return None
    match = _OLDER.fullmatch(found)
    return int(match["place"]) if match and match["name"] == name else None


def older_places(name: str, folder: int) -> list[int]:
    """Return where the older halves of a log begin, in order; `folder` is an open descriptor.

    Only logs with names like those here, in a folder that is for us alone, have any: elsewhere
    others may put what they like beside a log, and the folder may be large.

    Raises:
        OSError: the folder cannot be read.
    """
    about = os.fstat(folder)
    if not name.endswith(_ENDS) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        return []
    places = ((place_of(name, found), found) for found in os.listdir(folder))
    return sorted(
        place for place, found in places if place is not None and _is_written_here(found, folder)
    )


def _is_written_here(name: str, folder: int) -> bool:
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    is_own = about.st_uid == os.geteuid() and about.st_nlink == 1
    return is_own and stat.S_ISREG(about.st_mode)


class LogFile:
    """The only writer of a log. A disk that is full costs lines, never the server that writes."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        """Create the log. Raises OSError: it cannot be made, or is there already."""
        self._path = path
        self._half = max(most_bytes, LEAST_BYTES) // 2 - 2 * CHUNK
        self._file = os.open(path, _NEW, 0o600)
        self._place = 0
        """Place of the first byte of the file that is written now."""
        self._size = 0
        self._older: Path | None = None
        self._spare: Path | None = None
        """Older half that has made room, but could not be removed."""
        self._is_stuck = False
        """True while it could not go on in another file when it had to."""
        self._ends_line = True
        self._left_out = 0
        self._why = ""

    def write(self, data: bytes) -> None:
        """Append data; what cannot be written is counted, and noted in the log once it can be."""
        if self._file < 0 or not data:
            return
        begin = -1
        try:
            cut = 0
            if self._size + len(data) > self._half:
                # Made before the log is written: one that gets no new file must not grow for it.
                file, fresh = self._fresh()
                # Nor may one whose file cannot be renamed grow each time that it is tried.
                cut = 0 if self._left_out or self._is_stuck else data.rfind(b"\n") + 1
                begin = self._end
                self._is_stuck = True
                try:
                    self._append(data[:cut])
                    self._make_way(fresh)
                except OSError:
                    os.close(file)
                    with suppress(OSError):
                        fresh.unlink()
                    raise
                self._go_on_in(file)
                self._is_stuck = False
            if self._left_out:
                gap = f"… {self._left_out} bytes are missing here: {self._why}\n"
                self._append((gap if self._ends_line else f"\n{gap}").encode())
                self._left_out = 0
            begin = begin if cut else self._end
            self._append(data[cut:])
        except OSError as error:
            if not self._left_out:
                log.warning("a server's log cannot be written: %s: %s", self._path, error)
            self._left_out += len(data) - (0 if begin < 0 else self._end - begin)
            self._why = error.strerror or type(error).__name__

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def _end(self) -> int:
        return self._place + self._size

    def _append(self, data: bytes) -> None:
        """Write data to the file. Raises OSError, after as much as there was room for."""
        left = memoryview(data)
        while left:
            done = os.write(self._file, left)
            self._size += done
            self._ends_line = left[done - 1] == ord("\n")
            left = left[done:]

    def _fresh(self) -> tuple[int, Path]:
        """Make the next file. Raises OSError."""
        path = self._path.with_name(f".{self._path.name}.new")
        path.unlink(missing_ok=True)
        return os.open(path, _NEW, 0o600), path

    def _make_way(self, fresh: Path) -> None:
        """Give the next file the name of the log. Raises OSError: nothing has changed."""
        if self._spare is not None:
            self._spare.unlink(missing_ok=True)
            self._spare = None
        older = self._path.with_name(older_name(self._path.name, self._place))
        with suppress(FileNotFoundError):  # somebody has removed it by hand
            self._path.rename(older)
        try:
            fresh.rename(self._path)
        except OSError:
            with suppress(OSError):
                older.rename(self._path)
            raise
        self._spare, self._older = self._older, older

    def _go_on_in(self, file: int) -> None:
        os.close(self._file)
        self._file = file
        self._place, self._size = self._end, 0
        if self._spare is not None:
            with suppress(OSError):  # it is tried again
                self._spare.unlink(missing_ok=True)
                self._spare = None

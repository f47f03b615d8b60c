"""Reading the end of a server's log: quick at any size, and only below the folders allowed.

The path may come from a command that an agent chose, and the files next to it may be the app's
own. So every component below the allowed folder is opened by itself without following links, and
what counts is judged on the open descriptor: nothing can be swapped between a check and a read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.e2e.model import LogFileNotFound, LogReadFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LINES = 10_000
MAX_ANSWER = 500_000
"""Bytes of all lines of one answer."""
MAX_LINE = 16_384
"""Bytes of one line; what is longer is cut."""
MAX_SCAN = 32_000_000
"""Bytes looked through for the beginnings of lines."""
_BLOCK = 65_536

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    r"|[@-Z\\^_=>c78])"
)

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO waits for a writer that may never come.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of a log."""

    text: str
    lines: int
    truncated: bool
    """Something of the lines asked for is missing: a long line was cut, or the answer was full."""
    size: int
    """Bytes of the whole file."""
    start: int
    """Where the first of these lines begins; 0 means that nothing came before it."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What came after an offset."""

    text: str
    offset: int
    """To be handed in next time."""
    missed: int = 0
    """Bytes left out because more was appended than one answer holds."""
    restarted: bool = False
    """The file is shorter than the offset, so it was cut or replaced: this is its beginning."""


def without_escapes(text: str) -> str:
    """Text as a terminal shows it, without colours and cursor moves."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def sizes(paths: Iterable[Path]) -> dict[str, int]:
    """Return the bytes of each of the files that is there."""
    found = {}
    for path in paths:
        with suppress(OSError, ValueError):
            found[str(path)] = path.stat().st_size
    return found


def tail(path: Path, lines: int, *, within: tuple[Path, ...]) -> Tail:
    """The last lines of a file that lies below one of the folders.

    Raises:
        LogFileNotFound: there is no such file.
        LogReadFailed: it is not a plain file of our own below the folders, or cannot be read.
    """
    with _opened(path, within) as (descriptor, size):
        starts, whole = _line_starts(descriptor, size, min(lines, MAX_LINES))
        ends = [*starts, size][1:]
        kept: list[str] = []
        room = MAX_ANSWER
        cut = not whole or (lines > MAX_LINES == len(starts) and starts[0] > 0)
        for start, end in zip(reversed(starts), reversed(ends), strict=True):
            line, was_cut = _line(descriptor, start, end)
            room -= min(end - start, MAX_LINE) + 1
            if room < 0:
                cut = True
                break
            kept.append(line)
            cut = cut or was_cut
        text = "\n".join(reversed(kept))
        first = starts[len(starts) - len(kept)] if kept else size
        return Tail(text, len(kept), cut, size, first)


def since(
    path: Path, offset: int, *, within: tuple[Path, ...], limit: int = MAX_ANSWER
) -> Appended:
    """What was appended after an offset; of more than `limit` bytes, the newest.

    Raises:
        LogFileNotFound: there is no such file.
        LogReadFailed: it is not a plain file of our own below the folders, or cannot be read.
    """
    with _opened(path, within) as (descriptor, size):
        restarted = not 0 <= offset <= size
        begin = 0 if restarted else offset
        start = max(begin, size - limit)
        raw = _read(descriptor, start, size - start)
        whole = len(raw) - _half_character(raw)
        text = without_escapes(raw[:whole].decode("utf-8", "replace"))
        return Appended(text, start + whole, start - begin, restarted)


@contextmanager
def _opened(path: Path, within: tuple[Path, ...]) -> Iterator[tuple[int, int]]:
    """The descriptor and the size of a plain file below one of the folders."""
    folder, parts = _below(path, within)
    try:
        descriptor = _open(folder, parts)
    except OSError as error:
        raise _fault(path, error) from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise _refused(path, "it is not a regular file")
        # A second name may lie anywhere: a hard link shows a file from outside the folder.
        if facts.st_nlink > 1:
            raise _refused(path, f"the file has {facts.st_nlink} names (hard links)")
        yield descriptor, facts.st_size
    except OSError as error:
        raise _fault(path, error) from None
    finally:
        os.close(descriptor)


def _below(path: Path, within: tuple[Path, ...]) -> tuple[Path, tuple[str, ...]]:
    """The allowed folder that a path lies in, and the components below it."""
    if "\0" in str(path):
        raise _refused(path, "the path holds a NUL character")
    if not path.is_absolute():
        raise _refused(path, "the path is relative")
    if ".." in path.parts:
        raise _refused(path, "the path holds ..")
    for folder in within:
        # A temp folder is often itself behind a link (/tmp on macOS): both spellings are its name.
        for name in dict.fromkeys((folder, Path(os.path.realpath(folder)))):
            if path.is_relative_to(name) and path != name:
                return folder, path.relative_to(name).parts
    allowed = ", ".join(map(str, within)) or "none"
    raise _refused(path, f"it lies outside the folders of this session ({allowed})")


def _open(folder: Path, parts: tuple[str, ...]) -> int:
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            deeper = os.open(part, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = deeper
        return os.open(parts[-1], _FILE, dir_fd=here)
    finally:
        os.close(here)


def _line_starts(descriptor: int, size: int, lines: int) -> tuple[list[int], bool]:
    """Where the last lines begin, oldest first, and whether the search came to its end."""
    if lines <= 0 or size == 0:
        return [], True
    starts: list[int] = []
    # The newline at the very end closes the last line; it does not begin another one.
    position = size - 1
    floor = max(0, size - MAX_SCAN)
    while position > floor:
        begin = max(floor, position - _BLOCK)
        block = _read(descriptor, begin, position - begin)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            starts.append(begin + at + 1)
            if len(starts) == lines:
                return starts[::-1], True
        position = begin
    if floor == 0:
        starts.append(0)
    elif not starts:
        starts.append(size - MAX_LINE)  # one endless line: its end says more than nothing
    return starts[::-1], floor == 0


def _line(descriptor: int, start: int, end: int) -> tuple[str, bool]:
    raw = _read(descriptor, start, min(end - start, MAX_LINE))
    text = without_escapes(raw.rstrip(b"\r\n").decode("utf-8", "replace"))
    left_out = end - start - MAX_LINE
    if left_out <= 0:
        return text, False
    return f"{text} … ({left_out} more bytes)", True


def _read(descriptor: int, start: int, length: int) -> bytes:
    """What is there of a range; less where the file was cut meanwhile."""
    pieces = []
    while length > 0 and (piece := os.pread(descriptor, length, start)):
        pieces.append(piece)
        start += len(piece)
        length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _half_character(raw: bytes) -> int:
    """Bytes at the end that begin a UTF-8 character whose rest is not written yet."""
    for back in range(1, min(4, len(raw) + 1)):
        byte = raw[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < needed else 0
        if byte < 0x80:
            return 0
    return 0


def _fault(path: Path, error: OSError) -> LogFileNotFound | LogReadFailed:
    if error.errno == errno.ENOENT:
        return LogFileNotFound(
            f"There is no log at {path}.",
            hint="readServerLogs without logType reads the combined log;"
            " getSessionStatus says whether the server runs.",
            path=str(path),
        )
    # A link is ELOOP where a file was expected, ENOTDIR where a folder was.
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return _refused(path, "a part of the path is a symbolic link or no folder")
    return _refused(path, os.strerror(error.errno or errno.EIO))


def _refused(path: Path, reason: str) -> LogReadFailed:
    shown = str(path).replace("\0", "\\0")
    return LogReadFailed(
        f"The log {shown} is not read: {reason}.",
        hint="Logs are plain files in the temp folder, the session's folder or its cwd.",
        path=shown,
        reason=reason,
    )

"""Reads the end of a server's log: quick at any size, and only below the folders allowed.

The path may come from a command that an agent chose, and the files next to it may be the app's
own. So every component below the allowed folder is opened by itself without following links, and
what counts is judged on the open descriptor: nothing can be swapped between a check and a read.

A log that we write ourselves may lie in two files (file.py). Places in it are those in all that
was ever written, so that they stay true when it goes on in another file.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.e2e.app_server.logs.file import older_name, older_places
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
TRIES = 50
"""Attempts to open a log that goes on in another file meanwhile."""
_BLOCK = 65_536

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    r"|[@-Z\\^_=>c78])"
)

_LINE_ENDS = re.compile(rb"(?<=\n)")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO waits for a writer that may never come.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of a log."""

    text: str
    lines: int
    truncated: bool
    """True if something of the lines asked for is missing: a long line was cut, the answer was
    full, or what came before has made room."""
    size: int
    """Bytes of the whole log, with what has made room."""
    start: int
    """Place where the first of these lines begins; 0 means that nothing came before it."""


@dataclass(frozen=True, slots=True)
class Onward:
    """The lines that follow a place."""

    text: str
    next: int
    """Place from which to go on."""
    size: int
    """Bytes of the whole log, with what has made room."""
    missed: int
    """Bytes between the place and the first of these lines, which had made room."""
    truncated: bool
    """True if a long line was cut, or more lines follow."""
    restarted: bool
    """True if the log is shorter than the place: it was cut or replaced; this is its beginning."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The data that came after an offset."""

    text: str
    offset: int
    """Offset to be handed in next time."""
    missed: int = 0
    """Bytes left out: more was appended than one answer holds, or some had made room."""
    restarted: bool = False
    """True if the file, shorter than the offset, was cut or replaced: this is its beginning."""


def without_escapes(text: str) -> str:
    """Return text as a terminal shows it, without colours and cursor moves."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def sizes(paths: Iterable[Path]) -> dict[str, int]:
    """Return the bytes of each of the files that is there."""
    found = {}
    for path in paths:
        with suppress(OSError, ValueError):
            size = path.stat().st_size
            if older := _older_in(path):
                size += older[-1] + path.with_name(older_name(path.name, older[-1])).stat().st_size
            found[str(path)] = size
    return found


def _older_in(path: Path) -> list[int]:
    here = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return older_places(path.name, here)
    finally:
        os.close(here)


def tail(path: Path, lines: int, *, within: tuple[Path, ...]) -> Tail:
    """Return the last lines of a file that lies below one of the folders.

    Raises:
        LogFileNotFound: there is no such file.
        LogReadFailed: it is not a plain file of our own below the folders, or cannot be read.
    """
    with _opened(path, within) as log:
        starts, whole = _line_starts(log, min(lines, MAX_LINES))
        ends = [*starts, log.end][1:]
        kept: list[str] = []
        room = MAX_ANSWER
        cut = not whole or (lines > MAX_LINES == len(starts) and starts[0] > 0)
        # Lines are missing, too, if what came before has made room.
        cut = cut or (0 < len(starts) < lines and 0 < log.start == starts[0])
        for start, end in zip(reversed(starts), reversed(ends), strict=True):
            line, was_cut = _line(log, start, end)
            room -= min(end - start, MAX_LINE) + 1
            if room < 0:
                cut = True
                break
            kept.append(line)
            cut = cut or was_cut
        text = "\n".join(reversed(kept))
        first = starts[len(starts) - len(kept)] if kept else log.end
        return Tail(text, len(kept), cut, log.end, first)


def onward(path: Path, place: int, lines: int, *, within: tuple[Path, ...]) -> Onward:
    """Return the lines that follow a place, oldest first.

    Raises:
        LogFileNotFound: there is no such file.
        LogReadFailed: it is not a plain file of our own below the folders, or cannot be read.
    """
    with _opened(path, within) as log:
        restarted = place > log.end
        begin = log.start if restarted else max(place, log.start)
        raw = log.read(begin, min(log.end - begin, MAX_ANSWER))
        is_more = begin + len(raw) < log.end
        # A line that is still being written is shown only when it is all that there is.
        raw = raw[: raw.rfind(b"\n") + 1 or len(raw) - _half_character(raw)]
        pieces = [piece for piece in _LINE_ENDS.split(raw) if piece]
        told = [_shown(piece, len(piece)) for piece in pieces[:lines]]
        after = begin + sum(map(len, pieces[:lines]))
        return Onward(
            "\n".join(text for text, _ in told),
            after,
            log.end,
            0 if restarted else begin - place,
            is_more or len(pieces) > lines or any(was_cut for _, was_cut in told),
            restarted,
        )


def since(
    path: Path, offset: int, *, within: tuple[Path, ...], limit: int = MAX_ANSWER
) -> Appended:
    """Return what was appended after an offset; of more than `limit` bytes, the newest.

    Raises:
        LogFileNotFound: there is no such file.
        LogReadFailed: it is not a plain file of our own below the folders, or cannot be read.
    """
    with _opened(path, within) as log:
        restarted = not 0 <= offset <= log.end
        begin = log.start if restarted else offset
        start = max(begin, log.start, log.end - limit)
        raw = log.read(start, log.end - start)
        whole = len(raw) - _half_character(raw)
        text = without_escapes(raw[:whole].decode("utf-8", "replace"))
        return Appended(text, start + whole, start - begin, restarted)


class _Log:
    """The open files of a log, one after the other."""

    def __init__(self, files: list[tuple[int, int, int]]) -> None:
        """Take the files, each as a descriptor, the place where it begins, and its size."""
        self._files = files
        self.start = files[0][1]
        self.end = files[-1][1] + files[-1][2]

    def read(self, start: int, length: int) -> bytes:
        """Return what is there of a range; less where a file was cut meanwhile."""
        pieces = []
        for descriptor, begin, size in self._files:
            first, last = max(start, begin), min(start + length, begin + size)
            if first < last:
                pieces.append(_read(descriptor, first - begin, last - first))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@contextmanager
def _opened(path: Path, within: tuple[Path, ...]) -> Iterator[_Log]:
    """Open the log at a path below one of the folders, with its older half, for the block."""
    folder, parts = _below(path, within)
    try:
        with ExitStack() as stack:
            here = _open_folder(folder, parts[:-1])
            stack.callback(os.close, here)
            yield _open_log(path, here, stack)
    except OSError as error:
        raise _fault(path, error) from None


def _open_log(path: Path, here: int, stack: ExitStack) -> _Log:
    """Open the files of a log. Raises OSError, LogReadFailed."""
    for left in reversed(range(TRIES)):
        with ExitStack() as trying:
            older = older_places(path.name, here)
            files: list[tuple[int, int, int]] = []
            try:
                for place in older:
                    half = _open_file(path, older_name(path.name, place), here, trying)
                    files.append((half[0], place, half[1]))
                with suppress(FileNotFoundError) if files else nullcontext():
                    file = _open_file(path, path.name, here, trying)
                    end = files[-1][1] + files[-1][2] if files else 0
                    files.append((file[0], end, file[1]))
            except FileNotFoundError:
                if not left or older == older_places(path.name, here):
                    raise
                continue
            # Else it went on in another file while we opened these.
            if not left or older == older_places(path.name, here):
                stack.enter_context(trying.pop_all())
                return _Log(files)
    raise AssertionError("the last try returns or raises")


def _open_file(path: Path, name: str, here: int, stack: ExitStack) -> tuple[int, int]:
    """Open a plain file; return its descriptor and size. Raises OSError, LogReadFailed."""
    descriptor = os.open(name, _FILE, dir_fd=here)
    stack.callback(os.close, descriptor)
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise _refused(path, "it is not a regular file")
    # A second name may lie anywhere: a hard link shows a file from outside the folder.
    if facts.st_nlink > 1:
        raise _refused(path, f"the file has {facts.st_nlink} names (hard links)")
    return descriptor, facts.st_size


def _below(path: Path, within: tuple[Path, ...]) -> tuple[Path, tuple[str, ...]]:
    """Return the allowed folder that a path lies in, and the components below it."""
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


def _open_folder(folder: Path, parts: tuple[str, ...]) -> int:
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        try:
            deeper = os.open(part, _DIRECTORY, dir_fd=here)
        finally:
            os.close(here)
        here = deeper
    return here


def _line_starts(log: _Log, lines: int) -> tuple[list[int], bool]:
    """Return where the last lines begin, oldest first, and whether the search came to its end."""
    if lines <= 0 or log.start == log.end:
        return [], True
    starts: list[int] = []
    # The newline at the very end closes the last line; it does not begin another one.
    position = log.end - 1
    floor = max(log.start, log.end - MAX_SCAN)
    while position > floor:
        begin = max(floor, position - _BLOCK)
        block = log.read(begin, position - begin)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            starts.append(begin + at + 1)
            if len(starts) == lines:
                return starts[::-1], True
        position = begin
    if floor == log.start:
        starts.append(floor)
    elif not starts:
        starts.append(log.end - MAX_LINE)  # one endless line: its end says more than nothing
    return starts[::-1], floor == log.start


def _line(log: _Log, start: int, end: int) -> tuple[str, bool]:
    return _shown(log.read(start, min(end - start, MAX_LINE)), end - start)


def _shown(raw: bytes, length: int) -> tuple[str, bool]:
    """Return a line as it is shown, of which `raw` is the beginning, and whether it was cut."""
    text = without_escapes(raw[:MAX_LINE].rstrip(b"\r\n").decode("utf-8", "replace"))
    left_out = length - MAX_LINE
    if left_out <= 0:
        return text, False
    return f"{text} … ({left_out} more bytes)", True


def _read(descriptor: int, start: int, length: int) -> bytes:
    """Return what is there of a range; less where the file was cut meanwhile."""
    pieces = []
    while length > 0 and (piece := os.pread(descriptor, length, start)):
        pieces.append(piece)
        start += len(piece)
        length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _half_character(raw: bytes) -> int:
    """Count the bytes at the end that begin a UTF-8 character whose rest is not written yet."""
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

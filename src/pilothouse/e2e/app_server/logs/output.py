"""What a server writes: kept in private files as it came, handed on line by line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pilothouse.e2e.app_server.logs.file import CHUNK, KINDS, LogFile
from pilothouse.e2e.app_server.logs.reader import without_escapes
from pilothouse.e2e.model import LogPaths, ServerStartFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pilothouse.machine.spawn import OutputReader

type OnLine = Callable[[Literal["stdout", "stderr"], str], None]

MAX_LINE = 16_384
"""Bytes of a line that are handed on."""
MAX_APPENDED = 10_000_000
"""Bytes kept of a command that only has to say how its server was started."""
MOST_BYTES = 100 << 20
"""Most bytes of one log, unless the settings say otherwise."""


def _nobody(*_: object) -> None:
    pass


def open_output(
    folder: Path, name: str, on_line: OnLine = _nobody, most_bytes: int = MOST_BYTES
) -> Output:
    """Make the log files of a server in a private folder.

    Raises:
        ServerStartFailed: they cannot be made.
    """
    try:
        return Output(folder, name, on_line, most_bytes)
    except OSError as error:
        reason = f"no log can be written in {folder}: {error.strerror}"
        raise ServerStartFailed(f"The server was not started: {reason}.", reason=reason) from None


class LineCutter:
    """Cuts bytes into lines of bounded length, wherever the pieces break."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._left_out = 0

    def feed(self, piece: bytes) -> list[str]:
        """Return the lines that this piece completes."""
        *ended, rest = piece.split(b"\n")
        complete = []
        for part in ended:
            self._append(part)
            complete.append(self._take())
        self._append(rest)
        return complete

    def finish(self) -> list[str]:
        """Return the last line, where it had no end."""
        return [self._take()] if self._line else []

    def _append(self, part: bytes) -> None:
        room = MAX_LINE - len(self._line)
        self._line += part[:room]
        self._left_out += max(0, len(part) - room)

    def _take(self) -> str:
        text = without_escapes(self._line.decode("utf-8", "replace")).rstrip("\r")
        # A carriage return draws over what stood there: progress bars leave their last state.
        shown = text.rpartition("\r")[2]
        if self._left_out:
            shown += f" … ({self._left_out} more bytes)"
        self._line.clear()
        self._left_out = 0
        return shown


class Output:
    """The log files of one server, which go on when it is started again."""

    def __init__(
        self, folder: Path, name: str, on_line: OnLine, most_bytes: int = MOST_BYTES
    ) -> None:
        """Create the log files. Raises OSError: one cannot be made, or is there already."""
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", name) or "server"
        self._on_line = on_line
        self._files: dict[str, LogFile] = {}
        self._appended = 0
        self.folder = folder
        paths = {kind: folder / f"{stem}.{kind}.log" for kind in KINDS}
        try:
            for kind, path in paths.items():
                self._files[kind] = LogFile(path, most_bytes)
        except OSError:
            self.close()
            raise
        self.paths = LogPaths(**{kind: str(path) for kind, path in paths.items()})

    async def copy(
        self,
        kind: Literal["stdout", "stderr"],
        stream: OutputReader,
        also: Callable[[str], None],
    ) -> None:
        """Copy a stream until its end; `also` is called with each line as well."""

        def receive(complete: list[str]) -> None:
            for line in complete:
                also(line)
                self._on_line(kind, line)

        lines = LineCutter()
        unfinished = b""
        while piece := await stream.read(CHUNK):
            # At once, so that a question without a newline at its end can be read as well.
            self._write(kind, piece)
            # Only whole lines, so that two streams do not break each other's.
            whole, newline, rest = (unfinished + piece).rpartition(b"\n")
            if len(rest) > MAX_LINE:
                whole, newline, rest = whole + newline + rest, b"", b""
            self._write("combined", whole + newline)
            unfinished = rest
            receive(lines.feed(piece))
        self._write("combined", unfinished + b"\n" if unfinished else b"")
        receive(lines.finish())

    def append(self, kind: Literal["stdout", "stderr"], piece: bytes) -> None:
        """Keep what a command wrote, as far as there is room for it."""
        room = max(0, MAX_APPENDED - self._appended)
        self._appended += len(piece)
        self._write(kind, piece[:room])
        self._write("combined", piece[:room])

    def _write(self, kind: str, data: bytes) -> None:
        if kind in self._files:
            self._files[kind].write(data)

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

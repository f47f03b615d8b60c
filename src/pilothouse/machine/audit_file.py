"""Who changed what, in a file: it outlives the process that was asked to change it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KEPT = 2_000
"""Number of entries kept; there may be twice as many before the older half goes."""


class AuditFile:
    """A file with a JSON line for each entry, oldest first. A full disk costs entries, no calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = 0

    def read(self) -> list[tuple[float, str]]:
        """Return times and messages, oldest first, without a line that a crash cut short."""
        try:
            lines = self._path.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
        self._lines = len(lines)
        found = []
        for line in lines[-KEPT:]:
            with suppress(ValueError, TypeError, KeyError):
                told = json.loads(line)
                found.append((float(told["at"]), str(told["message"])))
        return found

    def last(self, begin: str) -> str:
        """Return the rest of the newest message that begins so; empty without one."""
        try:
            lines = self._path.read_text("utf-8", "replace").splitlines()
        except OSError:
            return ""
        mark = json.dumps(begin)[1:-1]
        for line in reversed(lines):
            if mark not in line:  # as it costs a hundredth of reading JSON
                continue
            with suppress(ValueError, TypeError, KeyError):
                message = str(json.loads(line)["message"])
                if message.startswith(begin):
                    return message.removeprefix(begin)
        return ""

    def add(self, at: float, message: str) -> None:
        with suppress(OSError):
            if self._lines >= 2 * KEPT:
                self._shorten()
            self._write(self._path, os.O_APPEND, [(at, message)])
            self._lines += 1

    def _shorten(self) -> None:
        kept = self.read()
        new = self._path.with_suffix(".new")
        self._write(new, os.O_TRUNC, kept)
        new.replace(self._path)
        self._lines = len(kept)

    def _write(self, path: Path, how: int, entries: list[tuple[float, str]]) -> None:
        lines = [json.dumps({"at": at, "message": message}) + "\n" for at, message in entries]
        file = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        with os.fdopen(file, "wb") as writer:
            writer.write("".join(lines).encode())

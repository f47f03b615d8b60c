"""The thread that carries what is committed from SQLite's log into the file, beside the writer.

Left to the writer, that happens in whichever commit makes the log too long: that one then waits
for the disk, and so do the packets behind it.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

EVERY_S = 1.0
ATTEMPTS = 5
"""Attempts at a time: the log begins anew only after a moment in which all was carried over."""


class LogCarrier:
    """Thread that works from when it is made until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history-log", daemon=True)
        self._thread.start()

    def notice(self) -> None:
        """Note that something was committed."""
        if not self._written.is_set():
            self._written.set()

    def close(self) -> None:
        """Stop, and return when nothing of it holds the file any more."""
        self._stop.set()
        self._written.set()
        self._thread.join()

    def _run(self) -> None:
        # Whatever the fault, the writer meets it too and says so.
        with suppress(sqlite3.Error), closing(self._connected()) as connection:
            while not self._stop.is_set():
                self._written.wait()
                self._stop.wait(EVERY_S)
                self._written.clear()
                if not self._stop.is_set():
                    _carry_over(connection)

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None)


def _carry_over(connection: sqlite3.Connection) -> None:
    # A disk that is full or slow now may not be so the next time.
    with suppress(sqlite3.OperationalError):
        for _ in range(ATTEMPTS):
            found = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            _, in_log, carried = found
            if carried >= in_log:
                return

"""Crashes that a reloader outlives, found in a server's output. Pure.

A reloader stays alive and waits for an edit when the server below it has crashed: no process ends,
and nothing will ever answer. Only words that say so count: a traceback by itself may be one that
the server logged and survived.
"""

from __future__ import annotations

import re

# Django's reloader runs the server in a thread of this name, uvicorn's in a process.
_SERVER_DIED = re.compile(
    r"^(?:Exception in thread django-main-thread\b.*|Process SpawnProcess-\d+):"
)
_WAITS = re.compile(
    r"^\[nodemon\] app crashed\b.*|^Failed running .*|.*\bwaiting for (?:file )?changes before"
    r" (?:restart|starting).*",
    re.IGNORECASE,
)
_CHAINED = ("Traceback (most recent call last)", "During handling of", "The above exception")


class CrashFinder:
    """Reads the output of a server line by line until it tells of a crash."""

    def __init__(self) -> None:
        self.error = ""
        """The exception, or the reloader's own words; empty while there was no crash."""
        self._in_traceback = False

    def feed(self, line: str) -> bool:
        """Tell whether this line is the (next) one that names a crash."""
        if _SERVER_DIED.match(line):
            self._in_traceback = True
            return False
        if self._in_traceback:
            if not line.strip() or line[0].isspace() or line.startswith(_CHAINED):
                return False
            self.error = line.strip()
            return True
        if not self.error and _WAITS.match(line):
            self.error = line.strip()
            return True
        return False

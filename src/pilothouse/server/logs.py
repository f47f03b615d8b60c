"""Structured logs on stderr: one JSON object a line, redacted, never on stdout."""

from __future__ import annotations

import json
import logging
import os
import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.timeline.clock import iso
from pilothouse.machine.line_writer import LineWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LEVELS: Mapping[str, int] = {"debug": 10, "info": 20, "warn": 30, "error": 40}
SEVERITIES = {"debug": "DEBUG", "info": "INFO", "warn": "WARNING", "error": "ERROR"}
"""The names by which Cloud Logging knows the levels."""
_ENCODER = json.JSONEncoder(default=repr, allow_nan=False)


class Log:
    """A writer of the events of one component."""

    def __init__(
        self,
        component: str,
        level: str = "info",
        redactor: Redactor | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self.component = component
        self._level = level
        self._least = LEVELS[level]
        self._redactor = redactor or Redactor()
        self._lines = LineWriter(stream)
        self._listeners: list[Callable[[str], None]] = []

    def of(self, component: str) -> Log:
        """Return the same log for another component."""
        log = Log(component, self._level, self._redactor)
        log._lines = self._lines
        log._listeners = self._listeners
        return log

    @contextmanager
    def copied_to(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Hand each line to a listener, too, until the block ends."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def debug(self, event: str, **details: Any) -> None:
        self.write("debug", event, details)

    def info(self, event: str, **details: Any) -> None:
        self.write("info", event, details)

    def warn(self, event: str, **details: Any) -> None:
        self.write("warn", event, details)

    def error(self, event: str, error: BaseException | None = None, **details: Any) -> None:
        if error is not None:
            details["error"] = f"{type(error).__name__}: {error}"
            details["traceback"] = "".join(traceback.format_exception(error))
        self.write("error", event, details)

    def write(
        self, level: str, event: str, details: dict[str, Any], *, is_ours: bool = False
    ) -> None:
        """Write one line; details that are all our own words are not searched for secrets, which
        would cost more than the line."""
        if LEVELS[level] < self._least:
            return
        line: dict[str, Any] = {
            "timestamp": iso(time.time() * 1000),
            "level": level,
            "severity": SEVERITIES[level],
            "component": self.component,
            "event": event,
            # Workers of many agents write to one log; `pilothouse status` names theirs.
            "pid": os.getpid(),
        }
        session = details.pop("sessionId", None)
        if session is not None:
            line["sessionId"] = session
        if details:
            line["details"] = details if is_ours else self._redactor.value(details)
        try:
            text = _ENCODER.encode(line)
        except (TypeError, ValueError):  # a key that is no text, or a number that JSON lacks
            text = json.dumps({**line, "details": repr(line.get("details"))})
        try:
            self._lines.write(text)
        except (OSError, ValueError):
            pass  # a log that nobody can read must not fail the call that it reports
        for listener in tuple(self._listeners):
            listener(text)


class LibraryLogs(logging.Handler):
    """A handler that brings what is logged through `logging` into the same form.

    Our own groups, which know no `Log`, give the event as the message and `details` beside it.
    """

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = max(
            (n for n in LEVELS if LEVELS[n] <= record.levelno),
            key=LEVELS.__getitem__,
            default="debug",
        )
        try:
            message = record.getMessage()
        except Exception:  # the library's own format and arguments do not fit
            message = str(record.msg)
        if (ours := getattr(record, "details", None)) is not None:
            self._log.of(record.name).write(level, message, dict(ours))
            return
        details: dict[str, Any] = {"message": message}
        if record.exc_info and record.exc_info[1] is not None:
            details["traceback"] = "".join(traceback.format_exception(record.exc_info[1]))
        self._log.of(record.name).write(level, "library", details)


def adopt_library_logs(log: Log, level: str) -> None:
    """Route the standard library's logging here. Libraries are quieter than we are."""
    root = logging.getLogger()
    root.handlers[:] = [LibraryLogs(log)]
    root.setLevel(LEVELS[level] if level in ("debug", "error") else logging.WARNING)

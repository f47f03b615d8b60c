"""Ends of sessions that are over: reported to late calls, which may name one or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.core.timeline.clock import iso
from pilothouse.e2e.app_server.logs.output import open_output
from pilothouse.e2e.model import (
    BrowserCrashed,
    LogPaths,
    Past,
    ServerStartFailed,
    SessionNotFound,
    browser_crashed,
)
from pilothouse.e2e.session import CRASH

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.e2e.model import EndReason
    from pilothouse.e2e.session import E2eSession

REMEMBERED = 200
"""Limit of sessions whose end is still reported."""
PAST_KEPT = 20
"""Limit of sessions whose failed steps can still be looked at."""

type FailedLogs = tuple[Mapping[str, LogPaths], tuple[Path, ...]]
"""Logs by the names of their servers, and the folders in which they may lie."""


@dataclass(frozen=True, slots=True)
class _End:
    reason: EndReason
    at: float
    note: str
    logs: FailedLogs = field(default=({}, ()))
    """Logs of a start that failed."""

    def fault(self, session_id: str, ended: str) -> SessionNotFound | BrowserCrashed:
        at = iso(self.at)
        if self.note == CRASH:
            return browser_crashed(session_id, endedAt=at)
        return SessionNotFound(
            f"{ended} ({self.note or self.reason}). Please call startSession first.",
            hint="call startSession, then pass the sessionId that it gives",
            sessionId=session_id,
            reason=self.reason,
            endedAt=at,
        )


class EndedSessions:
    """Remembers how the last sessions of an agent ended."""

    def __init__(self, why_swept: Callable[[str], str]) -> None:
        self._why_swept = why_swept
        self._ends: dict[str, _End] = {}
        self.past: list[Past] = []
        """Sessions that had failed steps, the newest at the end."""

    def add(self, session: E2eSession, now: float) -> None:
        """Remember a session that ends now."""
        assert session.ended is not None
        self._ends[session.id] = _End(session.ended, now, session.end_note)
        while len(self._ends) > REMEMBERED:
            del self._ends[next(iter(self._ends))]
        if failed := session.failed_steps:
            past = Past(
                session.id,
                session.url,
                session.folder,
                session.started_at,
                now,
                failed,
                session.files,
            )
            self.past = [*self.past[1 - PAST_KEPT :], past]

    def add_failed_start(self, session: E2eSession, failed: ServerStartFailed) -> None:
        """Name the session in the fault of its start, so that its logs can be asked for."""
        name = str(failed.details.get("service") or "app")
        if "logs" not in failed.details:  # it failed before anything could be written
            output = open_output(session.folder, name)
            output.close()
            failed.details["logs"] = asdict(output.paths)
        failed.details["sessionId"] = session.id
        paths = failed.details["logs"]
        assert isinstance(paths, dict), "as every start that fails has them"
        folders = (session.folder, *session.log_folders)
        self._ends[session.id] = replace(
            self._ends[session.id],
            note=f"its start failed: {failed.message}",
            logs=({name: LogPaths(**paths)}, folders),
        )

    def fault(self, session_id: str) -> SessionNotFound | BrowserCrashed:
        """Make the fault of a call for a session that is not open."""
        if end := self._ends.get(session_id):
            fault = end.fault(session_id, f"Session {session_id} not found. It ended")
        else:
            fault = SessionNotFound(
                f"Session {session_id} not found. Please call startSession first.",
                hint="call startSession, then pass the sessionId that it gives",
                sessionId=session_id,
            )
        if why := self.why_swept(session_id):
            fault.message += f" Its files were {why}."
        return fault

    def why_swept(self, session_id: str) -> str:
        """Return when and why the files of a session were removed; empty for one of another agent,
        which is answered like one that never was."""
        return self._why_swept(session_id) if session_id in self._ends else ""

    def last_fault(self) -> SessionNotFound | BrowserCrashed:
        """Make the fault of a call that names no session while none is open."""
        for session_id, end in reversed(self._ends.items()):
            return end.fault(session_id, f"There is no session: the last one, {session_id}, ended")
        return SessionNotFound("there is no session", hint="call startSession first")

    def failed_logs(self, session_id: str) -> FailedLogs:
        """Return the logs of a start that failed; none of any other session."""
        end = self._ends.get(session_id)
        return end.logs if end else ({}, ())

    @property
    def last(self) -> str:
        """Id of the session that ended last."""
        return next(reversed(self._ends), "")

"""Removing what was kept too long or is too much.

Only what lies in our own folders under names that we gave is removed, and links are not followed
(machine/state/places.py). What cannot be removed is logged and stays.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sqlite3
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pilothouse.core.retention import plan
from pilothouse.core.settings import BY_NAME
from pilothouse.core.timeline.clock import iso
from pilothouse.machine.audit_file import AuditFile
from pilothouse.machine.folders import SESSIONS, folder_for
from pilothouse.machine.held_folders import taken
from pilothouse.machine.processes import HAS_PROC, PROC
from pilothouse.machine.state.places import (
    COMPANIONS,
    DAY_S,
    PACKETS,
    PLACES,
    WRAP,
    find,
    is_ours,
    measured,
    opened,
    store_bytes,
    store_path,
    store_size,
    wrap_logs,
)
from pilothouse.observe.record.store_limits import Caps, trim_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pilothouse.core.retention import Kept, Reason, Removal
    from pilothouse.core.settings import Settings
    from pilothouse.machine.state.places import StateFolder

HALF_WRITTEN = re.compile(r"\.trace-\d+\.(?:unmasked\.raw|part)", re.ASCII)
"""A trace before its secrets are masked, and while they are (e2e/tools/export.py)."""
MASKING_S = 600.0
SWEPT = "swept.jsonl"
"""File of what was removed and why, for whoever asks for it later."""


@dataclass(slots=True)
class Report:
    """Outcome of a sweep."""

    at: float
    removed: list[Removal] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def freed(self) -> int:
        return sum(one.kept.size for one in self.removed)

    def facts(self) -> dict[str, Any]:
        """Return the outcome as `status` shows it."""
        return {
            "at": iso(self.at * 1000),
            "removed": len(self.removed),
            "bytes": self.freed,
            "failed": self.failed,
        }


def _never() -> bool:
    return False


def sweep(
    settings: Settings,
    environ: Mapping[str, str],
    clock: Callable[[], float],
    is_over: Callable[[], bool] = _never,
) -> Report:
    """Remove what is too old, and the oldest of what is too much; nothing that is in use.

    It ends early, between two entries, when `is_over` says so.
    """
    now = clock()
    report = Report(now)
    max_age_s = settings.keep_days * DAY_S
    entries: dict[tuple[str, str], Kept] = {}
    packets = 0
    for place in PLACES:
        found: list[Kept] = []
        try:
            for one in find(place, settings, environ, now):
                if is_over():
                    return report
                found.append(one.kept)
        except OSError as error:
            report.failed.append(f"{place.kind}: {error.strerror} ({error.filename})")
            continue
        if place.kind == PACKETS:
            # They make room themselves (intercept/history/eviction.py): here they go whole or stay.
            packets = sum(one.size for one in found)
            found = [one for one in found if max_age_s and one.age_s > max_age_s]
        elif place.least_days:
            least = max(max_age_s, place.least_days * DAY_S)
            found = [
                one if max_age_s and one.age_s > least else replace(one, in_use=True)
                for one in found
            ]
        entries |= {(one.kind, one.name): one for one in found}
    for kind, name in entries:
        if kind == SESSIONS:
            _drop_half_written(settings, environ, clock, name)
    try:
        _trim_store(settings, environ, clock, is_over)
    except sqlite3.Error as error:
        report.failed.append(f"observe store: {error}")
    # Packets count as half of it at most: who has set more for them should not lose all else.
    half = (settings.keep_mb << 20) // 2
    most = (settings.keep_mb << 20) - min(packets, half) - min(store_size(settings), half // 2)
    sweeper = _Sweeper(settings, environ, clock, report)
    # What could not go takes its room, so others have to go for it.
    while removals := plan(entries.values(), max_age_s=max_age_s, max_bytes=most if half else 0):
        for removal in removals:
            if is_over():
                return report
            key = removal.kept.kind, removal.kept.name
            if sweeper.remove(removal):
                del entries[key]
            else:
                entries[key] = replace(removal.kept, in_use=True)
    return report


def _drop_half_written(
    settings: Settings, environ: Mapping[str, str], clock: Callable[[], float], session_id: str
) -> None:
    """Remove what a process that was killed left of a trace, of which nothing is masked yet."""
    path = folder_for(settings.home, environ, "state", f"{SESSIONS}/{session_id}")
    with suppress(OSError), opened(path) as folder:
        left = [name for name in os.listdir(folder) if HALF_WRITTEN.fullmatch(name)]
        if not left:
            return
        with taken(".", dir_fd=folder) as is_unused:
            for name in left if is_unused else ():
                # A session that has ended may still be masking a large one.
                if clock() - os.stat(name, dir_fd=folder).st_mtime > MASKING_S:
                    os.unlink(name, dir_fd=folder)


def _trim_store(
    settings: Settings,
    environ: Mapping[str, str],
    clock: Callable[[], float],
    is_over: Callable[[], bool],
) -> None:
    """Make room in the store, which nobody else does while no session has it open.

    Raises:
        sqlite3.Error: it is none of ours, or in use for long.
    """
    path = store_path(settings)
    if path and path.is_file() and is_ours(path, settings, environ):
        caps = Caps(settings.keep_days * DAY_S, store_bytes(settings))
        trim_store(path, caps, lambda: clock() * 1000, is_over)


class _Sweeper:
    """Removes one entry after the other, and notes why."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        clock: Callable[[], float],
        report: Report,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._clock = clock
        self._report = report
        self._notes = AuditFile(_notes(settings, environ))
        self._notes.read()

    def remove(self, removal: Removal) -> bool:
        """Remove an entry, unless it is in use by now; return whether it has gone."""
        kept = removal.kept
        place = next(place for place in PLACES if place.kind == kept.kind)
        try:
            with opened(place.path(self._settings, self._environ)) as folder:
                is_gone = folder >= 0 and self._remove_from(folder, place, removal)
        except OSError as error:
            self._fail(f"{kept.kind} {kept.name}: {error.strerror or error}")
            return False
        if is_gone:
            self._report.removed.append(removal)
        return is_gone

    def _fail(self, why: str) -> None:
        if why not in self._report.failed:
            self._report.failed.append(why)

    def _remove_from(self, folder: int, place: StateFolder, removal: Removal) -> bool:
        """Remove an entry; return whether it has gone. Raises OSError if not all of it could be."""
        kept = removal.kept
        mark = place.mark(self._settings, self._environ, kept.name)
        with ExitStack() as stack:
            try:
                if mark and not stack.enter_context(taken(mark, dir_fd=folder)):
                    return False
            except OSError as error:
                # One line, however many entries there are.
                why = f"it cannot be told what is in use: {error.strerror}"
                self._fail(f"{place.kind}: {why}")
                return False
            # By its number a folder has a short path, as a socket's must be.
            whole = place.path(self._settings, self._environ)
            base = PROC / f"self/fd/{folder}" if HAS_PROC else whole
            if place.sign and _is_answered(base / kept.name / place.sign):
                return False
            # Somebody may have come, written and gone since it was looked at.
            now = self._clock()
            again = measured(place, kept.name, folder, now)
            if again is None or again.kept.age_s < kept.age_s:
                return False
            # Before it goes: afterwards it may be asked for at once, or we may have ended.
            entry = f"{kept.kind}/{kept.name}: "
            why = _why(self._settings, removal.reason, kept.age_s, now)
            self._notes.add(now * 1000, entry + why)
            try:
                _unlink(place, kept.name, folder)
            except OSError:
                self._notes.add(now * 1000, entry)
                raise
            return True


def _unlink(place: StateFolder, name: str, folder: int) -> None:
    """Delete an entry. Raises OSError if not all of it could be removed."""
    if not place.are_folders:
        # Without them a database is an older one; they alone would harm the next.
        for end in (*COMPANIONS, ""):
            with suppress(FileNotFoundError):
                os.unlink(name + end, dir_fd=folder)
        return
    if place.folder == WRAP and (logs := wrap_logs(name, folder)):
        shutil.rmtree(logs)
    with suppress(FileNotFoundError):  # another hub was quicker
        shutil.rmtree(name, dir_fd=folder)


def _is_answered(path: Path) -> bool:
    """Tell whether a process may listen at a socket: one that was killed leaves it behind."""
    try:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.setblocking(False)
            caller.connect(str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except OSError:  # it cannot be told: its path is too long, or many wait to be answered
        return True
    return True


def _why(settings: Settings, reason: Reason, age_s: float, now: float) -> str:
    setting = BY_NAME["keep_days" if reason == "age" else "keep_mb"]
    given = f"{setting.flag} ({setting.about.env[0]}) is {getattr(settings, setting.name)}"
    unwritten = f"{age_s / DAY_S:.1f} days" if age_s > DAY_S else f"{age_s / 3600:.1f} hours"
    return f"removed at {iso(now * 1000)}, {unwritten} after it was last written: {given}"


def _notes(settings: Settings, environ: Mapping[str, str]) -> Path:
    return folder_for(settings.home, environ, "state", SWEPT)


def why_swept(settings: Settings, environ: Mapping[str, str], session_id: str) -> str:
    """Return when and why the files of a session were removed; empty if they were not."""
    return AuditFile(_notes(settings, environ)).last(f"sessions/{session_id}: ")

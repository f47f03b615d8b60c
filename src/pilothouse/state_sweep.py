"""Removing what was kept too long or is too much.

Only what lies in our own folders under names that we gave is removed, and links are not followed
(state_places.py). What cannot be removed is logged and stays.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilothouse.core.clock import iso
from pilothouse.core.retention import plan
from pilothouse.core.settings import BY_NAME
from pilothouse.folders import folder_for
from pilothouse.intercept.audit_file import AuditFile
from pilothouse.state_places import (
    COMPANIONS,
    DAY_S,
    PACKETS,
    PLACES,
    WRAP,
    find,
    opened,
    store_size,
    wrap_logs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pilothouse.core.retention import Kept, Reason, Removal
    from pilothouse.core.settings import Settings
    from pilothouse.state_places import Place

SWEPT = "swept.jsonl"
"""What was removed, and why: told to who asks for it later."""


@dataclass(slots=True)
class Report:
    """What a sweep did."""

    at: float
    removed: list[Removal] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def freed(self) -> int:
        return sum(one.kept.size for one in self.removed)

    def facts(self) -> dict[str, Any]:
        """Return it as `status` tells it."""
        return {
            "at": iso(self.at * 1000),
            "removed": len(self.removed),
            "bytes": self.freed,
            "failed": self.failed,
        }


def sweep(settings: Settings, environ: Mapping[str, str], now: float) -> Report:
    """Remove what is too old, and the oldest of what is too much; nothing that is in use."""
    report = Report(now)
    max_age_s = settings.keep_days * DAY_S
    entries: list[Kept] = []
    packets = 0
    for place in PLACES:
        try:
            found = [one.kept for one in find(place, settings, environ, now)]
        except OSError as error:
            report.failed.append(f"{place.kind}: {error.strerror} ({error.filename})")
            continue
        if place.kind == PACKETS:
            # They make room themselves (intercept/history_room.py): here they go whole or stay.
            packets = sum(one.size for one in found)
            found = [one for one in found if max_age_s and one.age_s > max_age_s]
        entries += found
    # Who has asked for more packets than half of it should not lose all else for that.
    half = (settings.keep_mb << 20) // 2
    most = (settings.keep_mb << 20) - min(packets, half) - min(store_size(settings), half // 2)
    notes = AuditFile(_notes(settings, environ))
    notes.read()
    for removal in plan(entries, max_age_s=max_age_s, max_bytes=most if half else 0):
        kept = removal.kept
        place = next(place for place in PLACES if place.kind == kept.kind)
        # Before it goes: afterwards it may be asked for at once, or we may have ended.
        why = _why(settings, removal.reason, kept.age_s, now)
        notes.add(now * 1000, f"{kept.kind}/{kept.name}: {why}")
        try:
            is_gone = _remove(place, kept.name, settings, environ)
        except OSError as error:
            report.failed.append(f"{kept.kind} {kept.name}: {error.strerror or error}")
            continue
        if is_gone:
            report.removed.append(removal)
    return report


def _remove(place: Place, name: str, settings: Settings, environ: Mapping[str, str]) -> bool:
    """Remove an entry, unless it is in use by now.

    Raises:
        OSError: not all of it could be removed.
    """
    with opened(place.path(settings, environ)) as folder:
        if folder < 0 or place.in_use(settings, environ, name, folder):
            return False
        if not place.are_folders:
            # Without them a database is an older one; they alone would harm the next.
            for end in (*COMPANIONS, ""):
                with suppress(FileNotFoundError):
                    os.unlink(name + end, dir_fd=folder)
            return True
        if place.folder == WRAP and (logs := wrap_logs(name, folder)):
            shutil.rmtree(logs)
        with suppress(FileNotFoundError):  # another hub was quicker
            shutil.rmtree(name, dir_fd=folder)
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
    begin = f"sessions/{session_id}: "
    for _, message in reversed(AuditFile(_notes(settings, environ)).read()):
        if message.startswith(begin):
            return message.removeprefix(begin)
    return ""

"""What Pilothouse keeps on disk, kind by kind: where it lies, what it takes, who uses it.

Folders are opened by themselves and entries looked at from there: a link leads nowhere, wherever it
points.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.core.retention import Kept
from pilothouse.folders import SESSIONS, folder_for, state_folders
from pilothouse.held_folders import is_locked

if TYPE_CHECKING:
    from pilothouse.core.settings import Settings

DAY_S = 86_400.0
PACKETS = "packets"
WRAP = "wrap"
WRAP_FOLDER = "pilothouse-wrap-"
"""How the folders in the temp folder begin in which wrapped servers have their logs."""
COMPANIONS = ("-wal", "-shm")
"""Of a database."""
LOGS = "server logs"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

type InUse = Callable[[Settings, Mapping[str, str], str, int], bool]
"""Tells whether a living process uses an entry; the last is a descriptor of its folder."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of ours whose entries are of one kind."""

    kind: str
    base: str
    """Which of the state folders it lies in."""
    folder: str
    pattern: str = "*"
    are_folders: bool = False
    stays: str = ""
    """Why its entries are not removed from here; they are counted."""
    in_use: InUse = lambda *_: False

    def path(self, settings: Settings, environ: Mapping[str, str]) -> Path:
        return folder_for(settings.home, environ, self.base, self.folder)


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a place, and what it is made of."""

    kept: Kept
    parts: Mapping[str, int]
    """Bytes by the parts that `status` tells of."""


def _session_in_use(_: Settings, __: Mapping[str, str], name: str, folder: int) -> bool:
    return is_locked(name, dir_fd=folder)


def _wrap_in_use(_: Settings, __: Mapping[str, str], name: str, folder: int) -> bool:
    # A server of an older version holds no lock, but its socket is there.
    return is_locked(name, dir_fd=folder) or _exists(f"{name}/socket", folder)


def _hub_in_use(settings: Settings, environ: Mapping[str, str], name: str, _: int) -> bool:
    locks = folder_for(settings.home, environ, "runtime", "hub")
    return is_locked(locks / (name.removesuffix(".1").removesuffix(".log") + ".lock"))


def _packets_in_use(_: Settings, __: Mapping[str, str], ___: str, folder: int) -> bool:
    return is_locked(".", dir_fd=folder)


PLACES = (
    Place("sessions", "state", SESSIONS, are_folders=True, in_use=_session_in_use),
    Place(PACKETS, "data", "intercept", "history.db", in_use=_packets_in_use),
    Place("packets set aside", "data", "intercept", "history.db.corrupt-*"),
    Place("intercept audit", "data", "intercept", "audit.jsonl"),
    Place("bookmark exports", "data", "bookmarks/exports"),
    Place(
        "bookmark journals",
        "data",
        "bookmarks/journals",
        stays="8 MB a profile",
    ),
    Place("wrapped servers", "state", WRAP, are_folders=True, in_use=_wrap_in_use),
    Place("hub logs", "state", "hub", "hub-*.log*", in_use=_hub_in_use),
    Place("hub leftovers", "state", "journals", "*.journal", stays="the next hub clears up"),
)


# Finding


def find(
    place: Place, settings: Settings, environ: Mapping[str, str], now: float
) -> Iterator[Found]:
    """Yield the entries of a place.

    Raises:
        OSError: the folder cannot be read, or is a link.
    """
    with opened(place.path(settings, environ)) as folder:
        for name in os.listdir(folder) if folder >= 0 else ():
            if not fnmatchcase(name, place.pattern) or name.endswith(COMPANIONS):
                continue
            with suppress(OSError):  # it has just gone
                parts: Counter[str] = Counter()
                newest = _measured(place, name, folder, parts)
                if newest is not None:
                    used = bool(place.stays) or place.in_use(settings, environ, name, folder)
                    age_s = max(0.0, now - newest)
                    yield Found(Kept(place.kind, name, age_s, parts.total(), used), parts)


def _measured(place: Place, name: str, folder: int, parts: Counter[str]) -> float | None:
    """Measure an entry; when it was written last, None for what is none of ours.

    Raises:
        OSError: it is not there.
    """
    about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    is_right = stat.S_ISDIR if place.are_folders else stat.S_ISREG
    if not is_right(about.st_mode) or about.st_uid != os.geteuid():
        return None
    newest = about.st_mtime
    if place.are_folders:
        newest = max(newest, _measure(name, folder, parts))
        if place.folder == WRAP and (logs := wrap_logs(name, folder)):
            newest = max(newest, _measure(logs, None, parts))
        return newest
    parts[""] += about.st_size
    for end in COMPANIONS:
        with suppress(FileNotFoundError):
            more = os.stat(name + end, dir_fd=folder, follow_symlinks=False)
            newest = max(newest, more.st_mtime)
            parts[""] += more.st_size
    return newest


def _measure(name: str | Path, folder: int | None, parts: Counter[str]) -> float:
    """Add up the sizes below a folder; when anything in it was written last."""
    newest = 0.0
    seen: set[tuple[int, int]] = set()
    for _, __, files, here in os.fwalk(name, dir_fd=folder, follow_symlinks=False):
        newest = max(newest, os.fstat(here).st_mtime)
        for file in files:
            with suppress(OSError):
                about = os.stat(file, dir_fd=here, follow_symlinks=False)
                newest = max(newest, about.st_mtime)
                if (about.st_dev, about.st_ino) not in seen:  # a video has two names
                    seen.add((about.st_dev, about.st_ino))
                    parts[_part(file)] += about.st_size
    return newest


def _part(file: str) -> str:
    """Return the part of a session that a file of it counts to."""
    if ".log" in file:
        return LOGS
    if file.startswith(("dossier-", "failure-")):
        return "dossiers"
    return "pictures, recordings, exports"


def wrap_logs(name: str, folder: int) -> Path | None:
    """Return where the logs of a wrapped server lie that has ended, if they do."""
    try:
        with open(os.open(f"{name}/last.json", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)) as file:
            path = Path(json.load(file)["folder"])
        about = path.lstat()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
    in_temp = path.parent == Path(tempfile.gettempdir()) and path.name.startswith(WRAP_FOLDER)
    return path if is_ours and in_temp else None


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open one of our folders until the block ends: its descriptor, -1 if it is not there.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    try:
        folder = os.open(path, _FOLDER)
    except FileNotFoundError:
        yield -1
        return
    try:
        yield folder
    finally:
        os.close(folder)


def _exists(name: str, folder: int) -> bool:
    with suppress(OSError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


# The store of all observed events, which lies where a user wants it


def is_ours(path: Path, settings: Settings, environ: Mapping[str, str]) -> bool:
    """Tell whether a path leads into our own folders."""
    real = path.resolve()
    folders = state_folders(settings.home, environ).values()
    return any(real.is_relative_to(folder.resolve()) for folder in folders)


def store_bytes(settings: Settings) -> int:
    """Return what a store in our own folders may take; 0 is no limit."""
    return (settings.keep_mb << 20) // 4


def store_size(settings: Settings) -> int:
    """Return what the store takes that the settings name; 0 without one."""
    path = _store(settings)
    return sum(_size(Path(f"{path}{end}")) for end in ("", *COMPANIONS)) if path else 0


def _store(settings: Settings) -> Path | None:
    kind, _, path = settings.store.partition(":")
    return Path(path).expanduser() if kind == "sqlite" and path else None


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


# Telling


def usage(settings: Settings, environ: Mapping[str, str], now: float) -> list[dict[str, Any]]:
    """Return what each kind takes and its cap, as `status` shows it; a part follows its kind."""
    rows: list[dict[str, Any]] = []
    for place in PLACES:
        try:
            found = list(find(place, settings, environ, now))
        except OSError as error:
            cap = f"cannot be read: {error.strerror}"
            rows.append({"kind": place.kind, "entries": 0, "bytes": 0, "cap": cap})
            continue
        size = sum(one.kept.size for one in found)
        cap = _cap(place, settings)
        rows.append({"kind": place.kind, "entries": len(found), "bytes": size, "cap": cap})
        if place.are_folders:
            rows += _parts(place, found, settings)
    if path := _store(settings):
        most = store_bytes(settings) >> 20
        limits = f"{_days(settings)}, {most:,} MB" if most else _days(settings)
        cap = limits if is_ours(path, settings, environ) else "none: it lies elsewhere"
        size = store_size(settings)
        rows.append({"kind": "observe store", "entries": 1, "bytes": size, "cap": cap})
    whole = sum(row["bytes"] for row in rows if "of" not in row)
    entries = sum(row["entries"] for row in rows if "of" not in row)
    cap = f"{settings.keep_mb:,} MB" if settings.keep_mb else "none"
    return [*rows, {"kind": "in all", "entries": entries, "bytes": whole, "cap": cap}]


def _parts(place: Place, found: list[Found], settings: Settings) -> Iterator[dict[str, Any]]:
    sizes: Counter[str] = Counter()
    holders: Counter[str] = Counter()
    for one in found:
        sizes.update(one.parts)
        holders.update(one.parts.keys())
    for part in sorted(sizes):
        cap = f"{settings.log_mb:,} MB a log" if part == LOGS else ""
        size = sizes[part]
        yield {"kind": part, "of": place.kind, "entries": holders[part], "bytes": size, "cap": cap}


def _cap(place: Place, settings: Settings) -> str:
    if place.stays:
        return place.stays
    age = _days(settings)
    return f"{age}, {settings.history_mb:,} MB" if place.kind == PACKETS else age


def _days(settings: Settings) -> str:
    return f"{settings.keep_days} days" if settings.keep_days else "none"

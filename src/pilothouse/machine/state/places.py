"""What Pilothouse keeps on disk, kind by kind: where it lies, what it takes, who uses it.

Folders are opened by themselves and entries looked at from there: a link leads nowhere, wherever it
points.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.core.retention import Kept
from pilothouse.machine.folders import SESSIONS, folder_for, state_folders

if TYPE_CHECKING:
    from pilothouse.core.settings import Settings

DAY_S = 86_400.0
PACKETS = "packets"
WRAP = "wrap"
WRAP_FOLDER = "pilothouse-wrap-"
"""Prefix of the folders in the temp folder in which wrapped servers have their logs."""
COMPANIONS = ("-wal", "-shm")
"""Suffixes of the files beside a database."""
LOGS = "server logs"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

type Mark = Callable[[Settings, Mapping[str, str], str], str | Path]
"""A function that returns the file or folder, from an entry's place, that the living process which
uses the entry has locked; empty if there is none."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """A folder of ours whose entries are of one kind."""

    kind: str
    base: str
    """Kind of the state folder in which it lies."""
    folder: str
    names: str
    """A pattern of the whole names that we give: a home may be a folder in which its user has other
    things, and these are no business of ours."""
    are_folders: bool = False
    stays: str = ""
    """Reason why its entries are not removed from here, empty if they are; they are counted."""
    least_days: int = 0
    """Days that an entry stays whatever else has room; it goes by its age alone."""
    each: str = ""
    """The cap of one entry, which makes room in itself."""
    mark: Mark = lambda *_: ""
    sign: str = ""
    """The socket in an entry that somebody answers who uses it, for versions that lock nothing."""

    def path(self, settings: Settings, environ: Mapping[str, str]) -> Path:
        return folder_for(settings.home, environ, self.base, self.folder)


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """An entry of a place, and what it is made of."""

    kept: Kept
    parts: Mapping[str, int]
    """Bytes by the parts that `status` lists."""


def _own(_: Settings, __: Mapping[str, str], name: str) -> str:
    return name


def _lock_of_hub(settings: Settings, environ: Mapping[str, str], name: str) -> Path:
    locks = folder_for(settings.home, environ, "runtime", "hub")
    return locks / (name.removesuffix(".1").removesuffix(".log") + ".lock")


def _whole_place(*_: object) -> str:
    return "."


_UUID4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_EXPORT = r"bookmarks-\d{8}-\d{6}-[0-9a-f]{6}\.[a-z]+"

PLACES = (
    StateFolder("sessions", "state", SESSIONS, _UUID4, are_folders=True, mark=_own),
    StateFolder(PACKETS, "data", "intercept", r"history\.db", mark=_whole_place),
    StateFolder("packets set aside", "data", "intercept", r"history\.db\.corrupt-\d{8}T\d+Z"),
    StateFolder("intercept audit", "data", "intercept", r"audit\.jsonl", stays="4,000 entries"),
    StateFolder("bookmark exports", "data", "bookmarks/exports", _EXPORT, stays="yours to remove"),
    StateFolder(
        "bookmark journals",
        "data",
        "bookmarks/journals",
        r"[0-9a-f]{32}\.jsonl",
        mark=_own,
        least_days=90,
        each="8 MB a profile",
    ),
    StateFolder(
        "wrapped servers",
        "state",
        WRAP,
        "[0-9a-f]{20}",
        are_folders=True,
        mark=_own,
        sign="socket",
    ),
    StateFolder("hub logs", "state", "hub", r"hub-\d[\w.+!-]*\.log(\.1)?", mark=_lock_of_hub),
    StateFolder(
        "hub leftovers", "state", "journals", r".+\.journal", stays="the next hub clears up"
    ),
)


# Finding


def find(
    place: StateFolder, settings: Settings, environ: Mapping[str, str], now: float
) -> Iterator[FoundEntry]:
    """Yield the entries of a place.

    Raises:
        OSError: the folder cannot be read, or is a link.
    """
    with opened(place.path(settings, environ)) as folder:
        for name in os.listdir(folder) if folder >= 0 else ():
            if re.fullmatch(place.names, name, re.ASCII) and (
                found := measured(place, name, folder, now)
            ):
                yield found


def measured(place: StateFolder, name: str, folder: int, now: float) -> FoundEntry | None:
    """Return an entry as it is now; None if it has gone, or is none of ours."""
    parts: Counter[str] = Counter()
    with suppress(OSError):
        newest = _measured(place, name, folder, parts, now)
        if newest is not None:
            age_s = max(0.0, now - newest)
            return FoundEntry(
                Kept(place.kind, name, age_s, parts.total(), bool(place.stays)), parts
            )
    return None


def _measured(
    place: StateFolder, name: str, folder: int, parts: Counter[str], now: float
) -> float | None:
    """Measure an entry; return when it was written last, None for what is none of ours.

    Raises:
        OSError: it is not there.
    """
    about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    is_right = stat.S_ISDIR if place.are_folders else stat.S_ISREG
    if not is_right(about.st_mode) or about.st_uid != os.geteuid():
        return None
    newest = _written(about, now)
    if place.are_folders:
        newest = max(newest, _measure(name, folder, parts, now))
        if place.folder == WRAP and (logs := wrap_logs(name, folder)):
            newest = max(newest, _measure(logs, None, parts, now))
        return newest
    parts[""] += about.st_size
    for end in COMPANIONS:
        with suppress(FileNotFoundError):
            more = os.stat(name + end, dir_fd=folder, follow_symlinks=False)
            newest = max(newest, _written(more, now))
            parts[""] += more.st_size
    return newest


def _measure(name: str | Path, folder: int | None, parts: Counter[str], now: float) -> float:
    """Add up the sizes below a folder; return when anything in it was written last."""
    newest = 0.0
    seen: set[tuple[int, int]] = set()
    for _, __, files, here in os.fwalk(name, dir_fd=folder, follow_symlinks=False):
        newest = max(newest, _written(os.fstat(here), now))
        for file in files:
            with suppress(OSError):
                about = os.stat(file, dir_fd=here, follow_symlinks=False)
                newest = max(newest, _written(about, now))
                if (about.st_dev, about.st_ino) not in seen:  # a video has two names
                    seen.add((about.st_dev, about.st_ino))
                    parts[_part(file)] += about.st_size
    return newest


def _written(about: os.stat_result, now: float) -> float:
    """Return when something was written. A time to come, as an app may give its files, would keep
    them for ever: when it was given them is known as well."""
    return about.st_mtime if about.st_mtime <= now else about.st_ctime


def _part(file: str) -> str:
    """Return the part of a session that a file of it counts to."""
    if ".log" in file:
        return LOGS
    if file.startswith(("dossier-", "failure-")):
        return "dossiers"
    return "pictures, recordings, exports"


def wrap_logs(name: str, folder: int) -> Path | None:
    """Return where the logs of a wrapped server lie, if they do."""
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
    path = store_path(settings)
    return sum(_size(Path(f"{path}{end}")) for end in ("", *COMPANIONS)) if path else 0


def store_path(settings: Settings) -> Path | None:
    """Return where the store lies that the settings name."""
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
    if path := store_path(settings):
        most = store_bytes(settings) >> 20
        limits = f"{_days(settings)}, {most:,} MB" if most else _days(settings)
        cap = limits if is_ours(path, settings, environ) else "none: it lies elsewhere"
        size = store_size(settings)
        rows.append({"kind": "observe store", "entries": 1, "bytes": size, "cap": cap})
    whole = sum(row["bytes"] for row in rows if "of" not in row)
    entries = sum(row["entries"] for row in rows if "of" not in row)
    cap = f"{settings.keep_mb:,} MB" if settings.keep_mb else "none"
    return [*rows, {"kind": "in all", "entries": entries, "bytes": whole, "cap": cap}]


def _parts(
    place: StateFolder, found: list[FoundEntry], settings: Settings
) -> Iterator[dict[str, Any]]:
    sizes: Counter[str] = Counter()
    holders: Counter[str] = Counter()
    for one in found:
        sizes.update(one.parts)
        holders.update(one.parts.keys())
    for part in sorted(sizes):
        cap = f"{settings.log_mb:,} MB a log" if part == LOGS else ""
        size = sizes[part]
        yield {"kind": part, "of": place.kind, "entries": holders[part], "bytes": size, "cap": cap}


def _cap(place: StateFolder, settings: Settings) -> str:
    if place.stays:
        return place.stays
    age = _days(settings, place.least_days)
    each = f"{settings.history_mb:,} MB" if place.kind == PACKETS else place.each
    return f"{age}, {each}" if each else age


def _days(settings: Settings, least: int = 0) -> str:
    return f"{max(settings.keep_days, least)} days" if settings.keep_days else "none"

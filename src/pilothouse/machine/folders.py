"""Where Pilothouse keeps its state: the XDG directories, or one folder for all of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SESSIONS = "sessions"
"""Name of the folder in each home for what sessions keep, and a sign that it is a home."""
_SIGNS = (SESSIONS, "hub")
_ANOTHER = "name a folder that is not there yet"


class OpenToOthers(PermissionError):
    """Others may enter the folder, and we may not change that."""


def home_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's home by the given environment; a bare container may not set HOME."""
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def state_folders(home: str, environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the folders for state by what they hold: one if `home` is set, else the XDG ones."""
    if home:
        return {"state": Path(home).absolute()}
    user = home_folder(environ)
    bases = {
        "config": ("XDG_CONFIG_HOME", user / ".config"),
        "data": ("XDG_DATA_HOME", user / ".local" / "share"),
        "state": ("XDG_STATE_HOME", user / ".local" / "state"),
        "runtime": ("XDG_RUNTIME_DIR", None),
    }
    folders = {}
    for kind, (variable, fallback) in bases.items():
        given = environ.get(variable, "")
        # The XDG specification has relative paths ignored.
        base = Path(given) if os.path.isabs(given) else fallback
        if base:
            folders[kind] = base / "pilothouse"
    return folders


def folder_for(home: str, environ: Mapping[str, str], kind: str, name: str) -> Path:
    """Return where a folder of ours is, or would be."""
    folders = state_folders(home, environ)
    return (folders.get(kind) or folders["state"]) / name


def open_home(home: str) -> Path:
    """Return the one folder for all state, made if it is missing, which only this user may enter.

    A home that we made, and a folder that is empty, are closed to others. Any other folder is not:
    what is in it may be there for them.

    Raises:
        OpenToOthers: it is such a folder, or another user's.
        OSError: it cannot be made.
    """
    folder = Path(home).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        _close_to_others(folder)
    (folder / SESSIONS).mkdir(mode=0o700, exist_ok=True)
    return folder


def _close_to_others(folder: Path) -> None:
    """Close a folder to others. Raises OpenToOthers if they may count on it, or one owns it."""
    about = folder.stat()
    mode = stat.S_IMODE(about.st_mode)
    if about.st_uid != os.geteuid():
        raise OpenToOthers(f"{folder} belongs to another user; {_ANOTHER}")
    if not mode & 0o077:
        return
    names = os.listdir(folder)
    is_home = any(name in names and _is_private(folder / name) for name in _SIGNS)
    # All users may write to one with a sticky bit, as /tmp has: somebody counts on that.
    if mode & stat.S_ISVTX or (names and not is_home):
        why = f"{folder} is open to other users (mode {mode:04o})"
        raise OpenToOthers(f"{why}; close it with chmod 700, or {_ANOTHER}")
    folder.chmod(0o700)


def _is_private(folder: Path) -> bool:
    """Tell whether it is a folder as we make them; a link to one is not."""
    about = folder.lstat()
    is_closed = stat.S_ISDIR(about.st_mode) and about.st_mode & 0o777 == 0o700
    return is_closed and about.st_uid == os.geteuid()


def private_folder(home: str, environ: Mapping[str, str], kind: str, name: str) -> Path:
    """Return a folder of ours that only this user may enter, made if it is missing.

    Raises:
        OSError: it cannot be made, or others may enter it.
    """
    if home:
        open_home(home)
    folder = folder_for(home, environ, kind, name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder

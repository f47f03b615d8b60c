"""Where Pilothouse keeps its state: the XDG directories, or one folder for all of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def home_folder(environ: Mapping[str, str]) -> Path:
    """The user's home by the given environment; a bare container may not set HOME."""
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def state_folders(home: str, environ: Mapping[str, str]) -> dict[str, Path]:
    """The folders for state by what they hold: one if `home` is set, else the XDG ones."""
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
    """Where a folder of ours is, or would be."""
    folders = state_folders(home, environ)
    return (folders.get(kind) or folders["state"]) / name


def private_folder(home: str, environ: Mapping[str, str], kind: str, name: str) -> Path:
    """A folder of ours that only this user may enter, made if it is missing.

    Raises:
        OSError: it cannot be made.
    """
    folder = folder_for(home, environ, kind, name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder

"""How the user's Chrome is paired with this home: the extension, the code, and whether it ever was.

Bookmark tools are listed from the first pairing on. Nothing heavy is imported here: a relay asks at
its start.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.machine.folders import folder_for, private_folder

if TYPE_CHECKING:
    from pilothouse.core.settings import Settings
    from pilothouse.machine.secret_file import SecretFile
    from pilothouse.server.runtime import Runtime

FOLDER = "bookmarks"
CODE = "token"
"""File of the pairing code, once `pilothouse pair` or a link has made one."""
_MARK = "paired"
PACKAGE = Path(__file__).parents[1]
LOOK_S = 1.0
"""Seconds between two looks whether a code was made or a Chrome was paired."""


def extension_folder(package: Path = PACKAGE) -> Path | None:
    """Return what is loaded into Chrome: inside an installed package, or at a checkout's root."""
    for folder in (package / "extension", package.parents[1] / "extension"):
        if (folder / "manifest.json").is_file():
            return folder
    return None


def secret_in(folder: Path) -> SecretFile:
    """Return the pairing code that is kept in a folder."""
    from pilothouse.bookmarks.extension.pairing import FORM, make_token
    from pilothouse.machine.secret_file import SecretFile

    return SecretFile(folder / CODE, FORM, make_token)


def pairing_secret(settings: Settings) -> SecretFile:
    """Return this user's pairing code.

    Raises:
        OSError: its folder cannot be made.
    """
    return secret_in(private_folder(settings.home, os.environ, "config", FOLDER))


def is_paired(settings: Settings) -> bool:
    return _file(settings, _MARK).exists()


def mark_paired(settings: Settings) -> None:
    """Remember that an extension was let in. A home that cannot be written forgets it."""
    with suppress(OSError):
        (private_folder(settings.home, os.environ, "config", FOLDER) / _MARK).touch(0o600)


async def watch_pairing(runtime: Runtime) -> None:
    """Return once a Chrome is paired, which the runtime has learnt by then.

    Nobody calls a bookmark tool before it is listed, and so nobody would open the port to which
    the extension connects: it is opened when there is a pairing code.
    """
    import anyio

    is_open = False
    while not is_paired(runtime.settings):
        if not is_open and _file(runtime.settings, CODE).exists():
            is_open = True
            await _open_link(runtime)
        await anyio.sleep(LOOK_S)
    runtime.learn_paired()


async def _open_link(runtime: Runtime) -> None:
    from pilothouse.bookmarks.extension.server import ExtensionServer

    try:
        await runtime.shared.port(ExtensionServer)
    except Exception as error:  # tools that need it say why it is off
        runtime.log.warn("bookmarks_link_failed", error=str(error) or type(error).__name__)


def _file(settings: Settings, name: str) -> Path:
    return folder_for(settings.home, os.environ, "config", FOLDER) / name

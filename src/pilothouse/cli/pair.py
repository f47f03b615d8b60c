"""`pilothouse pair`: the code that connects the user's Chrome, and how it is used."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.bookmarks.extension.guidance import steps
from pilothouse.bookmarks.extension.pairing import FORM, make_token, shown
from pilothouse.machine.folders import private_folder
from pilothouse.machine.secret_file import SecretFile
from pilothouse.wiring.extension_pairing import CODE, FOLDER

if TYPE_CHECKING:
    from pilothouse.core.settings import Settings

EXIT_MISUSE = 2
PACKAGE = Path(__file__).parents[1]


def extension_folder(package: Path = PACKAGE) -> Path | None:
    """What is loaded into Chrome: inside an installed package, or at the root of a checkout."""
    for folder in (package / "extension", package.parents[1] / "extension"):
        if (folder / "manifest.json").is_file():
            return folder
    return None


def secret_in(folder: Path) -> SecretFile:
    return SecretFile(folder / CODE, FORM, make_token)


def pairing_secret(settings: Settings) -> SecretFile:
    """Where this user's pairing code is kept.

    Raises:
        OSError: its folder cannot be made.
    """
    return secret_in(private_folder(settings.home, os.environ, "config", FOLDER))


def main(settings: Settings, *, new: bool) -> int:
    """Print the code alone on stdout, made if there is none, and the steps on stderr.

    `new` makes another code: whoever was paired by the old one is not any more.
    """
    try:
        secret = pairing_secret(settings)
        token = secret.renew() if new else secret.value()
    except OSError as error:
        sys.stderr.write(
            f"pilothouse: the code cannot be kept ({error}); set PILOTHOUSE_HOME to a folder that"
            " you may write\n"
        )
        return EXIT_MISUSE
    sys.stdout.write(shown(token) + "\n")
    sys.stdout.flush()
    way = steps(extension_folder(), settings.bookmarks_port, "the code above")
    sys.stderr.write("".join(f"{number}. {step}\n" for number, step in enumerate(way, 1)))
    return 0

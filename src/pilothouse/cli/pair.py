"""`pilothouse pair`: the code that connects the user's Chrome, and how it is used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pilothouse.bookmarks.extension.guidance import steps
from pilothouse.bookmarks.extension.pairing import shown
from pilothouse.wiring.extension_pairing import extension_folder, pairing_secret

if TYPE_CHECKING:
    from pilothouse.core.settings import Settings

EXIT_MISUSE = 2


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

"""The access token of the intercept tools: where it is kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pilothouse.intercept.token import FORM, make_token
from pilothouse.machine.folders import private_folder
from pilothouse.machine.secret_file import SecretFile

if TYPE_CHECKING:
    from pilothouse.core.settings import Settings


def access_token(settings: Settings) -> SecretFile:
    """Return the file that keeps this user's token.

    Raises:
        OSError: its folder cannot be made.
    """
    folder = private_folder(settings.home, os.environ, "config", "intercept")
    return SecretFile(folder / "token", FORM, make_token)

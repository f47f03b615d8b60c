"""`pilothouse token`: the access token of the intercept tools, or of HTTP clients, alone on a
line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pilothouse.machine.net.http_token import http_token_file
from pilothouse.wiring.access_token import access_token

if TYPE_CHECKING:
    from pilothouse.core.settings import Settings

EXIT_MISUSE = 2


def main(settings: Settings, *, new: bool, http: bool = False) -> int:
    """Print the token, made if there is none; `new` makes another in any case. With `http` it is
    that of HTTP clients; one that was set is what counts then, and no other can be made."""
    if http and settings.http_token:
        if new:
            sys.stderr.write("pilothouse: the token was set by PILOTHOUSE_HTTP_TOKEN\n")
            return EXIT_MISUSE
        sys.stdout.write(settings.http_token + "\n")
        return 0
    try:
        secret = http_token_file(settings) if http else access_token(settings)
        token = secret.renew() if new else secret.value()
    except OSError as error:
        sys.stderr.write(
            f"pilothouse: the token cannot be kept ({error}); set PILOTHOUSE_HOME to a folder that"
            " you may write\n"
        )
        return EXIT_MISUSE
    sys.stdout.write(token + "\n")
    return 0

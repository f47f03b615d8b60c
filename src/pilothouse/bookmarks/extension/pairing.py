"""The pairing code: what the user carries from the terminal to the extension, once.

It is a token of 128 bits in Crockford's base 32, which has no letters that look like digits. Case,
dashes and blanks do not matter, nor does an O that was meant as a zero.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from typing import TYPE_CHECKING

from pilothouse.core.secrets.check import SecretCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.core.secrets.check import Secret

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
BITS = 128
LENGTH = 26
"""Digits of five bits each that hold all of them."""
GROUP = 4
FORM = re.compile(f"[{ALPHABET}]{{{LENGTH}}}")
LONGEST_LOCK_S = 900.0
LONGEST_TYPED = 200
"""Most characters of a code, with any blanks in it; what is longer is not even read."""

_MEANT = str.maketrans("OILoil", "011011", "- \t\r\n\u2010\u2011\u2013")


def make_token() -> str:
    number = secrets.randbits(BITS)
    return "".join(ALPHABET[number >> 5 * place & 31] for place in reversed(range(LENGTH)))


def shown(token: str) -> str:
    """Return the token as a person reads and types it: in groups."""
    return "-".join(token[at : at + GROUP] for at in range(0, LENGTH, GROUP))


def as_meant(typed: object) -> str:
    """Return what was typed in the one spelling of a token, or nothing where it cannot be one."""
    if not isinstance(typed, str) or len(typed) > LONGEST_TYPED:
        return ""
    return typed.translate(_MEANT).upper()


class Pairing:
    """The check of who is paired with this server."""

    def __init__(self, secret: Secret, clock: Callable[[], float] = time.monotonic) -> None:
        self._secret = secret
        self._check = SecretCheck(
            secret,
            clock,
            name="pairing code",
            shown_by="pilothouse pair",
            longest_lock_s=LONGEST_LOCK_S,
        )

    def admits(self, token: object, who: str = "") -> bool:
        """Tell whether this is the code, in whatever spelling.

        Raises:
            RateLimited: so many were wrong of late that none is looked at.
            OSError: the code can neither be read nor written.
        """
        return self._check.check(as_meant(token), who)

    def is_current(self, token: str) -> bool:
        """Tell whether the code that let somebody in is still the right one.

        Raises:
            OSError: it can neither be read nor written.
        """
        return hmac.compare_digest(as_meant(token).encode(), self._secret.value().encode())

"""The access token: one secret for everybody who may read or change this user's traffic."""

from __future__ import annotations

import re
import secrets
import string
import time
from typing import TYPE_CHECKING

from pilothouse.core.secrets.check import SecretCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.core.secrets.check import Secret

LENGTH = 20
FORM = re.compile(f"[A-Za-z]{{{LENGTH}}}")


def make_token() -> str:
    return "".join(secrets.choice(string.ascii_letters) for _ in range(LENGTH))


def token_check(secret: Secret, clock: Callable[[], float] = time.monotonic) -> SecretCheck:
    return SecretCheck(secret, clock, name="access token", shown_by="pilothouse token")

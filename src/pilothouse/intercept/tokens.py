"""The access token: one secret for everybody who may read or change this user's traffic."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import string
import time
from collections import deque
from typing import TYPE_CHECKING

from pilothouse.core.faults import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LENGTH = 20
MAX_FAILURES = 10
PER_SECONDS = 60.0
MAX_KNOWN = 1_000
"""Of how many of those who ask the wrong tokens are counted; the latest are."""

_FORM = re.compile(f"[A-Za-z]{{{LENGTH}}}")


class TokenStore:
    """The token of one folder, and how often it was guessed wrongly.

    The file is read for every check, so that a new token holds at once, in every process.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = folder / "token"
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}

    def token(self) -> str:
        """The token, made if there is none.

        Raises:
            OSError: it can neither be read nor written.
        """
        return self._read() or self._make(keep_present=True)

    def renew(self) -> str:
        """Another token; the present one is good for nothing from now on."""
        return self._make(keep_present=False)

    def check(self, given: object, who: str = "") -> bool:
        """Whether this is the token. Anything else is refused alike, and in the same time.

        Wrong ones are counted for each of those who ask, so that none locks out the others.

        Raises:
            RateLimited: so many were wrong in the last minute that none is looked at.
        """
        offered = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else b""
        if not offered:
            return False  # whoever forgot it has guessed nothing, and is not to be locked out
        wait = self.wait(who)
        if wait:
            raise RateLimited(
                "too many wrong access tokens in the last minute",
                hint=f"wait {wait:.0f} s; `pilothouse token` prints the right one",
                retryAfterSec=round(wait, 1),
            )
        right = hmac.compare_digest(offered, self.token().encode())
        if not right:
            self._count(who)
        return right

    def wait(self, who: str = "") -> float:
        """Seconds until a token is looked at again; 0 when it is now."""
        failures = self._failures.get(who)
        if failures is None or len(failures) < MAX_FAILURES:
            return 0.0
        return max(0.0, failures[0] + PER_SECONDS - self._clock())

    def _count(self, who: str) -> None:
        failures = self._failures.pop(who, None) or deque(maxlen=MAX_FAILURES)
        if len(self._failures) >= MAX_KNOWN:
            self._failures.pop(next(iter(self._failures)))
        failures.append(self._clock())
        self._failures[who] = failures

    def _read(self) -> str | None:
        try:
            text = self._file.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return None
        return text if _FORM.fullmatch(text) else None

    def _make(self, *, keep_present: bool) -> str:
        """Write a new token whole under its name; one that another process made first may stay."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        token = "".join(secrets.choice(string.ascii_letters) for _ in range(LENGTH))
        draft = self._file.with_name(f".token.{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with open(os.open(draft, flags, 0o600), "w", encoding="ascii") as file:
                file.write(token + "\n")
            if not keep_present:
                draft.replace(self._file)
                return token
            try:
                os.link(draft, self._file)
            except FileExistsError:
                present = self._read()
                if present:
                    return present
                draft.replace(self._file)  # what is there is no token
            except OSError:
                draft.replace(self._file)  # a file system without hard links
            return token
        finally:
            draft.unlink(missing_ok=True)

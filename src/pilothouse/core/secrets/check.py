"""Whether somebody knows a secret: compared in constant time, and guessed only so often."""

from __future__ import annotations

import hmac
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pilothouse.core.declare.faults import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_FAILURES = 10
PER_SECONDS = 60.0
MAX_KNOWN = 1_000
"""Number of callers whose wrong guesses are counted; the latest are."""


class Secret(Protocol):
    """The place where a secret is kept."""

    def value(self) -> str:
        """Return the secret, making one if there is none.

        Raises:
            OSError: it can neither be read nor written.
        """

    def renew(self) -> str:
        """Make and return another secret; the present one is invalid from now on."""


@dataclass(slots=True)
class _Guesses:
    """The latest wrong guesses of one caller, and until when so many lock it out."""

    times: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_FAILURES))
    locked_until: float = 0.0
    lock_s: float = 0.0
    """Seconds that the last lock-out took, where they grow."""


class SecretCheck:
    """The check of what callers offer as a secret, which counts their wrong guesses.

    The secret is asked for at every check, so that a new one holds at once, in every process.
    """

    def __init__(
        self,
        secret: Secret,
        clock: Callable[[], float],
        *,
        name: str,
        shown_by: str,
        longest_lock_s: float = 0.0,
    ) -> None:
        """Take `name` and `shown_by` (the command that prints it) for the texts of refusals.

        Ten wrong in a minute lock out for the rest of it. With `longest_lock_s` it is a whole
        minute, and each wrong guess after that doubles it, up to so many seconds.
        """
        self.secret = secret
        self._clock = clock
        self._name = name
        self._shown_by = shown_by
        self._longest_lock_s = longest_lock_s
        self._wrong: dict[str, _Guesses] = {}

    def check(self, given: object, who: str = "") -> bool:
        """Return whether this is the secret. Anything else is refused alike, in the same time.

        Wrong ones are counted for each caller by itself, so that none locks out the others.

        Raises:
            RateLimited: so many were wrong of late that none is looked at.
        """
        offered = given.encode("utf-8", "surrogatepass") if isinstance(given, str) else b""
        if not offered:
            return False  # whoever forgot it has guessed nothing, and is not to be locked out
        wait = self.wait(who)
        if wait:
            raise RateLimited(
                f"too many wrong {self._name}s of late",
                hint=f"wait {wait:.0f} s; `{self._shown_by}` prints the right one",
                retryAfterSec=round(wait, 1),
            )
        right = hmac.compare_digest(offered, self.secret.value().encode())
        if not right:
            self._count(who)
        return right

    def wait(self, who: str = "") -> float:
        """Return the seconds until a guess is looked at again, 0 if it would be at once."""
        guesses = self._wrong.get(who)
        return 0.0 if guesses is None else max(0.0, guesses.locked_until - self._clock())

    def _count(self, who: str) -> None:
        now = self._clock()
        guesses = self._wrong.pop(who, None) or _Guesses()
        if guesses.times and now - guesses.times[-1] > self._longest_lock_s + PER_SECONDS:
            guesses = _Guesses()  # long ago: forgiven
        guesses.times.append(now)
        window_ends = guesses.times[0] + PER_SECONDS
        if len(guesses.times) == MAX_FAILURES and (guesses.lock_s or now < window_ends):
            guesses.lock_s = min(2 * guesses.lock_s or PER_SECONDS, self._longest_lock_s)
            guesses.locked_until = max(window_ends, now + guesses.lock_s)
        if len(self._wrong) >= MAX_KNOWN:
            self._wrong.pop(next(iter(self._wrong)))
        self._wrong[who] = guesses

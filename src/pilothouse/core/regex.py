"""Regular expressions that come from outside: RE2 only, so that none can stall the server."""

from __future__ import annotations

from typing import Any

MAX_CHARACTERS = 1_000
MAX_MEMORY = 64 * 1024
"""Bytes for the compiled program. They also bound how long a match can take."""
OWN_MEMORY = 8 * 1024 * 1024
"""Bytes for a pattern of ours, which is known to be sound: RE2 is then about 80 times as fast."""


class BadPattern(ValueError):
    """The text is no pattern that RE2 takes; the message says why."""


def compile_pattern(text: str, *, ignore_case: bool = False, memory: int = MAX_MEMORY) -> Any:
    """Return a compiled pattern with `search` and `sub`.

    Raises:
        BadPattern: too long, too large when compiled, or not RE2 syntax (no look-around, no
            back-references).
    """
    import re2  # not at the top: a start that compiles no pattern must not pay for it

    if len(text) > MAX_CHARACTERS:
        raise BadPattern(f"a pattern has at most {MAX_CHARACTERS} characters, not {len(text)}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "unknown"
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise BadPattern(f"not an RE2 pattern: {said}") from None

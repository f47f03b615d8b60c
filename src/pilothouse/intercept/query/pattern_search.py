"""Search of large texts for patterns from outside, in bounded time.

RE2 takes time in proportion to the text, but the factor depends on pattern and text together, and
there is no way to stop it. So a large text is first tried in pieces, and given up if these take too
long.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

from pilothouse.core.regex import compile_pattern

PIECE = 4 << 10
MEGABYTE = 1 << 20
ALLOWED_S = 0.1
"""Seconds of CPU for the pieces of a megabyte. The whole then takes about as long again."""
MEMORY = 8 << 20
"""Bytes for the states of a search. What may be compiled is bounded apart, and far lower."""


@lru_cache(maxsize=8)
def searcher(pattern: str, ignore_case: bool = False) -> Any:
    """Return a compiled pattern for yes-or-no questions; raises BadPattern."""
    import re2

    compile_pattern(pattern, ignore_case=ignore_case)
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.max_mem = MEMORY
    # Where a group matched is not asked, and finding it out needs a slower search.
    options.never_capture = True
    compiled = re2.compile(pattern, options)
    # The module would keep 128 of them, each with its states.
    re2.purge()
    return compiled


def occurs(pattern: Any, text: bytes) -> bool | None:
    """Return whether the pattern matches somewhere; None if finding out would take too long."""
    if len(text) > PIECE:
        allowed = ALLOWED_S * max(1.0, len(text) / MEGABYTE)
        began = time.thread_time()
        for start in range(0, len(text), PIECE):
            pattern.search(text[start : start + PIECE])
            if time.thread_time() - began > allowed:
                return None
    return pattern.search(text) is not None

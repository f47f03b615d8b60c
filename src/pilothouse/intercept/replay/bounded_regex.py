"""Searches for edits from outside, which may have been made to be costly: given up in time.

RE2 takes time in proportion to a text, but each of many matches may look at the whole rest of it
before it is sure, and nothing can stop a search that has begun. So whoever uses this does it in a
thread, whatever the size of the text: a few replacements in a row can make any text large.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pilothouse.intercept.query.pattern_search import MEGABYTE, occurs

if TYPE_CHECKING:
    from collections.abc import Iterator

ALLOWED_S = 0.3
"""Seconds of CPU for the search of a megabyte; its last step may run over it."""
SHORT = 8 * 1024
"""Length of a text that is searched to its end: it ends in time even if each match reads it all."""
EACH_S = 40e-6
"""Further seconds for each match: finding one that is right there takes a fifth of it, on a slow
machine half."""
MOST_GROWN = 16 * MEGABYTE
"""Bytes to which an edit may grow a message that was not larger before."""


class TooCostly(Exception):
    """The edit cannot be made on that text; the message says why."""


def matches(pattern: Any, text: Any) -> Iterator[Any]:
    """Yield what `finditer` gives of bytes or a text, in bounded time.

    Raises:
        TooCostly: also after some matches, so whoever changes a text must be ready to leave it.
    """
    if len(text) <= SHORT:
        yield from pattern.finditer(text)
        return
    found = occurs(pattern, text)
    if found is None:
        raise TooCostly("its pattern takes too long")
    if not found:
        return
    left = ALLOWED_S * max(1.0, len(text) / MEGABYTE)
    began = time.thread_time()
    for match in pattern.finditer(text):
        left += EACH_S - (time.thread_time() - began)
        if left < 0:
            raise TooCostly("its pattern takes too long")
        yield match
        # What is done with a match is no search.
        began = time.thread_time()


def check_growth(before: int, after: int) -> None:
    """Check a text's growth; raises TooCostly if it may not become so long."""
    if after > max(before, MOST_GROWN):
        raise TooCostly(f"it would grow from {before} to over {MOST_GROWN} bytes")

"""Waiting until something is so, where nothing tells of it: it is asked for again and again.

The time limit guards against hanging and measures nothing. So it is long, for a machine that has
other work; a test that claims a time says which.
"""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING, overload

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GUARD_S = 60.0
_ASYNC_PAUSE_S = 0.005
_PAUSE_S = 0.01


# Two, because mypy cannot tell what T is in a union with Awaitable[T].
@overload
async def until[T](
    condition: Callable[[], Awaitable[T | None]],
    guard_s: float = GUARD_S,
    missing: Callable[[], object] | None = None,
) -> T: ...
@overload
async def until[T](
    condition: Callable[[], T | None],
    guard_s: float = GUARD_S,
    missing: Callable[[], object] | None = None,
) -> T: ...
async def until[T](
    condition: Callable[[], T | Awaitable[T | None] | None],
    guard_s: float = GUARD_S,
    missing: Callable[[], object] | None = None,
) -> T:
    """Ask again until the answer is true, and return it; `missing` says what is not there yet."""
    with anyio.move_on_after(guard_s):  # which ends a condition that hangs, too
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await anyio.sleep(_ASYNC_PAUSE_S)
    still = "" if missing is None else f"; still missing: {missing()}"
    raise AssertionError(f"it did not come to that within {guard_s:g} s{still}")


def wait_until[T](
    condition: Callable[[], T | None],
    what: str | Callable[[], object] = "the condition",
    guard_s: float = GUARD_S,
) -> T:
    """Do the same as `until` in a test that is not async; `what` names what is waited for, or is
    asked in the end for what there is instead."""
    deadline = time.monotonic() + guard_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            told = what() if callable(what) else what
            raise AssertionError(f"{told}: not within {guard_s:g} s")
        time.sleep(_PAUSE_S)
    return found

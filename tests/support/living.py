"""Processes that are still there, found by a mark in their environment."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from tests.support import forkserver

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD_S = 20.0


def living(mark: str) -> list[psutil.Process]:
    """All that inherited MARK=mark and are no zombies."""
    # Of a forked process the system shows the environment of the fork server.
    forked = {child.pid: child.environ for child in forkserver.living()}
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environ = forked.get(process.pid) or process.environ()
            marked = environ.get("MARK") == mark
            if marked and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


async def until(done: Callable[[], bool], within: float = GUARD_S) -> None:
    """Fails when it does not come to that."""
    deadline = time.monotonic() + within
    while not done():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.01)

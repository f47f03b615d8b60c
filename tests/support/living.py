"""Processes that are still there, found by a mark in their environment."""

from __future__ import annotations

from contextlib import suppress

import psutil

from tests.support import forkserver


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

"""Folders that a living process uses, so that no sweep of any process removes them.

The mark is a lock on the folder itself: it ends with the process, however that ends, and leaves no
file behind.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Without O_NONBLOCK, opening a FIFO waits for a writer that may never come.
_ANY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Mark a folder as used while the block lasts. One that is gone, or cannot be locked, is not
    marked: that is no reason for its user to fail."""
    descriptor = -1
    with suppress(OSError):
        descriptor = os.open(folder, _FOLDER)
        # Waits: who looks at it, or removes it, has it locked for a moment.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def taken(path: str | Path, *, dir_fd: int | None = None) -> Iterator[bool]:
    """Keep a file or folder from being used while the block lasts, unless somebody holds a lock on
    it: then False. One that is not there is held by nobody.

    Raises:
        OSError: it cannot be told, as where the file system has no locks.
    """
    try:
        descriptor = os.open(path, _ANY, dir_fd=dir_fd)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_ours = False
        else:
            is_ours = True
        yield is_ours
    finally:
        os.close(descriptor)


def is_locked(path: str | Path) -> bool:
    """Tell whether a living process holds a lock on a file or folder.

    Raises:
        OSError: it cannot be told.
    """
    with taken(path) as is_ours:
        return not is_ours

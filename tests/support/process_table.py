"""The processes of this machine with what each was started with, read once a process.

Tests ask again and again which processes there are while they wait for one to end, and to read the
environment of every process each time takes the time from the one that is to end. Without /proc
psutil reads them.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")
SETTLED_S = 5.0
"""How long a process is known before it is taken for what it will stay: a younger one may be a fork
that has yet to become its program. What is read after that is kept."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process as it was started: both texts have a NUL between their parts, as in /proc."""

    command: bytes
    environ: bytes

    @property
    def words(self) -> list[str]:
        """Its command line; empty for a zombie and for the kernel's own threads."""
        return [os.fsdecode(word) for word in self.command.split(b"\0")[:-1]]

    def variable(self, name: str) -> str | None:
        """Return the value of a variable in its environment."""
        start = os.fsencode(name) + b"="
        for line in self.environ.split(b"\0"):
            if line.startswith(start):
                return os.fsdecode(line[len(start) :])
        return None


@dataclass(slots=True)
class _Known:
    inode: int
    """Inode of its folder in /proc: another one when its number is given to a new process."""
    since: float
    started: Started
    is_settled: bool = False


_known: dict[int, _Known] = {}


def processes() -> Iterator[tuple[int, Started]]:
    """Yield the id of every process that may be read, zombies included, with how it was started."""
    if not PROC.exists():
        yield from _by_psutil()
        return
    now = time.monotonic()
    found: dict[int, _Known] = {}
    with os.scandir(PROC) as entries:
        inodes = [(int(entry.name), entry.inode()) for entry in entries if entry.name.isdigit()]
    for pid, inode in inodes:
        known = _known.get(pid)
        if known is None or known.inode != inode:
            known = _Known(inode, now, Started(b"", b""))
        if known.is_settled:
            found[pid] = known
            continue
        with suppress(OSError):
            known.started = Started(_read(pid, "cmdline"), _read(pid, "environ"))
            known.is_settled = now - known.since > SETTLED_S
            found[pid] = known
    _known.clear()
    _known.update(found)
    for pid, known in found.items():
        yield pid, known.started


def below(pid: int) -> list[int]:
    """Return the ids of a process's living children, and of theirs."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    asked = [pid]
    while asked:
        mine = children.get(asked.pop(), [])
        found += mine
        asked += mine
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Yield the id of every process that is no zombie, with that of its parent."""
    if not PROC.exists():
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE:
                    yield process.pid, process.ppid()
        return
    for name in os.listdir(PROC):
        if name.isdigit():
            with suppress(OSError):
                # Its name comes before, in brackets, and may have brackets itself.
                state, parent, *_ = _read(int(name), "stat").rpartition(b")")[2].split()
                if state not in (b"Z", b"X"):
                    yield int(name), int(parent)


def _read(pid: int, name: str) -> bytes:
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = [part := os.read(descriptor, 1 << 16)]
        while part:
            parts.append(part := os.read(descriptor, 1 << 16))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _by_psutil() -> Iterator[tuple[int, Started]]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command = "".join(f"{word}\0" for word in process.cmdline())
            environ = "\0".join(f"{name}={value}" for name, value in process.environ().items())
            yield process.pid, Started(os.fsencode(command), os.fsencode(environ))

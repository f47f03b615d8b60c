"""What a test has left behind: processes, sockets of the test's own process, files."""

from __future__ import annotations

import gc
import os
import re
import socket
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from tests.support import forkserver, process_table
from tests.support.hermetic import guard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.hermetic.place import Place

FOREIGN = ("org.chromium.", "playwright", "pw-")
TRACKER = b"from multiprocessing.resource_tracker import main"
"""The command of a process that Python starts beside the first one to use `multiprocessing`, and
that ends with it."""
GRACE_S = 30.0
"""How long a process that was told to end may take: a moment on a busy machine, not a leak. A test
that leaves nothing waits for nothing."""


_makers: weakref.WeakKeyDictionary[socket.socket, threading.Thread] = weakref.WeakKeyDictionary()
"""Which thread has made a socket."""


def note_makers() -> None:
    """Remember from now on which thread makes a socket."""

    def note(made: object) -> None:
        assert isinstance(made, socket.socket)
        _makers[made] = threading.current_thread()

    guard.watch_sockets = note


@dataclass(frozen=True, slots=True)
class Sockets:
    """The sockets that this process had open at one moment, and the threads of its rigs."""

    inodes: frozenset[str]
    listening: frozenset[Any]
    """Addresses at which somebody accepted connections: those of a rig's server are the rig's."""
    threads: frozenset[int | None]


def open_sockets() -> Sockets:
    """Return the sockets of this process; none where there is no /proc."""
    found = _descriptors()
    addresses = (_address(fd, listening=True) for fd in found.values())
    rigs = {one.ident for one in threading.enumerate() if one is not threading.current_thread()}
    return Sockets(frozenset(found), frozenset(one for one in addresses if one), frozenset(rigs))


def new_sockets(before: Sockets, *, listening: bool = False) -> list[str]:
    """Return those that were opened since and are not closed, garbage included; or of them only
    those that listen."""
    if not _new(before):
        return []
    gc.collect()  # a warning about what was dropped unclosed belongs to this test, too
    addresses = {inode: _address(fd, listening=listening) for inode, fd in _new(before).items()}
    return [f"{inode} at {at}" for inode, at in addresses.items() if at or not listening]


def _new(before: Sockets) -> dict[str, int]:
    makers = {made.fileno(): thread.ident for made, thread in list(_makers.items())}
    return {
        inode: fd
        for inode, fd in _descriptors().items()
        if inode not in before.inodes
        and makers.get(fd) not in before.threads
        and _address(fd) not in before.listening
    }


def _descriptors() -> dict[str, int]:
    found = {}
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{name}")
                if target.startswith("socket:"):
                    found[target] = int(name)
    return found


def _address(fd: int, *, listening: bool = False) -> Any:
    """Return where a socket is bound, its port for IP; None if it is not, or gone meanwhile."""
    try:
        with socket.socket(fileno=os.dup(fd)) as copy:
            if listening and not copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return None
            name = copy.getsockname()
    except OSError:
        return None
    return name[1] if isinstance(name, tuple) else name or None


def processes_of(place: Place) -> list[str]:
    """Return the living processes that belong to a place."""
    # Of a forked process /proc shows the environment of the fork server.
    forked = {child.pid: child.environ.get("HOME") for child in forkserver.living()}
    found = [_described(pid) for pid, home in forked.items() if home == str(place.home)]
    for pid, started in process_table.processes():
        is_other = pid not in forked and pid != os.getpid()
        if is_other and _is_of(started, place) and _is_alive(pid):
            found.append(_described(pid))
    return found


def _is_of(started: process_table.Started, place: Place) -> bool:
    """Tell whether a process names a place: by its command, and only then by its environment,
    since a rig that is asked during a test starts its own with the environment of that test."""
    folder = os.fsencode(place.root.parent) + b"/"
    if TRACKER in started.command:
        return False
    for named in (started.command, started.environ):
        if folder in named:
            marks = re.findall(re.escape(folder) + rb"(\w+)/", named)
            if marks:
                return os.fsencode(place.root.name) in marks
    return False


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def _described(pid: int) -> str:
    try:
        return f"{pid} {' '.join(psutil.Process(pid).cmdline())[:200]}"
    except psutil.Error:
        return str(pid)


def end_processes_of(place: Place) -> None:
    """Kill what is left of a place, so that one test's leak is not the next one's trouble."""
    for line in processes_of(place):
        with suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), 9)


def left_after[T](look: Callable[[], T]) -> T:
    """Return what is still there after a moment for those that are just ending."""
    deadline = time.monotonic() + GRACE_S
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def files_of(place: Place) -> list[str]:
    """Return what lies in a place's folder for temporary files."""
    return files_in(place.temp)


def files_in(folder: Path) -> list[str]:
    """Return what lies in a folder for temporary files, but for what is not ours to tidy:
    Chromium's and Playwright's own files, after they were killed."""
    return sorted(name for name in os.listdir(folder) if not name.startswith(FOREIGN))

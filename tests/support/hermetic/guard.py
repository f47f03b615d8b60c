"""An audit hook that refuses the user's own Pilothouse: its folders, its browser's, its ports.

Standard library only, and little of it: every Python process that a test starts loads this module
(see site/sitecustomize.py). What is refused fails with PermissionError where it happens and is
written to the report of the test, because the program may well go on after the error.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

REPORT = "LC_HERMETIC_REPORT"
"""Variable with the file to which a refusal is written; of a family that every child gets."""
FOLDERS = "LC_HERMETIC_FOLDERS"
"""Variable with the folders that nobody may open, in the form of PATH."""
DEFAULT_PORTS = frozenset({4000, 8765, 9222, 32349, 32350})

_PATH_EVENTS = {
    "open",
    "os.chdir",
    "os.chmod",
    "os.chown",
    "os.listdir",
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "os.scandir",
    "os.truncate",
    "os.utime",
    "shutil.rmtree",
    "sqlite3.connect",
}
_TWO_PATHS_EVENTS = {"os.link", "os.rename", "os.symlink"}
"""Something comes from the first path, or leads to it, and to the second one."""
_PORT_EVENTS = {"socket.bind", "socket.connect", "socket.sendmsg", "socket.sendto"}
_STARTS = {"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}

starts: list[str] = []
"""Processes that this one has started, by their program, in their order."""
watch_sockets: Callable[[object], None] | None = None
"""Told of every socket that is made, by the thread that makes it."""
_folders: tuple[str, ...] = ()


def install() -> None:
    """Watch this process from now on. It cannot be undone, and survives a fork."""
    global _folders
    _folders = tuple(one for one in os.environ.get(FOLDERS, "").split(os.pathsep) if one)
    sys.addaudithook(_hook)


def _hook(event: str, args: tuple[object, ...]) -> None:
    if event in _PATH_EVENTS:
        _check_path(event, args[0])
    elif event in _TWO_PATHS_EVENTS:
        _check_path(event, args[0])
        _check_path(event, args[1])
    elif event in _PORT_EVENTS:
        address = args[1]
        if isinstance(address, tuple) and len(address) > 1 and address[1] in DEFAULT_PORTS:
            _refuse(f"{event} of port {address[1]}")
        elif isinstance(address, str) and _is_refused(address):
            _refuse(f"{event} of {address}")
    elif event == "socket.__new__":
        if watch_sockets is not None:
            watch_sockets(args[0])
    elif event in _STARTS:
        starts.append(f"{event} {args[0] if args else ''}")


def _check_path(event: str, path: object) -> None:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if isinstance(path, str) and path[:1] == "/" and _is_refused(path):
        _refuse(f"{event} of {path}")


def _is_refused(path: str) -> bool:
    return any(path == one or path.startswith(one + "/") for one in _folders)


def _refuse(what: str) -> None:
    program = " ".join(sys.argv[:3]) or sys.executable
    if report := os.environ.get(REPORT):
        line = f"{what}, by {program}\n".encode()
        # Not open(): a report about itself would never end.
        descriptor = os.open(report, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    raise PermissionError(f"a test must not touch what is the user's own: {what}")

"""Where the hub of one home is found: its control socket, its lock and its log.

There is one hub for each home and version: whoever holds the lock is the hub. Nothing heavy is
imported here, because every relay reads this before anything else.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse import __version__
from pilothouse.ipc.local_socket import LONGEST_PATH
from pilothouse.machine.folders import private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_LOG_BYTES = 8 << 20
"""Size at which the log begins anew; the one before is kept beside it."""


@dataclass(frozen=True, slots=True)
class HubFiles:
    """The files of one hub, each in a folder that only this user may enter."""

    socket: Path
    """Control socket, where relays and commands ask (hub/control/protocol.py)."""
    lock: Path
    log: Path
    """Log of a hub that was started by a relay, of its workers and of their parent."""

    def hold(self) -> int | None:
        """Become the hub: return a descriptor that holds the lock until it is closed, or the
        process has ended; None if another one has it."""
        # Not inherited, so that nothing the hub starts holds the lock longer than the hub itself.
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def bound_log(self) -> None:
        """Begin the log anew if it has grown too large. All who write to it only append."""
        try:
            if self.log.stat().st_size <= MOST_LOG_BYTES:
                return
            with self.log.open("rb") as full, self.older_log.open("wb") as older:
                while piece := full.read(1 << 20):
                    older.write(piece)
            os.truncate(self.log, 0)
        except OSError:
            pass  # a log that cannot be kept must not end what it is about

    @property
    def older_log(self) -> Path:
        return self.log.with_suffix(".log.1")


def hub_files(home: str, environ: Mapping[str, str], version: str = __version__) -> HubFiles:
    """Return the files of the hub of this home and version; missing folders are made.

    Raises:
        OSError: a folder cannot be made, or is another user's.
    """
    folder = private_folder(home, environ, "runtime", "hub")
    state = private_folder(home, environ, "state", "hub")
    name = f"hub-{version}"
    socket = folder / f"{name}.sock"
    if len(os.fsencode(socket)) > LONGEST_PATH:
        socket = _short_folder(folder) / f"{name}.sock"
    return HubFiles(socket, folder / f"{name}.lock", state / f"{name}.log")


def _short_folder(folder: Path) -> Path:
    """Make a folder for sockets whose own has too long a path: this user's, named after it."""
    import tempfile
    from hashlib import blake2b

    mark = blake2b(os.fsencode(folder), digest_size=8).hexdigest()
    short = Path(tempfile.gettempdir()) / f"pilothouse-{os.getuid()}-{mark}"
    short.mkdir(mode=0o700, exist_ok=True)
    found = short.lstat()
    # Anybody may make a folder there, also a link, before us.
    if found.st_uid != os.getuid() or found.st_mode & 0o177777 != 0o040700:
        raise PermissionError(f"{short} is not a private folder of this user")
    return short

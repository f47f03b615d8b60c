"""Unix sockets that only this user may open, and who is at the other end of one.

Nothing heavy is imported here: every relay asks the hub by such a socket at its start.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

LONGEST_PATH = 100
"""Bytes of a socket's path; systems take 103 to 107."""
BACKLOG = 128
REACH_S = 5.0
"""Seconds that a listener may take to accept."""


def listen_at(path: str) -> socket.socket:
    """Listen at a path that only this user may connect to."""
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        listener.bind(path)
        listener.listen(BACKLOG)
    except (OSError, ValueError):  # the latter: a path that no system takes
        listener.close()
        raise
    finally:
        os.umask(mask)
    listener.setblocking(False)
    return listener


def peer_uid(link: socket.socket) -> int:
    """Return the user at the other end, as the kernel knows it."""
    if sys.platform == "linux":
        return _credentials(link)[1]
    # macOS and the BSDs: struct xucred, of which the second number is the user.
    told = link.getsockopt(0, 1, 76)
    _version, uid = struct.unpack("Ii", told[:8])
    return int(uid)


def listening_pid(path: str) -> int:
    """Return the process that listens at a path, also one that does not answer; 0: not known.

    Raises:
        OSError: nobody does.
    """
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(REACH_S)
        link.connect(path)
        return _credentials(link)[0] if sys.platform == "linux" else 0


def _credentials(link: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end, on Linux."""
    told = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _gid = struct.unpack("3i", told)
    return int(pid), int(uid)

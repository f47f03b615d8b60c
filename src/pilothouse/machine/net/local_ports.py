"""Ports of this machine's two loopback addresses: whether somebody holds one, and a free one."""

from __future__ import annotations

import errno
import random
import socket

FIRST, LAST = 20_000, 31_999
"""Below what Linux, macOS and Windows give to whoever asks for any port: a port that was free is
held by nobody else a moment later, when the server that it was found for listens."""
TRIES = 100


def free_port() -> int:
    """Return a port that nobody holds on either loopback address."""
    chance = random.SystemRandom()
    for _ in range(TRIES):
        port = chance.randint(FIRST, LAST)
        if not is_taken(port):
            return port
    with socket.socket(socket.AF_INET) as tried:
        tried.bind(("127.0.0.1", 0))
        given: int = tried.getsockname()[1]
        return given


def is_taken(port: int) -> bool:
    """Return whether somebody holds this port of either loopback address."""
    return _refuses(socket.AF_INET, "127.0.0.1", port) or _refuses(socket.AF_INET6, "::1", port)


def _refuses(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        with socket.socket(family) as caller, socket.socket(family) as listener:
            # macOS lets us bind beside a server on all addresses, so somebody has to knock first.
            if caller.connect_ex((host, port)) == 0:
                return True
            # Connections of an earlier server linger; they keep nobody from listening.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except OSError as error:
        return error.errno == errno.EADDRINUSE  # anything else: this machine has no IPv6
    return False

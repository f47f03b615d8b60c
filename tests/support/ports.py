"""Ports for servers that are started a moment later."""

from __future__ import annotations

import random
import socket

FIRST, LAST = 10_000, 32_000
"""Below those that a system gives away by itself: nobody gets one of these in the meantime, except
another test with the same luck."""


def free_port() -> int:
    """One that nobody listens on, and that no connection will be given."""
    while True:
        port = random.SystemRandom().randint(FIRST, LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port

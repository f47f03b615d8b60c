"""Ports: for servers that are started a moment later, and whether one of them listens."""

from __future__ import annotations

import asyncio
import random
import socket

FIRST, LAST = 10_000, 19_999
"""Below those that a system gives away by itself, and those that the product looks for: nobody gets
one of these in the meantime, except another test with the same luck."""


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


def is_open(port: int) -> bool:
    """Return whether something listens there."""
    with socket.socket() as probe:
        probe.settimeout(30)
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def listens(port: int) -> bool:
    """Return the same, for tests whose own loop may be what listens."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True

"""Another user of this machine, as far as a listener can see: a child that calls setuid.

No account is made for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.second_user_child import GUARD_S, STAYED_OPEN

CHILD = Path(__file__).with_name("second_user_child.py")

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can have a child become another user"
)


class NotRefused(AssertionError):
    """A listener kept a connection of another user open."""


def sent_by_another_user(port: int, data: bytes, *, host: str = "127.0.0.1") -> bytes:
    """Return everything that a listener answers to another user until it hangs up.

    Raises:
        NotRefused: it does not hang up.
    """
    done = _run(port, host, data, "stays")
    if done.returncode == STAYED_OPEN:
        raise NotRefused(f"port {port} keeps a connection of another user open")
    assert done.returncode == 0, done.stderr
    return done.stdout


def left_by_another_user(port: int, data: bytes) -> None:
    """Have another user send something and be gone."""
    done = _run(port, "127.0.0.1", data, "leaves")
    assert done.returncode == 0, done.stderr


def _run(port: int, host: str, data: bytes, how: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-I", "-S", str(CHILD), host, str(port), how]
    return subprocess.run(
        command, input=data, capture_output=True, timeout=2 * GUARD_S, check=False
    )

"""Another user of this machine, as far as a listener can see: a child that calls setuid.

`python -m tests.support.second_user` becomes that user once it has imported what it needs,
connects, sends what it was given, and writes to stdout what came back. No account is made for it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UID = 65_534
GUARD_S = 30.0
STAYED_OPEN = 3
"""Exit code: the listener neither answered nor hung up."""

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
    command = [sys.executable, "-m", "tests.support.second_user", host, str(port), how]
    return subprocess.run(
        command, input=data, capture_output=True, cwd=ROOT, timeout=2 * GUARD_S, check=False
    )


def _main(host: str, port: int, how: str) -> int:
    data = sys.stdin.buffer.read()
    os.setgroups([])
    os.setgid(UID)
    os.setuid(UID)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.settimeout(GUARD_S)
        sock.connect((host, port))
        try:
            sock.sendall(data)
            if how == "leaves":
                return 0
            while piece := sock.recv(65536):
                sys.stdout.buffer.write(piece)
        except ConnectionError:
            pass
        except TimeoutError:
            return STAYED_OPEN
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))

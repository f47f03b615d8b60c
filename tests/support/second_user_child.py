"""The child that is another user.

second_user_child.py HOST PORT stays|leaves    Run with `python -I -S`, which starts in a hundredth
second. It becomes that user once it has imported what it needs, connects, sends what it was given,
and writes to stdout what came back.
"""

from __future__ import annotations

import os
import socket
import sys

UID = 65_534
GUARD_S = 30.0
STAYED_OPEN = 3
"""Exit code: the listener neither answered nor hung up."""


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

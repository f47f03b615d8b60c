"""Becomes Chromium for Playwright, after giving the ends of its pipe to the worker.

A script of its own, started by path with `-I -S -B` and next to no imports, because every start of
a browser waits for it. Playwright starts it as if it were the browser, which reads commands from
descriptor 3 and writes to descriptor 4. Both go to the worker, which listens at a unix socket, with
the other ends of a new pair for Chromium; this process then becomes Chromium on those. So the
browser has the process id that Playwright knows, and ends like any other when its pipe does.

    pipe_launcher.py SOCKET CHROMIUM ARGUMENT...
"""

import os
import sys

# The library's `socket` module takes longer to import than all that is done here.
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket, socketpair

READS, WRITES = 3, 4
"""Descriptors by which Chromium reads commands and writes answers and events."""


def main(path: str, argv: list[str]) -> None:
    commands, commands_of_worker = socketpair(AF_UNIX, SOCK_STREAM)
    events, events_of_worker = socketpair(AF_UNIX, SOCK_STREAM)
    given = (READS, WRITES, commands_of_worker.fileno(), events_of_worker.fileno())
    packed = b"".join(one.to_bytes(4, sys.byteorder) for one in given)
    link = socket(AF_UNIX, SOCK_STREAM)
    link.connect(path)
    # Not answered: if the worker dies before it has taken them, they close, and Chromium ends.
    link.sendmsg([b"!"], [(SOL_SOCKET, SCM_RIGHTS, packed)])
    os.dup2(commands.fileno(), READS)
    os.dup2(events.fileno(), WRITES)
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

"""The fork server: imports what a `pilothouse` process imports, then forks one per connection.

It has one thread and no event loop, as Pilothouse's own warm parent. A connection carries one
order: three descriptors for the standard streams with the length of a JSON object, then the
object (module, args, env, cwd). It is answered by {"pid": N} and, at the end, {"code": N}.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import random
import runpy
import select
import signal
import socket
import sys
import tempfile
import threading
import traceback
from typing import Any, NoReturn

MODULES = (
    "mcp.server.stdio",
    "playwright.async_api",
    "uvicorn",
    "pilothouse.app",
    "pilothouse.calls",
    "pilothouse.server.http",
    "pilothouse.server.mcp",
    "pilothouse.server.stdio",
    "pilothouse.worker",
    "tests.support.fixture_tools",
)


class Server:
    """Forks processes, and tells of their ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._connections: dict[int, socket.socket] = {}
        self._woken, self._wake = os.pipe()

    def run(self) -> None:
        """Serve until standard input ends."""
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        poll = select.poll()
        for descriptor in (0, self._woken, self._listener.fileno()):
            poll.register(descriptor, select.POLLIN | select.POLLHUP)
        while True:
            for ready, _ in poll.poll():
                if ready == 0:
                    return
                if ready == self._woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._woken, 512)
                    self._tell_ends()
                else:
                    self._serve(self._listener.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        length, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
        body = b""
        while len(body) < int.from_bytes(length):
            body += connection.recv(1 << 16)
        pid = os.fork()
        if pid == 0:
            self._become(json.loads(body), descriptors, connection)
        for descriptor in descriptors:
            os.close(descriptor)
        self._connections[pid] = connection
        self._tell(connection, pid=pid)

    def _tell_ends(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            with self._connections.pop(pid) as connection:
                self._tell(connection, code=os.waitstatus_to_exitcode(status))

    @staticmethod
    def _tell(connection: socket.socket, **said: int) -> None:
        with contextlib.suppress(OSError):  # whoever wanted it is gone
            connection.sendall(json.dumps(said).encode() + b"\n")

    def _become(
        self, order: dict[str, Any], descriptors: list[int], connection: socket.socket
    ) -> NoReturn:
        """Be the process that was asked for, as if it had been started by its command."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            # Detached, so that collecting them does not close what comes to have their numbers.
            owned = [self._listener, connection, *self._connections.values()]
            for descriptor in (self._woken, self._wake, *(one.detach() for one in owned)):
                os.close(descriptor)
            os.chdir(order["cwd"])
            os.environ.clear()
            os.environ.update(order["env"])
            tempfile.tempdir = None
            random.seed()
            code = _run(order["module"], order["args"])
        finally:
            os._exit(code)


def _run(module: str, args: list[str]) -> int:
    """Run a module as the interpreter would, to the exit code."""
    sys.argv = [module, *args]
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        if isinstance(left.code, str):
            sys.stderr.write(left.code + "\n")
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code


def main(ready: int) -> None:
    from importlib import import_module

    from pilothouse.groups import PARTS

    for module in MODULES:
        import_module(module)
    for part in PARTS:
        part.ready  # noqa: B018  # it imports the group
    # Not a TemporaryDirectory: each fork would remove it when it exits.
    path = os.path.join(tempfile.mkdtemp(prefix="fork-"), "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        with socket.socket(fileno=ready) as told:
            told.sendall(path.encode())
        Server(listener).run()
    os.unlink(path)
    os.rmdir(os.path.dirname(path))


if __name__ == "__main__":
    main(int(sys.argv[1]))

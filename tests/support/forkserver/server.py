"""The fork server: imports what a `pilothouse` process imports, then forks one per connection.

It has one thread and no event loop, as Pilothouse's own warm parent. A connection carries one
order: three descriptors for the standard streams with the length of a JSON object, then the
object (module, args, env, cwd). It is answered by {"pid": N} and, at the end, {"code": N}; whoever
closes it before that ends the process. An order without a module is answered by the processes that
run, each with its environment.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tests.support.forkserver.names import HUB, REAL_PROCESSES, SHIM, ZYGOTE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MODULES = (
    "mcp.server.stdio",
    "playwright.async_api",
    "uvicorn",
    "pilothouse.wiring.standalone",
    "pilothouse.cli.call",
    "pilothouse.hub.assembly",
    "pilothouse.server.transports.http",
    "pilothouse.server.mcp.handlers",
    "pilothouse.server.transports.stdio",
    "pilothouse.hub.workers.worker",
    "tests.support.fixture_tools",
)


class Server:
    """Forks processes, and tells of their ends."""

    def __init__(self, listener: socket.socket, address: str) -> None:
        self._listener = listener
        self._address = address
        self._connections: dict[int, socket.socket] = {}
        self._environs: dict[int, dict[str, str]] = {}
        self._woken, self._wake = os.pipe()
        self._poll = select.poll()

    def run(self) -> None:
        """Serve until standard input ends."""
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for descriptor in (0, self._woken, self._listener.fileno()):
            self._poll.register(descriptor, select.POLLIN | select.POLLHUP)
        while True:
            for ready, _ in self._poll.poll():
                if ready == 0:
                    return
                if ready == self._woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._woken, 512)
                    self._tell_ends()
                elif ready == self._listener.fileno():
                    self._serve(self._listener.accept()[0])
                else:
                    self._end_of(ready)

    def _serve(self, connection: socket.socket) -> None:
        length, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
        body = b""
        while len(body) < int.from_bytes(length):
            body += connection.recv(1 << 16)
        order = json.loads(body)
        if "module" not in order:
            with connection:
                self._tell(connection, running=self._environs)
            return
        pid = os.fork()
        if pid == 0:
            self._become(order, descriptors, connection)
        for descriptor in descriptors:
            os.close(descriptor)
        self._connections[pid] = connection
        self._environs[pid] = order["env"]
        self._poll.register(connection, select.POLLIN | select.POLLHUP)
        self._tell(connection, pid=pid)

    def _end_of(self, descriptor: int) -> None:
        """End the process of whoever is gone without having waited for it."""
        for pid, connection in self._connections.items():
            # Asked, because the number may have come to be that of a new connection meanwhile.
            if connection.fileno() == descriptor and _is_ended(connection):
                self._poll.unregister(descriptor)
                os.kill(pid, signal.SIGKILL)

    def _tell_ends(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            del self._environs[pid]
            with self._connections.pop(pid) as connection:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(connection)
                self._tell(connection, code=os.waitstatus_to_exitcode(status))

    @staticmethod
    def _tell(connection: socket.socket, **said: Any) -> None:
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
            _fork_own_processes(self._address)
            run = _be_zygote if order["module"] == ZYGOTE else _run
            code = run(order["module"], order["args"])
        finally:
            os._exit(code)


def _is_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


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


def _fork_own_processes(address: str) -> None:
    """Have the process fork a hub that it starts, and a hub the parent of its workers, unless it is
    asked for real ones."""
    if REAL_PROCESSES.items() <= os.environ.items():
        return
    from pilothouse.hub.workers import factory

    names = vars(factory)
    start_child, execve = names["start_child"], os.execve

    def start(argv: Sequence[str], **how: Any) -> Any:
        return start_child(_forked(argv, address), **how)

    def execute(path: str, argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
        execve(path, list(_forked(argv, address)), env)

    names["start_child"] = start
    os.execve = execute  # type: ignore[assignment]


def _forked(argv: Sequence[str], address: str) -> Sequence[str]:
    """Return the command that forks what another would start, if it is one of our own."""
    for module in (HUB, ZYGOTE):
        real = [sys.executable, "-P", "-m", module]
        if list(argv[: len(real)]) == real:
            return [sys.executable, "-I", "-S", str(SHIM), address, module, *argv[len(real) :]]
    return argv


def _be_zygote(_module: str, args: list[str]) -> int:
    """Run the module of warm parents, less what this process did when it was the fork server."""
    from pilothouse.hub.workers import worker, zygote

    tempfile.gettempdir()  # asked before workers have another
    zygote.run(args[0], lambda: None, worker.serve)
    return 0


def main(ready: int) -> None:
    from importlib import import_module

    from pilothouse.hub.workers.worker import warm_up

    for module in MODULES:
        import_module(module)
    warm_up(Path(tempfile.gettempdir()))
    # Not a TemporaryDirectory: each fork would remove it when it exits.
    path = os.path.join(tempfile.mkdtemp(prefix="fork-"), "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        with socket.socket(fileno=ready) as told:
            told.sendall(path.encode())
        Server(listener, path).run()
    os.unlink(path)
    os.rmdir(os.path.dirname(path))


if __name__ == "__main__":
    main(int(sys.argv[1]))

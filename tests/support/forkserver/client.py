"""Starts processes through the fork server of this test process, and waits for them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.support.forkserver.names import SHIM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_GUARD_S = 120.0

home_environ: dict[str, str] = {}
"""Environment of the fork server itself, which outlives the test that is the first to need it."""
_server: _Server | None = None
_starting = threading.Lock()


class Forked:
    """A forked process, with what tests use of `subprocess.Popen`."""

    stdin: IO[Any] | None
    stdout: IO[Any] | None
    stderr: IO[Any] | None

    def __init__(
        self, argv: Sequence[str], environ: Mapping[str, str], connection: socket.socket
    ) -> None:
        self.args = list(argv)
        self.environ = dict(environ)
        self.returncode: int | None = None
        self.stdin = self.stdout = self.stderr = None
        self._connection = connection
        self._read = b""
        self._waiting = threading.Lock()
        self.pid = int(self._receive()["pid"])

    def _receive(self) -> dict[str, int]:
        while b"\n" not in self._read:
            chunk = self._connection.recv(200)
            if not chunk:
                raise RuntimeError("the fork server has died")
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        told: dict[str, int] = json.loads(line)
        return told

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, once there is one; below zero: the signal that ended it."""
        if not self._waiting.acquire(timeout=-1 if timeout is None else timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        try:
            if self.returncode is None:
                self._connection.settimeout(timeout)
                try:
                    self.returncode = self._receive()["code"]
                except (TimeoutError, BlockingIOError):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
                self._connection.close()
            return self.returncode
        finally:
            self._waiting.release()

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Server:
    """The fork server of this process; it ends when its standard input does."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forkserver.server", str(theirs.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                env=home_environ or None,
            )
            theirs.close()
            ours.settimeout(START_GUARD_S)
            self.address = ours.recv(200)
        assert self.address, "the fork server did not start"

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(START_GUARD_S)


def start(
    module: str,
    *args: str,
    env: Mapping[str, str],
    cwd: Path,
    stdin: int | None = subprocess.PIPE,
    text: bool = False,
) -> Forked:
    """Start `python -m module args…` with pipes to its stdout and stderr, and to its stdin."""
    server = _running()
    sys.audit("subprocess.Popen", module, list(args), str(cwd), None)  # it is as good as one
    inner_in, outer_in = os.pipe() if stdin == subprocess.PIPE else (os.open(os.devnull, 0), -1)
    outer_out, inner_out = os.pipe()
    outer_err, inner_err = os.pipe()
    theirs = [inner_in, inner_out, inner_err]
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(START_GUARD_S)
        connection.connect(server.address)
        order = {"module": module, "args": list(args), "env": dict(env), "cwd": str(cwd)}
        body = json.dumps(order).encode()
        socket.send_fds(connection, [len(body).to_bytes(4)], theirs)
        connection.sendall(body)
        process = Forked([sys.executable, "-m", module, *args], env, connection)
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    mode = "" if text else "b"
    if outer_in >= 0:
        process.stdin = os.fdopen(outer_in, f"w{mode}")
    process.stdout = os.fdopen(outer_out, f"r{mode}")
    process.stderr = os.fdopen(outer_err, f"r{mode}")
    return process


def command(module: str, *args: str) -> list[str]:
    """Return a command line that runs `python -m module args…` as a fork."""
    address = _running().address.decode()
    return [sys.executable, "-I", "-S", str(SHIM), address, module, *args]


@dataclass(frozen=True, slots=True)
class Running:
    """A process that was forked and has not ended; /proc shows the fork server's environment."""

    pid: int
    environ: dict[str, str]


def living() -> list[Running]:
    """Return the forked processes that still run, whoever asked for them."""
    if _server is None:
        return []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(_server.address)
        connection.sendall((2).to_bytes(4) + b"{}")
        running: dict[str, dict[str, str]] = json.load(connection.makefile("rb"))["running"]
    found = [Running(int(pid), environ) for pid, environ in running.items()]
    return [one for process in found for one in (process, *_forks_of(process))]


def _forks_of(process: Running) -> list[Running]:
    """Return the workers of a warm parent, which are forks of a fork."""
    with suppress(OSError):
        command_line = _proc(process.pid, "cmdline")
        children = _proc(process.pid, f"task/{process.pid}/children").split()
        return [
            Running(int(pid), process.environ)
            for pid in children
            if _proc(int(pid), "cmdline") == command_line
        ]
    return []


def _proc(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def close() -> None:
    """End the fork server, if there is one."""
    global _server
    if _server is not None:
        _server.close()
        _server = None


def _running() -> _Server:
    global _server
    with _starting:
        if _server is None:
            _server = _Server()
        return _server

"""Child processes that never outlive us, nor anything that they start.

Each child has a reaper beside it (reaper.py), which holds one end of a socket whose other end is
ours alone: when we die, by whatever cause, the socket closes and the reaper ends the whole tree.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REAPER = Path(__file__).with_name("reaper.py")
LOST_S = 10.0
"""Seconds after the grace for the tree to be dead: only an unkillable process needs them."""
_PIECE = 1 << 16
_PIPE_LIMIT = 1 << 20
"""Most bytes that a pipe holds, unless root made it larger."""
# The reaper runs the same Python as we do, which may need its libraries found in the same place.
_LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

type Output = int | Literal["pipe"]


class Child:
    """A command that runs beside us. Made by `start_child` alone."""

    def __init__(self, reaper: subprocess.Popen[bytes], link: socket.socket) -> None:
        self.pid = 0
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._reaper = reaper
        self._socket = link
        self._link: asyncio.Transport | None = None
        self._pipes: list[_Pipe] = []
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._gone = asyncio.Event()
        self._killed = False
        self._unwanted = False
        self._watching: asyncio.Task[None] | None = None

    @property
    def exit_code(self) -> int | None:
        """Exit code of the command itself, None while it runs; below 0: the signal it died of."""
        return self._exit.result() if self._exit.done() else None

    @property
    def gone(self) -> bool:
        """Tell whether neither the command nor anything that it started lives."""
        return self._gone.is_set()

    async def wait(self) -> int:
        """Wait for the command's exit code. All that it wrote is in the readers by then."""
        return await asyncio.shield(self._exit)

    async def wait_gone(self) -> None:
        """Wait until everything has ended, a server that the command left behind included."""
        await self._gone.wait()

    async def stop(self, grace: float = 5.0) -> bool:
        """End it and everything below it; return whether that needed no force.

        Raises:
            TimeoutError: something cannot be killed, such as a process of another user.
        """
        self._ask_to_stop(grace)
        async with asyncio.timeout(grace + LOST_S):
            await self._gone.wait()
        return not self._killed

    def kill_now(self) -> None:
        """End everything without a grace, and do not wait for it."""
        self._ask_to_stop(0)

    def _ask_to_stop(self, grace: float) -> None:
        if self._link is None:
            self._unwanted = True
        elif not self.gone:
            self._link.write(b"stop %f\n" % grace)

    async def _watch(self, order: bytes, outputs: Mapping[str, int], given: int | None) -> None:
        try:
            if given is not None:
                self.stdin = await _writer(given)
            for name, descriptor in outputs.items():
                pipe = await _Pipe.open(descriptor)
                self._pipes.append(pipe)
                setattr(self, name, pipe.reader)
            self._link, heard = await asyncio.get_running_loop().create_unix_connection(
                lambda: _Link(self._socket, self._receive), sock=self._socket
            )
            self._link.write(order)
            if self._unwanted:
                self.kill_now()
            await heard.ended.wait()
        finally:
            # Also when the event loop ends before the child does: the reaper takes it as our end.
            if self._link is None:
                self._socket.close()
            else:
                self._link.close()
        self._bury()

    def _receive(self, words: list[str]) -> None:
        match words:
            case ["pid", pid]:
                self.pid = int(pid)
                _settle(self._started, None)
            case ["failed", number, where]:
                code = int(number)
                # Python chooses FileNotFoundError and the like by the number.
                _settle(self._started, OSError(code, os.strerror(code), where))
            case ["exit", code]:
                self._pull()
                _settle(self._exit, int(code))
            case ["gone", killed]:
                self._killed = killed == "1"

    def _bury(self) -> None:
        # The reaper held its end of the socket until it died: this takes no time.
        if self._reaper.wait() != 0 and self.pid:
            # Somebody killed the reaper. The command died with it; its group can still be ended.
            self._killed = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._pull()
        if self.stdin is not None:
            self.stdin.close()
        for pipe in self._pipes:
            pipe.transport.close()
        _settle(self._started, ChildProcessError("the reaper ended before the command started"))
        _settle(self._exit, -signal.SIGKILL)
        self._gone.set()

    def _pull(self) -> None:
        for pipe in self._pipes:
            pipe.pull()


def _settle[T](future: asyncio.Future[T], outcome: T | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class _Link(asyncio.Protocol):
    """The connection to a reaper, which passes on line by line what it reports."""

    def __init__(self, end: socket.socket, hear: Callable[[list[str]], None]) -> None:
        self.ended = asyncio.Event()
        self._socket = end
        self._receive = hear
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._receive(line.decode().split())

    def connection_lost(self, exc: Exception | None) -> None:
        # What we send too late breaks the connection before the reaper's last lines are read.
        with suppress(OSError):
            while data := self._socket.recv(_PIECE):
                self.data_received(data)
        self.ended.set()


class _Pipe:
    """One output of a child."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.reader = asyncio.StreamReader()
        self.transport: asyncio.ReadTransport

    @classmethod
    async def open(cls, descriptor: int) -> _Pipe:
        pipe = cls(descriptor)
        pipe.transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(pipe.reader),
            os.fdopen(descriptor, "rb", buffering=0),
        )
        return pipe

    def pull(self) -> None:
        """Take in what the pipe holds now, which the event loop might only get to later."""
        taken = 0
        with suppress(BlockingIOError):
            while not self.transport.is_closing() and taken < _PIPE_LIMIT:
                data = os.read(self.descriptor, _PIECE)
                if not data:
                    break
                self.reader.feed_data(data)
                taken += len(data)


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    """Return a stream that writes to our end of a pipe."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
        os.fdopen(descriptor, "wb", buffering=0),
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def start_child(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: Output,
    stderr: Output,
    stdin: Literal["pipe"] | None = None,
    own_session: bool = True,
) -> Child:
    """Start a command by its path (PATH is not searched).

    Its standard input is empty unless a pipe is asked for, its environment exactly `env`. In a
    session of its own it can ask nobody at a terminal; without, it has a process group alone.

    Raises:
        FileNotFoundError, PermissionError, OSError: it could not be started, or not in that
            folder; `filename` says which.
        ValueError: a zero byte in an argument or variable.
    """
    theirs, ours = os.pipe() if stdin else (-1, None)
    try:
        order = _order(argv, cwd, env, theirs, own_session=own_session)
        child, outputs = _launch(argv[0], stdout, stderr, theirs, own_session=own_session)
    except BaseException:
        if ours is not None:
            os.close(ours)
        raise
    finally:
        if ours is not None:
            os.close(theirs)
    child._watching = asyncio.create_task(child._watch(order, outputs, ours))
    try:
        await child._started
    except OSError as error:
        await child.wait_gone()
        error.filename = str(cwd) if error.filename == "folder" else argv[0]
        raise
    except BaseException:
        child.kill_now()
        raise
    return child


def _order(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: int, *, own_session: bool
) -> bytes:
    words = [str(os.getpid()), str(int(own_session)), str(stdin), str(cwd.absolute())]
    words += [str(len(argv)), *argv]
    words += [f"{name}={value}" for name, value in env.items()]
    if any("\0" in word for word in words):
        raise ValueError("a command's arguments and variables cannot hold a zero byte")
    order = b"".join(os.fsencode(word) + b"\0" for word in words)
    return b"%d\n" % len(order) + order


def _launch(
    name: str, stdout: Output, stderr: Output, stdin: int, *, own_session: bool
) -> tuple[Child, dict[str, int]]:
    """Start the reaper; return its child, and our ends of the pipes by the name of the output."""
    ours, theirs = socket.socketpair()
    given: dict[str, int] = {}
    kept: dict[str, int] = {}
    for_them: list[int] = []
    try:
        for output, wish in (("stdout", stdout), ("stderr", stderr)):
            if wish == "pipe":
                kept[output], given[output] = os.pipe()
                for_them.append(given[output])
            else:
                given[output] = wish
        reaper = subprocess.Popen(
            # The name is for whoever looks at the list of processes.
            [sys.executable, "-I", "-S", "-B", str(REAPER), name],
            stdin=theirs.fileno(),
            stdout=given["stdout"],
            stderr=given["stderr"],
            env={key: os.environ[key] for key in _LIBRARY_PATHS if key in os.environ},
            start_new_session=own_session,
            process_group=None if own_session else 0,
            # Its own standard input is the socket; the command's comes beside it.
            pass_fds=(stdin,) if stdin >= 0 else (),
        )
    except BaseException:
        ours.close()
        for descriptor in kept.values():
            os.close(descriptor)
        raise
    finally:
        theirs.close()
        for descriptor in for_them:
            os.close(descriptor)
    ours.setblocking(False)
    return Child(reaper, ours), kept

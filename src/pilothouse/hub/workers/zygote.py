"""The warm parent: a process that has imported everything and forks a worker when it is asked.

It has one thread and no event loop while it forks, since neither survives a fork whole. What is
said on its control socket, one JSON object a line:

    hub:     {"fork": NAME, "socket": PATH, "cwd": PATH, "settings": {…},
              "session": NAME, "services": PATH, "temp": PATH}
             {"signal": NAME, "number": N}    to the worker; SIGKILL to its process group
    parent:  {"warm": true}                   once, when it may be asked
             {"forked": NAME, "pid": N}
             {"ready": NAME}                  its socket is answered
             {"failed": NAME, "why": TEXT}    it could not start; its end follows
             {"ended": NAME, "code": N}       below zero: the signal that ended it
             {"refused": WHY, "fork": NAME}   what came was none of these words; with the name, if
                                              it has one, of the worker that was wanted

The parent leaves when the socket closes or on SIGTERM, after its workers; a worker dies with it.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pilothouse.ipc.local_socket import listen_at
from pilothouse.machine.shared_pages import share_what_lives

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    type Serve = Callable[[WorkerOrder, socket.socket, ZygoteLink], int]
    """Serves on the listener until a signal or until the link breaks; returns the exit code."""

LONGEST = 4 << 20
"""Bytes of a line at most."""
_LINE = 1 << 16
_REPORTED = 4_000
"""Characters of a failure that the hub gets; the log has all of it."""
_PR_SET_PDEATHSIG = 1
_READY, _FAILED = b"+", b"-"


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """A worker that is wanted."""

    name: str
    socket: str
    cwd: str
    settings: Mapping[str, Any]
    session: str = ""
    """The hub's name for whom it will serve."""
    services: str = ""
    """The socket by which it reaches what the hub has for all; empty: there is none."""
    temp: str = ""
    """The folder for what its browsers keep while they run; empty: everybody's."""


class ZygoteProtocolError(ValueError):
    """Breach of the control socket's protocol."""


_TEXTS = ("fork", "socket", "cwd", "session", "services", "temp")


def parse_order(word: Mapping[str, Any]) -> WorkerOrder:
    """Return the worker that a word asks for. Raises ZygoteProtocolError."""
    for name in _TEXTS:
        if not isinstance(word.get(name), str):
            raise ZygoteProtocolError(f"{name} must be a text")
    if not isinstance(word.get("settings"), dict):
        raise ZygoteProtocolError("settings must be an object")
    name, path, cwd, session, services, temp = (word[one] for one in _TEXTS)
    return WorkerOrder(name, path, cwd, word["settings"], session, services, temp)


def _decode_line(line: bytes) -> dict[str, Any]:
    """Return the object of a line. Raises ZygoteProtocolError."""
    try:
        word = json.loads(line)
    except (ValueError, RecursionError):
        raise ZygoteProtocolError("a line is not JSON") from None
    if not isinstance(word, dict):
        raise ZygoteProtocolError("a line is not an object")
    return word


class ZygoteLink:
    """A worker's link to the zygote: one side learns of the start by it, the other of the end."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def fileno(self) -> int:
        """Return the descriptor, which becomes readable when the parent has died."""
        return self._end.fileno()

    def ready(self) -> None:
        self._say(_READY)

    def failed(self, why: str) -> None:
        self._say(_FAILED + why[-_REPORTED:].encode(errors="replace"))

    def _say(self, word: bytes) -> None:
        with suppress(OSError):  # a parent that has died is noticed elsewhere
            self._end.sendall(word)


@dataclass(slots=True)
class _Worker:
    name: str
    pid: int
    link: socket.socket


class Zygote:
    """Forks workers, tells of their ends, and ends with them."""

    def __init__(self, control: socket.socket, serve: Serve) -> None:
        self._control = control
        self._serve = serve
        self._workers: dict[int, _Worker] = {}
        self._links: dict[int, _Worker] = {}
        self._rest = b""
        self._leaving = False
        self._was_asked_to_leave = False
        self._woken, self._wake = os.pipe()
        self._poll = select.poll()

    def run(self) -> None:
        """Serve until the hub lets go and the last worker has ended."""
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._note_sigterm)
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._tell(warm=True)
        while self._workers or not self._leaving:
            for ready, _ in self._poll.poll():
                self._attend(ready)

    def _note_sigterm(self, _number: int, _frame: object) -> None:
        # No more than that: it may come in the midst of a fork. The pipe wakes the loop.
        self._was_asked_to_leave = True

    def _attend(self, ready: int) -> None:
        if ready == self._woken:
            with suppress(BlockingIOError):
                os.read(self._woken, 512)
            self._bury()
            if self._was_asked_to_leave:
                self._leave()
        elif ready == self._control.fileno():
            self._listen()
        elif ready in self._links:
            self._receive(self._links[ready])

    def _listen(self) -> None:
        try:
            said = self._control.recv(_LINE)
        except OSError:
            said = b""
        if not said:
            self._poll.unregister(self._control)
            self._leave()
        *lines, self._rest = (self._rest + said).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
            self._tell(refused="a line is too long")
        for line in lines:
            try:
                self._obey(line)
            except ZygoteProtocolError as bad:
                # Who asks is the hub alone. All workers would die with us for one odd line.
                self._tell(refused=str(bad))

    def _obey(self, line: bytes) -> None:
        """Do what a line asks for. Raises ZygoteProtocolError."""
        word = _decode_line(line)
        if "fork" in word:
            try:
                order = parse_order(word)
            except ZygoteProtocolError as bad:
                name = word["fork"]
                self._tell(refused=str(bad), fork=name if isinstance(name, str) else "")
                return
            try:
                self._fork(order)
            except (OSError, ValueError) as error:  # no more processes, or no such socket
                self._tell(failed=order.name, why=str(error))
                self._tell(ended=order.name, code=-signal.SIGKILL)
        elif "signal" in word:
            number = word.get("number")
            if type(number) is not int or number not in signal.valid_signals():
                raise ZygoteProtocolError(f"{str(number)[:40]!a} is no signal")
            for worker in self._workers.values():
                if worker.name == word["signal"]:
                    _send(worker.pid, number)
        else:
            raise ZygoteProtocolError("neither fork nor signal")

    def _fork(self, order: WorkerOrder) -> None:
        if self._leaving:
            raise OSError("the parent of the workers is about to end")
        listener = listen_at(order.socket)
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            for end in (listener, ours, theirs):
                end.close()
            raise
        if pid == 0:
            self._become_worker(order, listener, theirs, parent)
        listener.close()
        theirs.close()
        ours.setblocking(False)
        worker = _Worker(order.name, pid, ours)
        self._workers[pid] = self._links[ours.fileno()] = worker
        self._poll.register(ours, select.POLLIN)
        self._tell(forked=order.name, pid=pid)

    def _become_worker(
        self, order: WorkerOrder, listener: socket.socket, end: socket.socket, parent: int
    ) -> NoReturn:
        """Be the worker, in the fork: let go of what belongs to the parent, and never return."""
        code = 1
        link = ZygoteLink(end)
        try:
            die_with(parent)
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            self._control.close()
            os.close(self._woken)
            os.close(self._wake)
            for sibling in self._workers.values():
                sibling.link.close()
            _enter(order.cwd)
            gc.enable()
            code = self._serve(order, listener, link)
        except FolderGone as error:
            link.failed(str(error))
        except BaseException as error:
            link.failed("".join(traceback.format_exception(error)))
            traceback.print_exc()
        finally:
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(code)

    def _receive(self, worker: _Worker) -> None:
        """Receive a worker's one word, when it serves or has failed; then its end closes."""
        try:
            said = worker.link.recv(_LINE)
        except BlockingIOError:
            return  # the event was of another whose descriptor had this number before
        except OSError:
            said = b""
        if said.startswith(_READY):
            self._tell(ready=worker.name)
        if said and (_FAILED in said):
            why = said.partition(_FAILED)[2].decode(errors="replace")
            self._tell(failed=worker.name, why=why)
        if not said:
            self._forget_link(worker)

    def _bury(self) -> None:
        while self._workers:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            worker = self._workers.pop(pid, None)
            if worker is None:
                continue
            self._receive(worker)  # its last word may not have been read yet
            self._forget_link(worker)
            self._tell(ended=worker.name, code=os.waitstatus_to_exitcode(status))

    def _forget_link(self, worker: _Worker) -> None:
        if self._links.pop(worker.link.fileno(), None):
            self._poll.unregister(worker.link)
        if worker.pid not in self._workers:
            worker.link.close()

    def _leave(self) -> None:
        self._leaving = True
        for worker in self._workers.values():
            _send(worker.pid, signal.SIGTERM)

    def _tell(self, **word: object) -> None:
        with suppress(OSError):  # the hub has died, which is noticed where it is listened to
            self._control.sendall(json.dumps(word).encode() + b"\n")


def run(control: str, warm_up: Callable[[], None], serve: Serve) -> None:
    """Be the warm parent of the hub that listens at `control`.

    `warm_up` imports and does whatever workers would each do for themselves. It must leave neither
    a thread nor an event loop behind.
    """
    link = socket.socket(socket.AF_UNIX)
    link.connect(control)
    warm_up()
    share_what_lives()
    Zygote(link, serve).run()


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent, of that number, ends; on Linux."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it ended before that was set


class FolderGone(Exception):
    """A worker cannot be where its client is."""


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except (OSError, ValueError) as error:  # the latter: no folder can have such a name
        said = error.strerror if isinstance(error, OSError) else str(error)
        why = f"the client's folder {folder!r} cannot be entered ({said})"
        raise FolderGone(f"{why}; start the client in one that is there") from None


def _send(pid: int, number: int) -> None:
    """Signal a worker that was not waited for yet, so that the number is still its own."""
    if number != signal.SIGKILL:
        # It ends what it has started, in order: a driver that ended beside it would leave the
        # profiles of its browsers behind.
        os.kill(pid, number)
        return
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        # It was forked a moment ago and has no group yet.
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    except PermissionError:
        pass  # macOS says so of a group of zombies

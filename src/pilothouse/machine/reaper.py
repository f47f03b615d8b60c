"""Starts one command and sees to it that nothing of it outlives its owner.

A script of its own, started by path with `-I -S -B` and few imports, because every child waits for
it. Its standard input is one end of a socket pair; the owner holds the other. What is sent on it:

    owner:   LENGTH newline, then the order: owner's pid, 1 if the command is to have a session of
             its own and not only a process group, descriptor of the command's standard input
             (-1: it has none), folder, count of arguments, arguments, KEY=VALUE of the environment,
             each ended by a zero byte
             "stop SECONDS": end everything, with so much time to go by itself
    reaper:  "pid N" once the command runs, or "failed ERRNO folder|command"
             "exit CODE" of the command itself (below zero: the signal that ended it)
             "gone 0|1" when nothing of it lives any more; 1: something had to be killed

The end of the owner is the end of the socket, however the owner died. On Linux the reaper adopts
whatever lost its parent (a subreaper), so that a server which forked twice and opened a session of
its own is still below it in /proc. Elsewhere it can only end the command's process group.
"""

import ctypes
import os
import select
import signal
import sys
import time

OWNER = 0
STOP_GRACE_S = 5.0
"""Seconds of grace when the reaper itself is asked to end by SIGTERM."""
ORPHAN_GRACE_S = 0.5
"""Seconds of grace when the owner has died."""
LOOK_S = 0.5
"""Seconds between looks at the owner's pid: a fork of it may hold its end of the socket."""
ASK_AGAIN_S = 0.05
KILL_AGAIN_S = 0.01

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> bool:
    return sys.platform == "linux" and not ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def tell(line: str) -> None:
    try:
        os.write(OWNER, line.encode() + b"\n")
    except OSError:
        pass  # the owner has died, which is dealt with where it is noticed


def read_order() -> list[bytes]:
    """Read the parts of the order; none if the owner died over it."""
    length = b""
    while not length.endswith(b"\n"):
        digit = os.read(OWNER, 1)
        if not digit:
            return []
        length += digit
    wanted = int(length)
    pieces = []
    while wanted:
        piece = os.read(OWNER, min(wanted, 1 << 16))
        if not piece:
            return []
        pieces.append(piece)
        wanted -= len(piece)
    return b"".join(pieces).split(b"\0")[:-1]


def start(
    folder: bytes,
    argv: list[bytes],
    environment: dict[bytes, bytes],
    standard_input: int,
    own_session: bool,
) -> int:
    """Start the command; return its pid once it runs, 0 if it could not be started."""
    news, failure = os.pipe()
    reaper = os.getpid()
    pid = os.fork()
    if pid == 0:
        at = "folder"
        try:
            become_child_of(reaper, standard_input, own_session)
            os.chdir(folder)
            at = "command"
            os.execve(argv[0], argv, environment)
        except OSError as error:
            os.write(failure, f"failed {error.errno} {at}".encode())
        finally:
            os._exit(127)
    os.close(failure)
    # The end of the pipe without any data is a successful exec, which closed it.
    failed = os.read(news, 100).decode()
    os.close(news)
    if failed:
        os.waitpid(pid, 0)
    tell(failed or f"pid {pid}")
    return 0 if failed else pid


def become_child_of(reaper: int, standard_input: int, own_session: bool) -> None:
    if own_session:
        os.setsid()
    else:
        os.setpgid(0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != reaper:
        os._exit(127)  # it died before that was set
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if standard_input < 0:
        standard_input = os.open(os.devnull, os.O_RDONLY)
    os.dup2(standard_input, 0)
    os.close(standard_input)


class Tree:
    """Everything below this process, as Linux shows it."""

    def __init__(self) -> None:
        self.asked: set[tuple[int, bytes]] = set()

    def left(self) -> bool:
        """Return False: without a child to wait for nobody is left, as all were adopted."""
        return False

    def ask(self) -> None:
        """Ask everybody to end, and on later calls those who were left behind since.

        A process may be forked while we look, and its parent end before it sees the signal: it is
        adopted unasked. But what has a parent is not asked later: it may be helping it to end.
        """
        children = self._children()
        adopted = children.get(os.getpid(), [])
        new = [one for one in adopted if one not in self.asked] if self.asked else adopted
        for one in self._below(new, children):
            if one not in self.asked:
                self.asked.add(one)
                send_to(*one, signal.SIGTERM)
                send_to(*one, signal.SIGCONT)  # one that is halted could not answer

    def kill(self) -> int:
        """Kill everybody; return how many were alive."""
        children = self._children()
        everybody = self._below(children.get(os.getpid(), []), children)
        return sum(send_to(*one, signal.SIGKILL) for one in everybody)

    def _children(self) -> dict[int, list[tuple[int, bytes]]]:
        """Return pid and start time of each child by its parent's pid."""
        children: dict[int, list[tuple[int, bytes]]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and (found := look(int(name))):
                _, parent, started = found
                children.setdefault(parent, []).append((int(name), started))
        return children

    def _below(
        self, top: list[tuple[int, bytes]], children: dict[int, list[tuple[int, bytes]]]
    ) -> list[tuple[int, bytes]]:
        found = list(top)
        for one in found:  # it grows while we go through it
            found += children.pop(one[0], [])
        return found


class ProcessGroup:
    """The process group of the command, where nothing better can be had."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.asked = False

    def left(self) -> bool:
        return self._send(0)

    def ask(self) -> None:
        if not self.asked:
            self.asked = True
            self._send(signal.SIGTERM)
            self._send(signal.SIGCONT)

    def kill(self) -> int:
        return int(self._send(signal.SIGKILL))

    def _send(self, number: int) -> bool:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False  # macOS says "not permitted" of a group of zombies
        return True


def look(pid: int) -> tuple[bool, int, bytes] | None:
    """Return whether a process lives, its parent and its start time; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name before the last bracket may hold anything.
            state, parent, *rest = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return state not in b"ZX", int(parent), rest[17]


def send_to(pid: int, started: bytes, number: int) -> int:
    """Send a signal, unless the pid has gone to another process; return 1 if it was alive."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return 0
    except OSError:
        handle = -1  # an older kernel, or a sandbox that does not know it
    try:
        found = look(pid)
        if found is None or found[2] != started:
            return 0
        # One that looks dead may have threads that live on after its first one.
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return 0
    finally:
        if handle >= 0:
            os.close(handle)
    return int(found[0])


class CommandEnd:
    """The loop that waits for the command's end, and for the request to end it."""

    def __init__(self, pid: int, owner: int, family: Tree | ProcessGroup, woken: int) -> None:
        self.pid = pid
        self.owner = owner
        self.family = family
        self.woken = woken
        self.deadline: float | None = None
        self.killed = 0
        self.asked = b""
        self.poll = select.poll()
        self.poll.register(OWNER, select.POLLIN)
        self.poll.register(woken, select.POLLIN)

    def run(self) -> None:
        again = KILL_AGAIN_S
        while self._anyone_left():
            if os.getppid() != self.owner:
                self.stop(ORPHAN_GRACE_S)
            if self.deadline is None:
                wait = LOOK_S
            elif (left := self.deadline - time.monotonic()) > 0:
                self.family.ask()
                wait = min(left, ASK_AGAIN_S)
            else:
                self.killed += self.family.kill()
                wait = again
                again = min(again * 2, LOOK_S)
            self._listen(wait)

    def stop(self, grace: float) -> None:
        """Begin to end everything; a second request may only shorten the time."""
        deadline = time.monotonic() + grace
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)

    def _anyone_left(self) -> bool:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self.family.left()
            if pid == 0:
                return True
            if pid == self.pid:
                tell(f"exit {os.waitstatus_to_exitcode(status)}")

    def _listen(self, wait: float) -> None:
        for ready, _ in self.poll.poll(wait * 1000):
            if ready == self.woken:
                if signal.SIGTERM in os.read(self.woken, 512):
                    self.stop(STOP_GRACE_S)
                continue
            try:
                said = os.read(OWNER, 4096)
            except OSError:
                said = b""
            if not said:
                self.poll.unregister(OWNER)
                self.stop(ORPHAN_GRACE_S)
            *lines, self.asked = (self.asked + said).split(b"\n")
            for line in lines:
                self.stop(float(line.split()[1]))


def main() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    order = read_order()
    if not order:
        return
    owner, own_session, standard_input = int(order[0]), order[1] == b"1", int(order[2])
    folder, count = order[3], int(order[4])
    argv, pairs = order[5 : 5 + count], order[5 + count :]
    # Both only have to wake the loop, through the pipe.
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    if os.getppid() != owner:
        return
    adopts = prctl(PR_SET_CHILD_SUBREAPER, 1) and os.path.exists("/proc/self/stat")
    environment = {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}
    pid = start(folder, argv, environment, standard_input, own_session)
    if not pid:
        return
    if standard_input >= 0:
        os.close(standard_input)
    # The owner must see the end of the command's output, which we would hold open; and no folder
    # is to be kept in use.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.chdir("/")
    watch = CommandEnd(pid, owner, Tree() if adopts else ProcessGroup(pid), woken)
    watch.run()
    tell(f"gone {int(watch.killed > 0)}")


if __name__ == "__main__":
    main()
    os._exit(0)

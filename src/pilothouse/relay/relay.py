"""The stdio relay: one client on stdin and stdout, served by a worker of the user's hub.

It answers what needs no worker itself (front.py). The first message that needs one has it
ask the hub, which answers with a socket; from then on lines pass between the client and the worker
directly, in both directions. The hub only sees that the relay is there: when it goes, so does the
worker. A worker or a hub that goes away is replaced when the client next asks for something.

One thread and no event loop: clients start this whenever they start themselves, and wait for it.
"""

from __future__ import annotations

import json
import select
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pilothouse.core.log_message import unpack
from pilothouse.core.net import jsonrpc
from pilothouse.hub.control.protocol import ControlProtocolError, LineBuffer, encode_line
from pilothouse.hub.http.replies import error_text
from pilothouse.hub.notices import RESET
from pilothouse.ipc.lines import Splitter
from pilothouse.relay.descriptors import End, Inflow, LogEnd, UnixSocketEnd, read
from pilothouse.relay.in_flight import (
    INTERNAL_ERROR,
    Flight,
    cancelled,
    what_is,
    with_notice,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.hub.control.protocol import RelayHello
    from pilothouse.relay.front import Front

LOOK_S = 0.02
"""Seconds between two looks for a hub that starts, or for what else is due soon."""
WELCOME_S = 0.25
"""Seconds that the client waits for a running hub: it may serve others than our own workers."""
TRIES = 8
"""Attempts at a worker: a hub may end before it names one, and a worker before it is reached."""
RETRY_S = 0.05
"""Seconds before another attempt, times the failures: a hub learns of a worker's end after us."""
PATIENCE_S = 120.0
"""Seconds that a request waits for a worker. A hub that is well reports sooner that it has none."""
LAST_LOG_S = 2.0
"""Seconds that a worker may take, when its client has left, to send the rest of its log."""
MOST_QUEUED = 8 << 20
"""Bytes that wait for a worker, beyond which the client is not read."""
_IN, _OUT = select.POLLIN, select.POLLOUT


class HubFailed(Exception):
    """Failure to find or start a hub; the message says why."""


class FindHub(Protocol):
    """The search for a hub, which is started if there is none."""

    def look(self) -> socket.socket | None:
        """Return a connection to the hub; None: not yet, look again soon. Raises HubFailed."""
        ...


class _Queued(NamedTuple):
    line: bytes
    message: dict[str, Any]


class _Leave(BaseException):
    """Request by a signal that this process ends."""


class Relay:
    """One client on stdio, its hub and its worker."""

    def __init__(
        self,
        front: Front,
        hello: RelayHello,
        search: Callable[[], FindHub],
        client: tuple[int, int, int] = (0, 1, 2),
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Prepare the relay; `begin` and then `run` start it.

        Args:
            front: What this client gets without a worker.
            hello: What the hub is told of this relay.
            search: Begins to look for a hub.
            client: The descriptors that are read and written, and that of its log.
            patience_s: How long a request may wait for a worker.
        """
        self._front = front
        self._hello = hello
        self._new_search = search
        self._search: FindHub | None = search()

        self._in = client[0]
        self._out = End(client[1])
        self._log = LogEnd(client[2])
        self._from_client = Splitter(jsonrpc.MAX_BYTES + 1)
        self._is_over = False
        """True once the client has closed its end."""
        self._leaves_at = 0.0
        """Time at which the rest of the worker's log is given up; 0: not yet known."""
        self._queue: deque[_Queued] = deque()
        """Requests that wait for a worker."""
        self._queued = 0
        self._patience_s = patience_s
        self._given_up_at = 0.0

        self._hub: UnixSocketEnd | None = None
        self._from_hub = LineBuffer()
        self._is_welcome = False
        self._is_asked = False
        """True while the hub owes an answer about a worker."""
        self._failures = 0
        self._retry_at: float | None = None

        self._worker: UnixSocketEnd | None = None
        self._from_worker: Inflow | None = None
        self._flight = Flight()
        self._had_worker = False
        self._owes_notice = False

        self._poll = select.poll()
        self._watched: dict[int, int] = {}

    def begin(self) -> None:
        """Find the hub or have it started, before the client is read. Raises HubFailed."""
        if self._look():
            self._await_welcome()

    def run(self) -> int:
        """Serve until the client has gone and has had its answers; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _leave)
        with suppress(_Leave, BrokenPipeError):  # the latter: the client reads no more
            while not self._may_leave():
                self._wait()
        return 0

    def _await_welcome(self) -> None:
        until = time.monotonic() + WELCOME_S
        poll = select.poll()
        while self._hub is not None and not self._is_welcome:
            left = until - time.monotonic()
            poll.register(self._hub.fd, _IN)
            if left <= 0 or not poll.poll(left * 1000):
                return
            self._receive_from_hub()

    def _may_leave(self) -> bool:
        """Tell whether the client has left and has all that it is owed."""
        if not self._is_over or self._queue or self._out.waiting:
            return False
        if self._worker is None:
            return True
        if self._flight:
            return False
        # The worker hangs up when it has sent all of its log.
        self._leaves_at = self._leaves_at or time.monotonic() + LAST_LOG_S
        return time.monotonic() >= self._leaves_at

    # Waiting

    def _wait(self) -> None:
        self._watch()
        is_looking = self._search is not None
        ready = self._poll.poll(self._look_again_ms)
        # The client last: what it says is not for a worker that has gone by now.
        for fd, what in sorted(ready, key=lambda one: one[0] == self._in):
            self._attend(fd, what)
        if is_looking:
            try:
                self._look()
            except HubFailed as failed:
                self._fail(str(failed))
        if self._retry_at is not None and time.monotonic() >= self._retry_at:
            self._retry_at = None
            if self._queue:
                self._want_worker()
        if self._queue and time.monotonic() > self._given_up_at:
            self._fail("the hub does not answer; `pilothouse stop` ends it")
            self._lose_hub()

    @property
    def _look_again_ms(self) -> float | None:
        if self._search is not None or self._retry_at is not None or self._leaves_at:
            return LOOK_S * 1000
        return self._patience_s * 1000 / 4 if self._queue else None

    def _watch(self) -> None:
        """Poll only for what can be dealt with: who is not read, waits."""
        wanted: dict[int, int] = {}
        is_congested = self._out.is_congested
        if not self._is_over and not is_congested and not self._is_full:
            wanted[self._in] = _IN
        # Even if nothing waits to be written: poll reports unasked that nobody reads any more.
        wanted[self._out.fd] = wanted.get(self._out.fd, 0) | (_OUT if self._out.waiting else 0)
        for line, is_read in ((self._hub, True), (self._worker, not is_congested)):
            if line is not None and (is_read or line.waiting):
                wanted[line.fd] = (_IN if is_read else 0) | (_OUT if line.waiting else 0)
        if (log := self._log.waiting_fd) is not None:
            wanted[log] = wanted.get(log, 0) | _OUT
        if wanted == self._watched:
            return
        for fd in self._watched.keys() - wanted.keys():
            self._poll.unregister(fd)
        for fd, interest in wanted.items():
            self._poll.register(fd, interest)
        self._watched = wanted

    @property
    def _is_full(self) -> bool:
        is_full = self._queued > MOST_QUEUED
        return is_full or (self._worker is not None and self._worker.is_congested)

    def _attend(self, fd: int, what: int) -> None:
        if what & _OUT and fd == self._out.fd:
            self._out.flush()
        if fd == self._log.waiting_fd:
            self._log.flush()
        for line in (self._hub, self._worker):
            if line is not None and fd == line.fd and what & _OUT:
                with suppress(OSError):  # its end is noticed where it is read
                    line.flush()
        if not what & ~_OUT:
            return
        if self._hub is not None and fd == self._hub.fd:
            self._receive_from_hub()
        elif self._worker is not None and fd == self._worker.fd:
            self._receive_from_worker()
        elif fd == self._in and not self._is_over:
            self._receive_from_client()
        elif fd == self._out.fd:
            raise BrokenPipeError

    # The client

    def _receive_from_client(self) -> None:
        data = read(self._in)
        if data is None:
            return
        for line in self._from_client.take(data):
            self._take(line)
        if data:
            return
        self._take(self._from_client.rest())
        self._is_over = True
        if self._worker is not None:
            self._worker.end_writing()

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        message = jsonrpc.parse(line)
        if isinstance(message, jsonrpc.Refusal):
            self._out.send(json.dumps(message.response()).encode())
            return
        self._front.note(message)
        if self._worker is not None:
            self._pass(line, message)
        elif answer := self._front.answer(message):
            self._out.send(answer)
        elif "id" in message and "method" in message:
            self._enqueue(line, message)
            self._want_worker()
        elif message.get("method") == "notifications/cancelled":
            # All else that needs no answer is of no use to a worker that starts later.
            self._unqueue(cancelled(message))

    def _enqueue(self, line: bytes, message: dict[str, Any]) -> None:
        if not self._queue:
            self._given_up_at = time.monotonic() + self._patience_s
        self._queue.append(_Queued(line, message))
        self._queued += len(line)

    def _unqueue(self, id: object) -> None:
        self._queue = deque(one for one in self._queue if one.message["id"] != id)
        self._queued = sum(len(one.line) for one in self._queue)

    def _fail(self, why: str, code: int = INTERNAL_ERROR, data: object = None) -> None:
        """Answer all that waits for a worker: there will be none."""
        queue, self._queue, self._queued = self._queue, deque(), 0
        self._failures = 0
        for one in queue:
            self._out.send(error_text(one.message["id"], code, why, data))

    # The hub

    def _look(self) -> bool:
        """Connect to the hub if it is there by now; return whether it is. Raises HubFailed."""
        assert self._search is not None
        search, self._search = self._search, None
        link = search.look()
        if link is None:
            self._search = search
            return False
        self._hub, self._from_hub = UnixSocketEnd(link), LineBuffer()
        self._is_welcome = self._is_asked = False
        with suppress(OSError):
            self._hub.send(self._hello.line()[:-1])
        return True

    def _want_worker(self) -> None:
        if self._hub is None:
            self._search = self._search or self._new_search()
        elif self._is_welcome and not self._is_asked:
            self._is_asked = True
            with suppress(OSError):
                self._hub.send(encode_line(worker=True, client=self._front.client)[:-1])

    def _receive_from_hub(self) -> None:
        assert self._hub is not None
        data = read(self._hub.fd)
        if data is None:
            return
        try:
            for word in self._from_hub.take(data):
                self._obey(word)
        except ControlProtocolError:
            data = b""
        if not data:
            self._lose_hub()

    def _obey(self, word: dict[str, Any]) -> None:
        match word:
            case {"welcome": {"worker": kind} as about}:
                self._is_welcome = True
                if kind != "builtin":
                    self._front.forget_template()
                if about.get("paired"):
                    self._pair()
                if self._queue:
                    self._want_worker()
            case {"worker": {"lines": path, "fresh": fresh}}:
                self._is_asked = False
                self._join(path, fresh=fresh)
            case {"fault": {"message": why, "code": code, "retryAfter": wait}}:
                self._is_asked = False
                self._fail(why, code, {"retryAfterSec": round(wait)} if wait else None)
            case {"paired": True}:
                self._pair()
            case {"refused": why}:
                self._fail(f"the hub refused this client: {why}")
                self._lose_hub()

    def _pair(self) -> None:
        changed = self._front.pair()
        if changed is not None and self._worker is None:  # which would say it itself
            self._out.send(changed)

    def _lose_hub(self) -> None:
        """Let go of the hub, and of the worker, which ends with it."""
        if self._hub is not None:
            self._hub.close()
        self._hub = None
        self._is_welcome = self._is_asked = False
        self._lose_worker()
        if self._queue:
            self._try_again("the hub ended while it started a worker")

    def _try_again(self, why: str) -> None:
        self._failures += 1
        if self._failures < TRIES:
            self._retry_at = time.monotonic() + RETRY_S * self._failures
        else:
            self._fail(f"{why}; `pilothouse logs` has what it said")

    # The worker

    def _join(self, path: str, *, fresh: bool) -> None:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(path)
        except OSError:
            link.close()
            self._try_again("the worker ended before it could be reached")
            return
        self._worker, self._flight = UnixSocketEnd(link), Flight()
        self._from_worker = Inflow(self._worker.fd)
        self._owes_notice = self._had_worker or fresh
        self._had_worker = True
        self._failures = 0
        first = self._queue[0].message if self._queue else {}
        with suppress(OSError):  # its end is noticed where it is read, after its last words
            for line in self._front.introduction(first):
                self._worker.send(line)
        queue, self._queue, self._queued = self._queue, deque(), 0
        for one in queue:
            self._pass(*one)
        if self._is_over:
            self._worker.end_writing()

    def _pass(self, line: bytes, message: dict[str, Any]) -> None:
        assert self._worker is not None
        if not self._flight.passes(message):
            return
        try:
            self._worker.send(line)
        except OSError:
            # It takes no more, so it has not seen this: the next one will.
            if "id" in message and "method" in message:
                self._flight.forget(message)
                self._enqueue(line, message)

    def _receive_from_worker(self) -> None:
        assert self._from_worker is not None
        came = self._from_worker.read()
        if came is None:
            return
        for line in self._from_worker.lines():
            self._receive_line(line)
        if not came:
            self._lose_worker()

    def _receive_line(self, line: memoryview) -> None:
        logged = unpack(line)
        if logged is not None:
            self._log.write(logged)
            return
        what = what_is(line)
        if what is None or (what.is_answer and self._front.is_own(what.id)):
            return
        method = self._flight.answered(what)
        if self._owes_notice and method == "tools/call":
            self._owes_notice = False
            self._out.send(with_notice(bytes(line), RESET))
        else:
            self._out.pass_on(line)

    def _lose_worker(self) -> None:
        if self._worker is None:
            return
        self._worker.close()
        self._worker = self._from_worker = None
        for line in self._flight.lost():
            self._out.send(line)
        if self._queue and self._hub is not None:
            self._want_worker()


def _leave(_number: int, _frame: object) -> None:
    raise _Leave

"""Relays of a home of their own, with the real hub that they start or with one of the test's."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil

from pilothouse import __version__
from pilothouse.hub.control.protocol import ask
from pilothouse.hub.files import hub_files
from pilothouse.ipc.local_socket import listen_at
from tests.support.agent import Agent
from tests.support.living import living
from tests.support.servers import PRODUCT, RawStdio
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GUARD_S = 60.0
"""A hub's first start, on a machine that has other work."""


class Home:
    """The folder of one hub, and how relays are started that join it."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder = folder
        self.mark = mark
        self.env = {"PILOTHOUSE_HOME": str(folder), "LC_MARK": mark, "PILOTHOUSE_HTTP_PORT": "0"}
        self.files = hub_files(str(folder), os.environ)

    def raw(self, *args: str, **env: str) -> RawStdio:
        return RawStdio(*args, module=PRODUCT, env={**self.env, **env}, joins_hub=True)

    def agent(self, *args: str, **env: str) -> Agent:
        return Agent(*args, env={**self.env, **env}, joins_hub=True)

    def status(self) -> dict[str, Any] | None:
        """Of the hub; None: there is none."""
        try:
            told = ask(str(self.files.socket), {"status": True})
        except OSError:
            return None
        status: dict[str, Any] | None = told and told["status"]
        return status

    def workers(self) -> list[int]:
        """The processes that serve relays now."""
        status = self.status() or {"seats": []}
        return [seat["pid"] for seat in status["seats"] if seat["pid"]]

    def stop(self) -> bool:
        """End the hub, if there is one, and wait for it; whether all that it had is gone too."""
        status = self.status()
        if status is None:
            return living(self.mark) == []
        with suppress(OSError):
            ask(str(self.files.socket), {"stop": True})
        with suppress(psutil.Error):
            psutil.Process(status["pid"]).wait(GUARD_S)
        return living(self.mark) == []


@contextmanager
def relay_home(folder: Path, mark: str) -> Iterator[Home]:
    """A home until the block ends; then its hub has ended too."""
    home = Home(folder, mark)
    try:
        yield home
    finally:
        # One may be about to start, and not to be asked yet.
        wait_until(home.stop, "the end of the hub")


class Peer:
    """The test's end of a connection on which lines are spoken."""

    def __init__(self, link: socket.socket) -> None:
        link.settimeout(GUARD_S)
        self.link = link
        self._file = link.makefile("rb")

    def line(self) -> bytes:
        """The next one as it came; empty at the end."""
        return self._file.readline()

    def hear(self) -> Any:
        """What the next line says; None at the end."""
        line = self.line()
        return json.loads(line) if line else None

    def say(self, **word: object) -> None:
        self.link.sendall(json.dumps(word, separators=(",", ":")).encode() + b"\n")

    def message(self, **message: object) -> None:
        self.say(jsonrpc="2.0", **message)

    def close(self) -> None:
        with suppress(OSError):
            self.link.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self.link.close()


class PretendHub:
    """A hub that is the test itself, so that it can do what a real one would not do when asked."""

    def __init__(self, home: Home) -> None:
        home.files.socket.unlink(missing_ok=True)
        self._control = self._listen(str(home.files.socket))
        self._lines_path = str(home.folder / "lines")
        self._lines = self._listen(self._lines_path)
        self._peers: list[Peer] = []
        self.held = home.files.hold()

    def _listen(self, path: str) -> socket.socket:
        listener = listen_at(path)
        listener.settimeout(GUARD_S)
        return listener

    def _accept(self, listener: socket.socket) -> Peer:
        peer = Peer(listener.accept()[0])
        self._peers.append(peer)
        return peer

    def relay(self, *, worker: str = "builtin") -> Peer:
        """The next relay that joins, once it was welcomed."""
        peer = self._accept(self._control)
        assert set(peer.hear()) == {"hello"}
        peer.say(welcome={"version": __version__, "pid": 1, "url": "http://x", "worker": worker})
        return peer

    def worker(self, relay: Peer, *, fresh: bool = False) -> Peer:
        """Give the relay a worker when it asks for one, and be that worker."""
        assert relay.hear()["worker"] is True
        relay.say(worker={"lines": self._lines_path, "fresh": fresh})
        return self._accept(self._lines)

    def close(self) -> None:
        for peer in self._peers:
            peer.close()
        self._control.close()
        self._lines.close()
        if self.held is not None:
            os.close(self.held)


@contextmanager
def pretending(home: Home) -> Iterator[PretendHub]:
    hub = PretendHub(home)
    try:
        yield hub
    finally:
        hub.close()


def aside(do: Callable[[], object]) -> threading.Thread:
    """Do something that blocks, beside the test."""
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    return thread

"""Processes of ours that speak with their owner alone: the parent of workers, and the engine.

Nobody else can reach their sockets while they run. So each is started here, with this process in
the place of its owner.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tests.fuzz.frames import ENGINE, ZYGOTE, lines
from tests.fuzz.places import LISTEN_S, REACH_S
from tests.support.servers import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from random import Random

    from tests.fuzz.frames import Frames, Message


class OwnedProcess:
    """A process on the other end of one socket, which lasts as long as it. Implements `Place`."""

    def __init__(
        self,
        name: str,
        usual: Sequence[Message],
        asked: Message,
        process: subprocess.Popen[str],
        link: socket.socket,
        folder: Path,
    ) -> None:
        self.name = name
        self.log: list[str] = []
        self._usual = usual
        self._asked = asked
        self._process = process
        self._link = link
        self._folder = folder
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wanted = b"pong" if name == "engine" else b'"asked"'
        self._heard = b""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        self.log.extend(line.rstrip("\n") for line in self._process.stderr)

    def draw(self, random: Random) -> Frames:
        return lines(random, self._usual)

    def send(self, frames: Frames) -> None:
        """Send what is harmless; a line without its end is given one, as the socket stays open."""
        self._heard = b""
        for frame in frames:
            self._link.sendall(self._harmless(frame).rstrip(b"\n") + b"\n")
        self._hear(LISTEN_S)

    def _harmless(self, frame: bytes) -> bytes:
        """Return a frame that forks nothing but workers in this folder."""
        try:
            told = json.loads(frame)
        except (ValueError, RecursionError):
            return frame
        if isinstance(told, dict) and isinstance(told.get("socket"), str):
            told["socket"] = str(self._folder / str(abs(hash(told["socket"])) % 10))
            return json.dumps(told).encode()
        return frame

    def _hear(self, within: float, wanted: bytes = b"\n") -> bool:
        """Wait until something was said, and tell whether it was."""
        until = time.monotonic() + within
        while wanted not in self._heard and time.monotonic() < until:
            time.sleep(LISTEN_S / 10)
        return wanted in self._heard

    def _listen(self) -> None:
        # All the time, as an owner does: what answers at length would wait for us else.
        with suppress(OSError):
            while data := self._link.recv(1 << 20):
                self._heard += data

    def trouble(self) -> str:
        try:
            self._heard = b""
            self._link.sendall(json.dumps(self._asked).encode() + b"\n")
            heard = self._hear(REACH_S, self._wanted)
        except OSError as error:
            return f"it is gone ({error!r}): {self.log[-5:]}"
        return "" if heard else f"it does not answer: {self.log[-5:]}"

    def close(self) -> None:
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        self._listener.join(5)
        self._link.close()
        try:
            self._process.wait(REACH_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        assert self._process.stderr is not None
        self._process.stderr.close()


@contextmanager
def own_engine(folder: Path) -> Iterator[OwnedProcess]:
    """Run the proxy's engine until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pilothouse.intercept.engine", "--folder", str(folder)],
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=folder,
            env=environment(),
        )
    yield from _served(OwnedProcess("engine", ENGINE, ENGINE[0], process, ours, folder))


@contextmanager
def own_zygote(folder: Path) -> Iterator[OwnedProcess]:
    """Run a parent of workers until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    path = str(folder / "control")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(REACH_S)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.scripted_zygote", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment(),
        )
        link, _ = listener.accept()
    asked: dict[str, Any] = {**ZYGOTE[0], "fork": "asked", "socket": "/nowhere/at/all"}
    yield from _served(OwnedProcess("zygote", ZYGOTE, asked, process, link, folder))


def _served(owned: OwnedProcess) -> Iterator[OwnedProcess]:
    try:
        owned._hear(REACH_S)  # that it is ready
        yield owned
    finally:
        owned.close()

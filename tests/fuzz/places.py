"""The sockets of ours that get odd frames, and how each is asked whether it still serves."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin

from pilothouse.bookmarks.extension.protocol import ORIGIN
from pilothouse.ipc.frames import packed, pieces
from tests.fuzz.frames import (
    HELLO,
    MOST,
    extension_messages,
    http_bytes,
    json_bytes,
    lines,
    service_pieces,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.fuzz.frames import Frames, Message

LISTEN_S = 0.15
"""How long an answer is waited for, which need not come."""
REACH_S = 30.0


class Place(Protocol):
    """A socket that takes odd frames."""

    name: str

    def draw(self, random: Random) -> Frames: ...

    def send(self, frames: Frames) -> None:
        """Send them on a connection of their own. That it is closed on the way is no fault."""

    def trouble(self) -> str:
        """Say why the socket does not serve any more; nothing when it does."""


def exchange(link: socket.socket, frames: Frames) -> bytes:
    """Send on a connection, and return what comes back within a moment."""
    link.settimeout(REACH_S)
    with suppress(OSError):
        for frame in frames:
            link.sendall(frame)
    link.settimeout(LISTEN_S)
    heard = b""
    with suppress(OSError):
        while len(heard) < MOST and (data := link.recv(1 << 16)):
            heard += data
    return heard


@dataclass
class UnixPlace:
    """A unix socket at a path."""

    name: str
    path: str
    usual: Sequence[Message] = ()
    """Without them it takes pieces of messages."""

    def draw(self, random: Random) -> Frames:
        return lines(random, self.usual) if self.usual else service_pieces(random)

    def send(self, frames: Frames) -> None:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(REACH_S)
            link.connect(self.path)
            exchange(link, frames)

    def trouble(self) -> str:
        asked = (
            b'{"status": true}\n'
            if self.usual
            else b"".join(pieces(1, packed({"call": 1, "do": "hello", "with": {"session": "w"}})))
        )
        return _silence(socket.AF_UNIX, self.path, asked)


@dataclass
class HttpPlace:
    """A port of loopback that speaks HTTP."""

    name: str
    port: int
    paths: Sequence[str]
    usual: Sequence[Message]
    token: str = ""

    def draw(self, random: Random) -> Frames:
        return http_bytes(random, self.paths, self.usual, "<token>" if self.token else "")

    def send(self, frames: Frames) -> None:
        with socket.create_connection(("127.0.0.1", self.port), REACH_S) as link:
            heard = exchange(
                link, [frame.replace(b"<token>", self.token.encode()) for frame in frames]
            )
        if heard.startswith((b"HTTP/1.1 500", b"HTTP/1.0 500")):
            raise ServerError(heard[:300].decode("latin-1"))

    def trouble(self) -> str:
        asked = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        return _silence(socket.AF_INET, ("127.0.0.1", self.port), asked)


class ServerError(Exception):
    """A server answered that it has failed."""


def _silence(family: int, address: Any, asked: bytes) -> str:
    """Say that a sound question is not answered; nothing when it is."""
    try:
        with socket.socket(family) as link:
            link.settimeout(REACH_S)
            link.connect(address)
            link.sendall(asked)
            return "" if link.recv(1) else "it closes a sound connection"
    except OSError as error:
        return f"it does not answer: {error!r}"


@dataclass
class ExtensionPlace:
    """The WebSocket of the Chrome extension."""

    port: int
    code: str
    name: str = "extension"

    def draw(self, random: Random) -> Frames:
        return extension_messages(random)

    def send(self, frames: Frames) -> None:
        with suppress(WebSocketException, TimeoutError), self._open() as link:
            for frame in frames:
                said = frame.replace(b"<code>", self.code.encode())
                try:
                    link.send(said.decode())
                except UnicodeDecodeError:
                    link.send(said)
            link.recv(LISTEN_S)

    def trouble(self) -> str:
        try:
            with self._open() as link:
                link.send(json_bytes(HELLO).replace(b"<code>", self.code.encode()).decode())
                answer = json.loads(link.recv(REACH_S))
        except (OSError, WebSocketException) as error:
            return f"it does not answer: {error!r}"
        return "" if "result" in answer else f"it refuses the right code: {answer}"

    def _open(self) -> Any:
        return connect(
            f"ws://127.0.0.1:{self.port}/",
            origin=Origin(ORIGIN),
            proxy=None,
            compression=None,
            ping_interval=None,
            open_timeout=REACH_S,
            close_timeout=1,
        )

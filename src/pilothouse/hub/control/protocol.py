"""What is said on the hub's control socket: one JSON object a line. Pure, but for `ask`.

    relay:    {"hello": {"version": V, "pid": N, "settings": {…}, "cwd": PATH}}
    hub:      {"welcome": {"version": V, "pid": N, "url": URL, "worker": KIND}}, or {"refused": WHY}
    relay:    {"worker": true, "client": {"name": TEXT, …}}
    hub:      {"worker": {"lines": PATH, "fresh": BOOL}}
              or {"fault": {"message": TEXT, "code": N, "retryAfter": SECONDS}}
    anybody:  {"status": true}
    hub:      {"status": {…}}
    anybody:  {"compare": {…}}
    hub:      {"differ": [NAME, …]}
    anybody:  {"stop": true}
    hub:      {"stopping": true}

What is compared are settings, some of which are secrets, with those of the hub.
A connection that has said hello is a relay's session: it lasts until the connection closes.
`client` is how the agent's program calls itself, for people who look at the hub. The path is that
of a socket on which the session's worker speaks JSON-RPC, one message a line; it is `fresh` when
the state of an earlier worker of the session was lost.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONGEST = 1 << 20
"""Bytes of a line at most: settings may hold long lists."""
REACH_S = 5.0
"""Seconds that a hub may take to answer what needs no worker."""


class ControlProtocolError(ValueError):
    """Breach of this protocol by the peer."""


def encode_line(**word: object) -> bytes:
    """Return a line of the protocol."""
    return json.dumps(word).encode() + b"\n"


def decode_line(line: bytes) -> dict[str, Any]:
    """Return the object of a line. Raises ControlProtocolError."""
    try:
        word = json.loads(line)
    except ValueError:
        raise ControlProtocolError("a line is not JSON") from None
    if not isinstance(word, dict):
        raise ControlProtocolError("a line is not an object")
    return word


class RelayHello(NamedTuple):
    """A relay's introduction to the hub."""

    version: str
    pid: int
    settings: dict[str, Any]
    """All that differ from their defaults, as `core.settings.packed` has them."""
    cwd: str

    def line(self) -> bytes:
        return encode_line(hello=self._asdict())


def parse_hello(given: object) -> RelayHello:
    """Return a relay's hello. Raises ControlProtocolError."""
    wanted = {"version": str, "pid": int, "settings": dict, "cwd": str}
    if not isinstance(given, dict):
        raise ControlProtocolError("hello must be an object")
    for name, kind in wanted.items():
        if not isinstance(given.get(name), kind):
            raise ControlProtocolError(f"hello.{name} must be of type {kind.__name__}")
    return RelayHello(**{name: given[name] for name in wanted})


class LineBuffer:
    """Bytes as they come, given back line by line."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the object of each line that is whole now. Raises ControlProtocolError."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST:
            raise ControlProtocolError("a line is too long")
        for line in lines:
            yield decode_line(line)


def ask(path: str, word: Mapping[str, object], within: float = REACH_S) -> dict[str, Any] | None:
    """Ask the hub that listens there one question; return its answer, None if there is no hub.

    Raises:
        OSError: it does not answer in time.
        ControlProtocolError: it does not speak our language.
    """
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(within)
        try:
            link.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        link.sendall(encode_line(**word))
        lines = LineBuffer()
        while data := link.recv(1 << 16):
            for answer in lines.take(data):
                return answer
    raise ConnectionResetError("the hub closed the connection")

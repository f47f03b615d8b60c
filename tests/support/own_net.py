"""A network of its own for a process and its children: any address in it is ours, and so are names.

What no test may do on the machine's network is real here: a server on a public address, one where
clouds hand out credentials, and a resolver that answers differently each time. It takes Linux and
its administrator.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from tests.support.redirecting import own_network

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SET_ADDRESS = 0x8916  # SIOCSIFADDR
_BIND, _PRIVATE, _RECURSIVE = 4096, 1 << 18, 16384
_A, _IN, _ANSWER, _NO_SUCH_NAME = 1, 1, 0x8180, 0x8183


def enter(addresses: Sequence[str], folder: Path) -> None:
    """Move this process into a network with these addresses, and names by `Names`.

    Raises:
        OSError: the system does not let it.
    """
    own_network()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for number, address in enumerate(addresses):
            wanted = struct.pack(
                "16sHH4s8x", f"lo:{number}".encode(), socket.AF_INET, 0, socket.inet_aton(address)
            )
            fcntl.ioctl(any_socket, _SET_ADDRESS, wanted)
    os.unshare(os.CLONE_NEWNS)
    _mount("none", "/", _RECURSIVE | _PRIVATE)
    for file, text in {
        "/etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:10 attempts:1\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }.items():
        ours = folder / Path(file).name
        ours.write_text(text)
        _mount(str(ours), os.path.realpath(file), _BIND)


def _mount(what: str, where: str, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(what.encode(), where.encode(), None, ctypes.c_ulong(flags), None):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), where)


class Names:
    """A DNS server whose answers for a name go round in turn."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[Sequence[str], ...]] = {}
        self.asked: Counter[str] = Counter()
        """How often each name was looked up."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def lead(self, name: str, *answers: Sequence[str]) -> str:
        """Set the answers of a name, one for each lookup; an empty one is "no such name"."""
        self._answers[name] = answers
        self.asked[name] = 0
        return name

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(4096)
            self._socket.sendto(self._answer(query), client)

    def _answer(self, query: bytes) -> bytes:
        labels, place = [], 12
        while length := query[place]:
            labels.append(query[place + 1 : place + 1 + length].decode())
            place += length + 1
        name, question = ".".join(labels).lower(), query[12 : place + 5]
        (kind,) = struct.unpack_from("!H", query, place + 1)
        turns = self._answers.get(name, ((),))
        found: Sequence[str] = turns[self.asked[name] % len(turns)]
        if kind == _A:
            self.asked[name] += 1
        elif found:
            found = ()  # it exists, without an address of this kind
            return self._packed(query, question, _ANSWER, found)
        return self._packed(query, question, _ANSWER if found else _NO_SUCH_NAME, found)

    @staticmethod
    def _packed(query: bytes, question: bytes, flags: int, found: Sequence[str]) -> bytes:
        head = query[:2] + struct.pack("!HHHHH", flags, 1, len(found), 0, 0)
        records = (
            struct.pack("!HHHIH", 0xC00C, _A, _IN, 0, 4) + socket.inet_aton(one) for one in found
        )
        return head + question + b"".join(records)


class Sink:
    """A server on some ports of an address that counts who comes; it says its name, or what the
    query asks for."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self._address = address
        self.connections = 0

    @contextmanager
    def on(self, *ports: int) -> Iterator[None]:
        """Listen until the block ends."""
        servers = [_Server((self._address, port), self._handler()) for port in ports]
        for server in servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            for server in servers:
                server.shutdown()
                server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        sink = self

        class Answer(BaseHTTPRequestHandler):
            def setup(self) -> None:
                sink.connections += 1
                super().setup()

            def do_GET(self) -> None:
                asked = dict(parse_qsl(urlsplit(self.path).query))
                self.send_response(int(asked.get("status", "200")))
                self.send_header("Content-Type", "text/html")
                self.send_header("Access-Control-Allow-Origin", "*")
                self.send_header("Cache-Control", "no-store")
                self.send_header("Content-Length", str(len(sink.name)))
                if "to" in asked:
                    self.send_header("Location", asked["to"])
                self.end_headers()
                self.wfile.write(sink.name.encode())

            def log_message(self, *_: object) -> None:
                pass

        return Answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: who hangs up early has been counted."""

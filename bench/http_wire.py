"""A raw MCP client over HTTP for benchmarks: one kept connection, and nothing else."""

import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Self
from urllib.parse import urlsplit

from bench.peers import PILOTHOUSE, Workshop, command
from bench.wire import PROTOCOL_VERSION, WireError

GUARD_S = 60.0
APART = 1_000_000
CALL = {"name": "status", "arguments": {}}


class HttpAgent:
    """A 2025-era session with a server, over a connection of its own."""

    def __init__(self, url: str) -> None:
        self._where = urlsplit(url)
        self._host = self._where.netloc
        self._link = self._connected()
        self._session = ""
        self._ids = count(1)
        self._others = count(1)
        self._unread = b""
        self.first_byte_at = 0.0
        """When the first byte of the last answer's body had come."""

    def _connected(self) -> socket.socket:
        link = socket.create_connection((self._where.hostname, self._where.port), GUARD_S)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def stay(self) -> None:
        """Connect again if the server has closed a connection that was idle, as any client does."""
        if select.select([self._link], [], [], 0)[0]:
            self._link.close()
            self._link = self._connected()

    def open(self) -> Self:
        """Shake hands."""
        head, _ = self._exchange(
            self.request(
                "initialize",
                {
                    "protocolVersion": PROTOCOL_VERSION,
                    "capabilities": {},
                    "clientInfo": {"name": "pilothouse-bench", "version": "1"},
                },
            )
        )
        self._session = _field(head, b"mcp-session-id").decode()
        self._exchange(self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return self

    def again(self) -> "HttpAgent":
        """Another connection of the same session."""
        other = HttpAgent(f"http://{self._host}")
        other._session = self._session
        # Two requests of one session must not have the same id.
        other._ids = count(next(self._others) * APART)
        return other

    def call(self) -> float:
        """Call the tool status; milliseconds."""
        self.stay()
        request = self.request("tools/call", CALL)
        began = time.perf_counter()
        self._answered(request)
        return (time.perf_counter() - began) * 1000

    def first_byte(self) -> float:
        """Call it; milliseconds until the first byte of the answer's body."""
        self.stay()
        request = self.request("tools/call", CALL)
        began = time.perf_counter()
        self._answered(request)
        return (self.first_byte_at - began) * 1000

    def end(self) -> None:
        self.stay()
        self._exchange(self._head("DELETE", 0))

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        return self.post(
            {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        )

    def post(self, message: dict[str, Any]) -> bytes:
        body = json.dumps(message).encode()
        return self._head("POST", len(body)) + body

    def _head(self, method: str, length: int) -> bytes:
        session = f"Mcp-Session-Id: {self._session}\r\n" if self._session else ""
        return (
            f"{method} /mcp HTTP/1.1\r\nHost: {self._host}\r\n{session}"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"MCP-Protocol-Version: {PROTOCOL_VERSION}\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def _answered(self, request: bytes) -> None:
        head, body = self._exchange(request)
        if b" 200 " not in head.split(b"\r\n", 1)[0] or b'"result"' not in body:
            raise WireError(f"the call failed: {head[:200]!r} {body[:400]!r}")

    def _exchange(self, request: bytes) -> tuple[bytes, bytes]:
        self._link.sendall(request)
        head = self._until(b"\r\n\r\n")
        body = b""
        if _field(head, b"transfer-encoding") == b"chunked":
            while size := int(self._until(b"\r\n"), 16):
                body += self._take(size + 2)[:-2]
            self._take(2)
        elif length := int(_field(head, b"content-length") or 0):
            body = self._take(length)
        return head, body

    def _until(self, end: bytes) -> bytes:
        while end not in self._unread:
            self._more()
        found, _, self._unread = self._unread.partition(end)
        if end == b"\r\n\r\n":
            if not self._unread:
                self._more_if_any(found)
            self.first_byte_at = time.perf_counter()
        return found

    def _more_if_any(self, head: bytes) -> None:
        """A body may come later than its head."""
        has_body = _field(head, b"transfer-encoding") or int(_field(head, b"content-length") or 0)
        if has_body:
            self._more()

    def _take(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._more()
        taken, self._unread = self._unread[:size], self._unread[size:]
        return taken

    def _more(self) -> None:
        data = self._link.recv(1 << 16)
        if not data:
            raise WireError("the server closed the connection")
        self._unread += data


def _field(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip()
    return b""


@contextmanager
def http_server(workshop: Workshop, *flags: str) -> Iterator[tuple[str, int]]:
    """Pilothouse over HTTP on a free port; its URL and its pid.

    `--standalone` among the flags makes it one process without workers, whose calls are direct.
    """
    argv: Sequence[str] = (*command(PILOTHOUSE), "serve", "--port", "0", *flags)
    process = subprocess.Popen(
        argv,
        env=workshop.environment(),
        cwd=workshop.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        first = process.stderr.readline().decode()
        if " is serving on " not in first:
            raise WireError(f"pilothouse serve did not start: {first}")
        with open(os.devnull, "wb") as nowhere:
            # What it logs must not fill the pipe.
            drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=nowhere)
        yield first.rsplit(" ", 1)[1].strip(), process.pid
    finally:
        process.terminate()
        process.wait(GUARD_S)
        process.stderr.close()
        drain.wait(GUARD_S)

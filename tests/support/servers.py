"""Real servers for tests: the fixture command over HTTP or stdio, ended by its pid.

A server that logged an internal error fails the test that used it, unless the test says that it
expects incidents: an undeclared exception must never go by unseen.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from pilothouse.core.settings import GROUPS
from tests.support import forkserver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.forkserver import Forked

ROOT = Path(__file__).resolve().parents[2]
START_GUARD_S = 60
END_GUARD_S = 30
FIXTURE_APP = "tests.support.fixture_app"
PRODUCT = "pilothouse"
ERAS = ("legacy", "auto")
"""The SDK client's modes: `initialize` of 2025, and the 2026 revision found by itself."""


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """A clean environment: nothing of the developer's own settings reaches the server."""
    return {**os.environ, **(extra or {})}


@dataclass
class Server:
    """A running HTTP server."""

    url: str
    process: Forked
    lines: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def incidents(self) -> list[dict[str, Any]]:
        return incidents(self.lines)


def incidents(lines: list[str]) -> list[dict[str, Any]]:
    """The internal errors among a server's log lines."""
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    return [
        line for line in logged if line["event"] == "internal_error" or "traceback" in str(line)
    ]


class ServerLog:
    """What a server writes to stderr, read all the time, and where it says that it serves."""

    def __init__(self, stream: IO[str]) -> None:
        self.lines: list[str] = []
        self._url = ""
        self._is_told = threading.Event()
        self._stream = stream
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()

    def _drain(self) -> None:
        for line in self._stream:
            self.lines.append(line.rstrip("\n"))
            found = re.search(r"serving on (https?://\S+)", line)
            if found and not self._url:
                self._url = found[1]
                self._is_told.set()
        self._is_told.set()

    def url(self, within_s: float) -> str:
        """Wait until the server says where it serves."""
        assert self._is_told.wait(within_s), "the server did not start in time"
        assert self._url, "the server ended at once:\n" + "\n".join(self.lines)
        return self._url

    def close(self, within_s: float) -> None:
        """Read the rest of what a server said that has ended."""
        self._reader.join(within_s)
        self._stream.close()


@contextmanager
def http_server(
    *args: str,
    module: str = FIXTURE_APP,
    command: str = "serve",
    env: dict[str, str] | None = None,
    expect_incidents: bool = False,
    own_port: bool = True,
) -> Iterator[Server]:
    """`pilothouse serve --port 0` with the fixture tools, until the block ends.

    The product itself is a hub then, in a home of its own unless `env` names one.
    """
    port = ["--port", "0"] if own_port and "--port" not in args else []
    home = tempfile.mkdtemp(prefix="ph-")
    if module == PRODUCT:
        env = {"PILOTHOUSE_HOME": home, **(env or {})}
    process = forkserver.start(
        module,
        command,
        *port,
        *args,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment(env),
        cwd=ROOT,
    )
    assert process.stderr is not None
    log = ServerLog(process.stderr)
    try:
        yield Server(log.url(START_GUARD_S), process, log.lines)
    finally:
        process.terminate()
        try:
            process.wait(END_GUARD_S)
        finally:
            process.kill()
            shutil.rmtree(home, ignore_errors=True)
            assert process.stdout is not None
            out = process.stdout.read()
            process.stdout.close()
            log.close(END_GUARD_S)
    assert out == "", f"the server wrote to stdout: {out[:200]}"
    assert expect_incidents or not incidents(log.lines), incidents(log.lines)


def _started(module: str, args: tuple[str, ...], *, joins_hub: bool) -> list[str]:
    """How a server on stdio is started. What is not about the hub is tested without one: starting
    a hub takes seconds, and each test has a home of its own."""
    is_alone = module == PRODUCT and not joins_hub and args[:1] not in [(one,) for one in GROUPS]
    return [module, *(["--standalone"] if is_alone else []), *args]


@asynccontextmanager
async def stdio(
    *args: str,
    mode: str = "auto",
    module: str = FIXTURE_APP,
    env: dict[str, str] | None = None,
    joins_hub: bool = False,
    **client: Any,
) -> AsyncIterator[Client]:
    """An SDK client on a server that it started over stdio."""
    program, *words = forkserver.command(*_started(module, args, joins_hub=joins_hub))
    parameters = StdioServerParameters(
        command=program,
        args=words,
        env=environment(env),
        cwd=ROOT,
    )
    with anyio.fail_after(START_GUARD_S * 2):
        async with Client(stdio_client(parameters), mode=mode, **client) as connected:
            yield connected


class RawStdio:
    """A server spoken to line by line, to send what no client would."""

    def __init__(
        self,
        *args: str,
        module: str = FIXTURE_APP,
        env: dict[str, str] | None = None,
        joins_hub: bool = False,
    ):
        self.process = forkserver.start(
            *_started(module, args, joins_hub=joins_hub), env=environment(env), cwd=ROOT
        )
        self._errors: list[bytes] = []
        self._drain = threading.Thread(target=self._read_errors, daemon=True)
        self._drain.start()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)  # one by one: log() reads meanwhile

    def log(self) -> str:
        """Return what the server has written to stderr so far; all of it once it has ended."""
        if self.process.poll() is not None:
            self._drain.join(5)  # the last lines may not have been read; its children may hold on
        return b"".join(self._errors).decode()

    def send(self, raw: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def send_request(self, method: str, params: dict[str, Any], id: int) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self.send(json.dumps(message).encode())

    def request(self, method: str, params: dict[str, Any] | None = None, id: int = 1) -> Any:
        self.send_request(method, params or {}, id)
        while True:
            answer = self.receive()
            if answer.get("id") == id:
                return answer

    def initialize(self) -> Any:
        answer = self.request(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
            id=0,
        )
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer

    def close(self) -> tuple[bytes, str]:
        """End by closing stdin; what was still on stdout, and all of stderr."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.process.wait(END_GUARD_S)
        self._drain.join(END_GUARD_S)
        return rest, b"".join(self._errors).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._drain.join(END_GUARD_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what it was still to read is lost with it
                    pipe.close()

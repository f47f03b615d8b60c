"""E2e sessions over the MCP wire: a driver with a home of its own, its processes, its dev servers.

Everything that a driver starts inherits the temp folder of its place. So it is found again when
its parents are gone, and no profile is left in a folder that nobody looks into.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.support import process_table
from tests.support.hermetic import leftovers
from tests.support.living import commands_below, living
from tests.support.servers import RawStdio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GUARD_S = 30.0
PAUSE_S = 0.1
"""Between two looks, which often go through every process of the machine."""

# A dev server on both loopback addresses. The query says what it answers, and how it dies.
APP = """\
import os, signal, socket, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

HEADERS = ("Location", "Content-Security-Policy", "Refresh", "Set-Cookie")


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        asked = dict(parse_qsl(urlsplit(self.path).query))
        if "exit" in asked:
            print("the last words of the app", file=sys.stderr, flush=True)
            os._exit(int(asked["exit"]))
        body = asked.get("body", "good").encode()
        self.send_response(int(asked.get("status", "200")))
        self.send_header("Content-Type", asked.get("type", "text/html"))
        self.send_header("Content-Length", str(len(body)))
        for name in HEADERS:
            if name in asked:
                self.send_header(name, asked[name])
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, form, *words):
        # In one piece: a word and the end of its line may have those of another thread between.
        sys.stdout.write(form % words + "\\n")
        sys.stdout.flush()


class Six(ThreadingHTTPServer):
    address_family = socket.AF_INET6


def serve():
    port = int(os.environ["PORT"])
    for kind, host in ((ThreadingHTTPServer, "127.0.0.1"), (Six, "::1")):
        threading.Thread(target=kind((host, port), Answer).serve_forever).start()
    sys.stdout.write(f"the app of {os.environ.get('NAME', 'nobody')}\\n")
    sys.stdout.flush()
"""
PLAIN = APP + "serve()\n"
# Forks twice, opens a session of its own, and no part of it heeds SIGTERM.
STUBBORN = (
    APP
    + """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        serve()
    else:
        os._exit(0)
else:
    while True:
        signal.pause()
"""
)


class Place:
    """A short folder under /tmp with the home, the temp folder and the app of one test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.temp, self.app = root / "h", root / "t", root / "app"
        for folder in (self.home, self.temp, self.app):
            folder.mkdir()
        self.script("app.py", PLAIN)
        self.script("stubborn.py", STUBBORN)

    @property
    def env(self) -> dict[str, str]:
        """For a Pilothouse that keeps to this place."""
        return {
            "PILOTHOUSE_HOME": str(self.home),
            "PILOTHOUSE_ROOTS": str(self.app),
            "TMPDIR": str(self.temp),
        }

    def script(self, name: str, text: str) -> Path:
        """An executable Python script in the app's folder."""
        path = self.app / name
        # For Python the lines between are a string. A first line takes no path with a space.
        start = f"#!/bin/sh\n''':'\nexec '{sys.executable}' \"$0\" \"$@\"\n'''\n"
        path.write_text(start + text)
        path.chmod(0o700)
        return path

    def living(self) -> list[psutil.Process]:
        """All processes of this place that are no zombies."""
        return living(str(self.temp), variable="TMPDIR", named=str(self.root))

    def sessions(self) -> list[Path]:
        """The folders that sessions left."""
        folder = self.home / "sessions"
        return sorted(folder.iterdir()) if folder.is_dir() else []


@contextmanager
def open_place() -> Iterator[Place]:
    """At the end nothing that was started there may live."""
    # Chromium's sockets have short names only, and TMPDIR may be long.
    root = Path(tempfile.mkdtemp(prefix="ph-"))
    place = Place(root)
    try:
        yield place
        left = last_seen(place.living, lambda found: not found)
        assert left == [], left
    finally:
        for process in place.living():
            with suppress(psutil.Error):
                process.kill()
        shutil.rmtree(root, ignore_errors=True)


def last_seen[T](look: Callable[[], T], done: Callable[[T], object], guard: float = GUARD_S) -> T:
    """Return what was seen last, done or not, for a test that shows what is left of it."""
    deadline = time.monotonic() + guard
    while True:
        seen = look()
        if done(seen) or time.monotonic() > deadline:
            return seen
        time.sleep(PAUSE_S)


class Driver(RawStdio):
    """`pilothouse` on stdio, with all tools."""

    def __init__(self, place: Place, *args: str, env: dict[str, str] | None = None) -> None:
        super().__init__(
            "--profile", "full", *args, module="pilothouse", env={**place.env, **(env or {})}
        )
        self.place = place
        self._last = 0
        self._came: dict[int, Any] = {}
        self.initialize()

    # Calls

    def begin(self, tool: str, **arguments: Any) -> int:
        """Send a call; its answer is fetched with `result`."""
        self._last += 1
        number = 1000 + self._last
        self.send_request("tools/call", {"name": tool, "arguments": arguments}, id=number)
        return number

    def result(self, number: int) -> dict[str, Any]:
        """The whole result of a call that was begun; others may come before it."""
        while number not in self._came:
            answer = self.receive()
            if "id" in answer:
                self._came[answer["id"]] = answer
        found: dict[str, Any] = self._came.pop(number)["result"]
        return found

    def cancel(self, number: int) -> None:
        message = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": number, "reason": "the user pressed Escape"},
        }
        self.send(json.dumps(message).encode())

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.result(self.begin(tool, **arguments))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that goes well."""
        return good(self.ask(tool, **arguments))

    def fault(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call that must fail."""
        return bad(self.ask(tool, **arguments))

    def failure(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a call that must fail answers: its error, and what stands beside it."""
        result = self.ask(tool, **arguments)
        bad(result)
        content: dict[str, Any] = result["structuredContent"]
        return content

    def start(self, script: str = "app.py", **arguments: Any) -> dict[str, Any]:
        """A session on one of the place's dev servers."""
        arguments.setdefault("command", [sys.executable, script])
        return self.call("startSession", cwd=str(self.place.app), **arguments)

    def status(self, session: dict[str, Any]) -> dict[str, Any]:
        return self.call("getSessionStatus", sessionId=session["sessionId"])

    def end(self, session: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        return self.call("endSession", sessionId=session["sessionId"], **arguments)

    # Processes

    def inventory(self) -> dict[str, frozenset[str]]:
        """Return the processes below the server and the files that it has in its temp folder."""
        return {
            "processes": commands_below(self.process.pid),
            "files": frozenset(leftovers.files_in(self.place.temp)),
        }

    def below(self) -> list[psutil.Process]:
        """Every live process below ours, however deep."""
        found = []
        for pid in process_table.below(self.process.pid):
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
        return found

    def browsers(self) -> list[psutil.Process]:
        """The main processes of the browsers."""
        return [one for one in self.below() if is_browser(one)]


@contextmanager
def open_driver() -> Iterator[Driver]:
    """A driver in a place of its own, which logs no internal error until the block ends."""
    with open_place() as place, Driver(place) as opened:
        yield opened
        _, log = opened.close()
        assert "internal_error" not in log, log


def good(result: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = result["structuredContent"]
    assert not result["isError"], content
    return content


def bad(result: dict[str, Any]) -> dict[str, Any]:
    assert result["isError"], result
    error: dict[str, Any] = result["structuredContent"]["error"]
    return error


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; none once it has gone."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def is_browser(process: psutil.Process) -> bool:
    words = words_of(process)
    return any(word.startswith("--user-data-dir=") for word in words) and not any(
        word.startswith("--type=") for word in words
    )


class Canary:
    """A server on this machine that no page should reach, and that counts who does."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.connections = 0
        canary = self

        class Count(BaseHTTPRequestHandler):
            def setup(self) -> None:
                canary.connections += 1
                super().setup()

            def do_GET(self) -> None:
                canary.paths.append(self.path)
                self.send_response(200)
                self.send_header("Access-Control-Allow-Origin", "*")
                self.send_header("Cache-Control", "no-store")
                self.send_header("Content-Length", "6")
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(b"canary")

            do_POST = do_OPTIONS = do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        class Four(ThreadingHTTPServer):
            # A page asks for dozens of things at once; past five that wait, some were never served.
            request_queue_size = 128

        class Six(Four):
            address_family = socket.AF_INET6

        # Every address of IPv4's loopback, because "127.0.0.2" is a spelling too.
        four = Four(("0.0.0.0", 0), Count)
        self.port = int(four.server_address[1])
        self._servers = [four, Six(("::1", self.port), Count)]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def clear(self) -> None:
        self.paths.clear()
        self.connections = 0

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


@contextmanager
def open_canary() -> Iterator[Canary]:
    canary = Canary()
    try:
        yield canary
    finally:
        canary.close()

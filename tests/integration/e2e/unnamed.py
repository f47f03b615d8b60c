"""A session where the system does not tell whose process has connected.

`python -m tests.integration.e2e.unnamed` becomes a user whom the kernel shows as it shows all those
that it cannot name, and drives the product as that user. It prints what it saw as JSON, or exits
with `CANNOT` where the system does not let it become one. Nothing of the product is changed.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.support.intercepting import token_of
from tests.support.redirecting import CANNOT
from tests.support.session_life import Driver, open_place
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

UNNAMED = 65_534
"""The number of everybody whom the kernel cannot name: of those outside of a user namespace."""


def become_unnamed() -> None:
    """Raises OSError: the system does not let it."""
    user, group = os.getuid(), os.getgid()
    os.unshare(os.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{UNNAMED} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{UNNAMED} {group} 1")


@contextmanager
def server() -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Serve anybody; yield the port, and the names of the headers that came by path."""
    came: dict[str, list[str]] = {}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            came[self.path] = [name.lower() for name in self.headers]
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()
            self.wfile.write(b"answered")

        def log_message(self, *_: object) -> None:
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield serving.server_port, came
    serving.shutdown()
    serving.server_close()


def trial(driver: Driver, *, intercept: bool) -> dict[str, Any]:
    """Let a session's browser go to another server of this machine, through its proxies."""
    told: list[Any] = []

    def ask(tool: str, **arguments: Any) -> dict[str, Any]:
        content: dict[str, Any] = driver.ask(tool, **arguments)["structuredContent"]
        told.append(content.get("error", {}).get("message", ""))
        return content

    with server() as (own, _), server() as (port, came):
        ask("startSession", url=f"http://localhost:{own}/", intercept=intercept)
        ask("navigate", url=f"http://127.0.0.1:{port}/first")
        ask("navigate", url=f"http://127.0.0.1:{port}/second")
        ask("navigate", url="/")
        elsewhere = f"127.0.0.1:{port}"
        fetched = ask("evaluate", script=_FETCH.replace("WHERE", elsewhere)).get("result")
        ports = _proxies(driver)
        strangers = [_shown_to(one, words) for one in ports for words in ("", _WRONG)]
        worked = list(told)
        webkit = ask("startSession", url=f"http://localhost:{own}/", browser="webkit")
        refused = ask("navigate", url="http://169.254.169.254/")
        packets = _packets(driver) if intercept else []
        driver.ask("endSession")
    return {
        "intercept": intercept,
        "told": [one for one in worked if one],
        "came": came,
        "fetched": fetched,
        "webkit": webkit.get("error", {}).get("message", ""),
        "rule": refused.get("error", {}).get("rule"),
        "strangers": strangers,
        "packets": packets,
    }


_FETCH = """fetch('http://WHERE/third').then(answer => answer.text()).then(text =>
  new Promise(done => {
    const socket = new WebSocket('ws://WHERE/socket');
    socket.onerror = () => done(text);
  }))"""
_WRONG = "Proxy-Authorization: Basic cGlsb3Rob3VzZTp3cm9uZw==\r\n"


def _proxies(driver: Driver) -> list[int]:
    """Return the ports to which the session's browsers were sent."""
    commands = []
    for one in psutil.Process(driver.process.pid).children(recursive=True):
        with suppress(psutil.Error):  # it may end meanwhile
            commands.append(" ".join(one.cmdline()))
    flags = (re.search(r"--proxy-server=http://127\.0\.0\.1:(\d+)", one) for one in commands)
    return sorted({int(flag[1]) for flag in flags if flag})


def _shown_to(port: int, words: str) -> str:
    """Return how a proxy answers to somebody who is none of its browser."""
    head = f"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n{words}\r\n"
    with socket.create_connection(("127.0.0.1", port), 30) as stranger:
        stranger.sendall(head.encode())
        return stranger.recv(1000).decode("latin-1").partition("\r\n")[0]


def _packets(driver: Driver) -> list[dict[str, Any]]:
    """Return what is kept of a request that went through the intercepting proxy."""

    def found() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = driver.call("get_history", filter="url == /third")["packets"]
        return rows

    rows = wait_until(found)
    return [driver.call("get_packet_detail", packet_id=row["id"]) for row in rows]


def main() -> None:
    try:
        become_unnamed()
    except (AttributeError, OSError) as error:
        sys.stderr.write(str(error))
        raise SystemExit(CANNOT) from None
    with open_place() as place:
        env = {"PACKET_PROXY_ACCESS_TOKEN": token_of(place.home)}
        with Driver(place, env=env) as driver:
            sys.stdout.write(
                json.dumps([trial(driver, intercept=intercept) for intercept in (False, True)])
            )
            driver.close()


if __name__ == "__main__":
    main()

"""The product's intercepting proxy, asked over the MCP wire, with an app behind it."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from tests.support import forkserver
from tests.support.agent import Agent
from tests.support.ports import free_port
from tests.support.servers import environment
from tests.support.serving import serving
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD_S = 30.0


class Tap(Agent):
    """`pilothouse` with the intercept group, a home of its own and a listener on a free port."""

    def __init__(self, *args: str, home: Path | None = None, env: dict[str, str] | None = None):
        self._made = None if home else Path(tempfile.mkdtemp(prefix="ph-"))
        self.home = home or self._made or Path()
        self.port = free_port()
        self.token = token_of(self.home)
        own = {
            "PILOTHOUSE_HOME": str(self.home),
            "PILOTHOUSE_REST_PORT": str(free_port()),
            "PILOTHOUSE_CONFIG_PORT": str(free_port()),
            "PACKET_PROXY_ACCESS_TOKEN": self.token,
        }
        self.env = {**own, **(env or {})}
        super().__init__("--profile", "full", *args, env=self.env)

    @property
    def rest(self) -> str:
        return f"http://127.0.0.1:{self.env['PILOTHOUSE_REST_PORT']}"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.env['PILOTHOUSE_CONFIG_PORT']}/config"

    def listen(self, **categories: Any) -> dict[str, Any]:
        """Listen on this tap's port, with what else the configuration is to have."""
        return self.call("update_config", config_json=config(self.port, **categories))

    def get(self, url: str, **more: Any) -> httpx.Response:
        """A request through the proxy, by a client of its own."""
        verify = more.pop("verify", True)
        proxy = f"http://127.0.0.1:{self.port}"
        with httpx.Client(proxy=proxy, verify=verify, timeout=GUARD_S) as client:
            return client.request(more.pop("method", "GET"), url, **more)

    def packets(self, filter: str = "", **more: Any) -> list[dict[str, Any]]:
        return list(self.call("get_history", filter=filter, order="id asc", **more)["packets"])

    def both(self, filter: str, **more: Any) -> list[dict[str, Any]]:
        """The request and the response of the one exchange that fits, once they are written."""

        def found() -> list[dict[str, Any]] | None:
            packets = self.packets(filter, **more)
            return packets if len(packets) == 2 else None

        return wait_until(found, f"both packets of {filter}")

    def __exit__(self, *args: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(GUARD_S)
        super().__exit__(*args)
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)


def token_of(home: Path) -> str:
    """The token of that home, made as `pilothouse token` makes it."""
    import subprocess

    made = subprocess.run(
        forkserver.command("pilothouse", "token"),
        env=environment({"PILOTHOUSE_HOME": str(home)}),
        capture_output=True,
        text=True,
        check=True,
        timeout=GUARD_S,
    )
    return made.stdout.strip()


def config(port: int, **categories: Any) -> dict[str, Any]:
    listener = {
        "id": 1,
        "enabled": True,
        "ca_name": "PacketProxy per-user CA",
        "port": port,
        "type": "HTTP_PROXY",
        "server_id": -1,
    }
    none: dict[str, list[Any]] = {"servers": [], "modifications": [], "sslPassThroughs": []}
    return {"listenPorts": [listener], **none, **categories}


class App:
    """A server that answers with what it was sent."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.seen: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def app() -> Iterator[App]:
    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen = {
                "method": self.command,
                "path": self.path,
                "headers": self.headers.items(),
                "body": body.decode("latin-1"),
            }
            running.seen.append(seen)
            status = (
                int(self.path.rpartition("status=")[2] or 200) if "status=" in self.path else 200
            )
            text = json.dumps({"you_sent": body.decode("latin-1"), "path": self.path}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_POST = do_PUT = do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    running = App(server.server_port)
    with serving(server):
        yield running

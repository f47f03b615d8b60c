"""The shop's server: pages from public/, articles and orders as JSON, a log line for each request.

`PORT=8000 python3 server.py` serves on 127.0.0.1. The log goes to stderr; a line carries the id of
its request, if whoever sent it gave one.
"""

from __future__ import annotations

import json
import mimetypes
import os
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orders

PUBLIC = Path(__file__).parent / "public"
ID_HEADERS = ("X-Request-Id", "X-Pilothouse-Exchange")
MOST_BYTES = 64 * 1024


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/api/articles":
            self.answer(200, list(orders.ARTICLES.values()))
        else:
            self.answer_file(self.path.partition("?")[0].lstrip("/") or "index.html")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if length > MOST_BYTES:
            self.close_connection = True
            self.answer(413, {"error": "too long"})
            return
        order = self.rfile.read(length)
        if self.path == "/api/orders":
            self.answer(*self.place(order))
        else:
            self.answer(404, {"error": "no such address"})

    def place(self, order: bytes) -> tuple[int, dict[str, Any]]:
        try:
            return 200, {"receipt": orders.place(json.loads(order))}
        except Exception as error:
            log(f"ERROR {self.line} failed: {error!r}\n{traceback.format_exc().rstrip()}")
            return 500, {"error": "internal error"}

    def answer_file(self, name: str) -> None:
        path = (PUBLIC / name).resolve()
        if not path.is_file() or not path.is_relative_to(PUBLIC.resolve()):
            self.answer(404, {"error": "no such page"})
            return
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self.send(200, kind, path.read_bytes())

    def answer(self, status: int, content: Any) -> None:
        self.send(status, "application/json", json.dumps(content).encode())

    def send(self, status: int, kind: str, content: bytes) -> None:
        # Logged first: whoever has the answer finds the line.
        log(f"INFO {self.line} {status}")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    @property
    def line(self) -> str:
        given = next(filter(None, map(self.headers.get, ID_HEADERS)), "")
        return f"{self.command} {self.path}" + (f" id={given}" if given else "")

    def log_message(self, format: str, *args: object) -> None:
        """Silent: `send` has logged it."""


def log(text: str) -> None:
    # In one piece, so that requests at the same time do not mix their lines.
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class Shop(ThreadingHTTPServer):
    daemon_threads = True


def main() -> None:
    server = Shop(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Handler)
    log(f"INFO the shop is open at http://127.0.0.1:{server.server_port}/")
    server.serve_forever()


if __name__ == "__main__":
    main()

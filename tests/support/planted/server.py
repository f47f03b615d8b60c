"""Serves the planted faults: `PORT=0 python server.py`, on 127.0.0.1, standard library alone.

/page/NAME?seed=7&noise=poll,beacon   the page of a case
the paths of ROUTES                   what the table says
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).parent
TABLE = runpy.run_path(str(HERE / "cases.py"))
PAGES = {case.name: case for case in TABLE["CASES"]}
WRITING = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.startswith("/page/"):
            self._page(path.removeprefix("/page/"))
        elif path == "/noise.js":
            self._answer(200, "text/javascript", (HERE / "noise.js").read_bytes())
        elif path == TABLE["RESET"]:
            self.close_connection = True
        else:
            self._route(path)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._route(urlsplit(self.path).path)

    def _page(self, name: str) -> None:
        case = PAGES[name]
        page = (
            f'<!doctype html><title>{name}</title><link rel="icon" href="data:,">'
            f'<body><script src="/noise.js"></script><script>const go = async () => {{{case.script}'
            f"}};</script>{case.body}</body>"
        )
        self._answer(200, "text/html; charset=utf-8", page.encode())

    def _route(self, path: str) -> None:
        route = TABLE["ROUTES"].get(path)
        if route is None:
            self._answer(404, "text/plain", b"not found")
            return
        time.sleep(route.ms / 1000)
        if route.log:
            self._complain(route, path)
        time.sleep(route.after_ms / 1000)
        kind = "text/html" if route.body.startswith("<") else "application/json"
        if route.access:
            self._write("stderr", f'127.0.0.1 - "{self.command} {path} HTTP/1.1" {route.status} -')
        self._answer(route.status, kind, route.body.encode())

    def _complain(self, route: object, path: str) -> None:
        form, said = route.form, route.log  # type: ignore[attr-defined]
        if form == "traceback":
            frames = ['  File "app.py", line 40, in handle', "    answer = act(request)"]
            said = "\n".join(["Traceback (most recent call last):", *frames, f"app.{said}"])
        elif form == "mixed":
            began = ["Traceback (most recent call last):", '  File "server.py", line 9, in serve']
            frames = ['  File "app.py", line 40, in handle', "    answer = act(request)"]
            whole = [began[0], *frames, f"app.{said}"]
            ended = ['  File "server.py", line 5, in read', "    line = self.readline()"]
            left = TABLE["ROUTES"]["/api/left"].log
            said = "\n".join([*began, *whole, *ended, f"app.{left}"])
        elif form == "path":
            said = f"{said} ({self.command} {path})"
        elif form == "id":
            said = f"[{self.headers.get('x-request-id')}] {said}"
        self._write(route.stream, said)  # type: ignore[attr-defined]

    def _write(self, stream: str, text: str) -> None:
        with WRITING:
            out = sys.stdout if stream == "stdout" else sys.stderr
            out.write(text + "\n")
            out.flush()

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        with suppress(ConnectionError):  # whoever asked has gone on
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Handler)
    sys.stdout.write(f"listening on http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()

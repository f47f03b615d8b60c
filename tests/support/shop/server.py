"""A small shop of our own, for driving: its pages lie beside it, its faults are planted.

`PORT=0 python server.py` serves on 127.0.0.1 with the standard library alone and logs every
request to stderr, as a dev server does.

    /api/cart        POST JSON: the cart as it is then
    /api/broken      500, and a traceback on stderr
    /api/missing     404 with JSON
    /api/large       500 with a body of 300,000 characters
    /api/slow?ms=    200 after a wait
    /api/login       POST form: sets a cookie, logs what came, and goes on to /account
    /api/upload      POST: how many bytes came
    /api/events      three server-sent events, then the end
    /account         a page only for who has logged in, else a redirect to /
    /hop/N           N redirects, then the second page
    /to?url=         a redirect to anywhere
    /report.csv      a download
    /exit            the server ends at once, with code 3
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PAGES = Path(__file__).parent
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".map": "application/json"}
EXIT_CODE = 3


class OutOfStock(Exception):
    """The planted fault."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cart = 0

    def do_GET(self) -> None:
        self._route("GET", b"")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._route("POST", self.rfile.read(length))

    def _route(self, method: str, body: bytes) -> None:
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        match address.path:
            case "/api/cart" if method == "POST":
                Handler.cart += 1
                self._json(200, {"items": Handler.cart, "item": json.loads(body)["item"]})
            case "/api/broken":
                self._break()
            case "/api/missing":
                self._json(404, {"error": "no such coupon"})
            case "/api/large":
                self._json(500, {"error": "too large to show " + "x" * 300_000})
            case "/api/slow":
                time.sleep(int(query.get("ms", ["1200"])[0]) / 1000)
                self._json(200, {"slow": True})
            case "/api/login":
                form = parse_qs(body.decode())
                self._log(f"login with {form}")
                self._go("/account", ("Set-Cookie", f"who={form['user'][0]}; HttpOnly; Path=/"))
            case "/api/upload":
                self._json(200, {"bytes": len(body)})
            case "/api/events":
                events = "".join(f"data: tick {number}\n\n" for number in range(3))
                self._answer(200, "text/event-stream", events.encode())
            case "/account":
                self._account()
            case "/report.csv":
                attached = ("Content-Disposition", 'attachment; filename="report.csv"')
                self._answer(200, "text/csv", b"item,price\nlamp,12\n", attached)
            case "/exit":
                self._log("fatal: the shop closes")
                sys.stderr.flush()
                os._exit(EXIT_CODE)
            case "/to":
                self._go(query["url"][0])
            case path if path.startswith("/hop/"):
                left = int(path.removeprefix("/hop/"))
                self._go(f"/hop/{left - 1}" if left > 1 else "/second.html")
            case path:
                self._file("/index.html" if path == "/" else path)

    def _break(self) -> None:
        try:
            raise OutOfStock("lamp 17 is out of stock")
        except OutOfStock:
            self._log(traceback.format_exc())
        self._json(500, {"error": "internal", "hint": "the stock service said no"})

    def _account(self) -> None:
        cookie = self.headers.get("Cookie", "")
        if "who=" not in cookie:
            self._go("/")
            return
        who = cookie.split("who=")[1].split(";")[0]
        page = f"<!doctype html><title>Account</title><h1>Welcome {who}</h1>"
        self._answer(200, KINDS[".html"], page.encode())

    def _file(self, path: str) -> None:
        file = (PAGES / path.lstrip("/")).resolve()
        if file.parent != PAGES.resolve() or file.suffix not in KINDS or not file.is_file():
            self._answer(404, "text/plain", b"not found")
            return
        self._answer(200, KINDS[file.suffix], file.read_bytes())

    def _json(self, status: int, value: object) -> None:
        self._answer(status, "application/json", json.dumps(value).encode())

    def _go(self, where: str, *headers: tuple[str, str]) -> None:
        self._answer(303, "text/plain", b"", ("Location", where), *headers)

    def _answer(self, status: int, kind: str, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        with suppress(ConnectionError):  # whoever asked has gone on
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        self._log(format % args)

    def _log(self, text: str) -> None:
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Handler)
    sys.stdout.write(f"the shop is open on http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()

"""A shop that writes the id of each request into its log, and whose orders fail.

`PORT=0 python traced_shop.py` serves on 127.0.0.1 with the standard library alone.

    /               a page with a cart and four buttons: order, wait, empty, shout
    /api/order      POST: 500, with an error in the log
    /api/slow?ms=   200 after a wait
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE = b"""<!doctype html><title>Traced shop</title><link rel="icon" href="data:,">
<div id="cart">one lamp</div>
<button id="order">Order</button> <button id="wait">Wait</button>
<button id="empty">Empty</button> <button id="shout">Shout</button>
<script>
  const byId = id => document.getElementById(id);
  byId('order').onclick = async () => {
    const answer = await fetch('/api/order', {method: 'POST'});
    if (!answer.ok) console.error('order failed', answer.status);
  };
  byId('wait').onclick = () => fetch('/api/slow?ms=400');
  byId('empty').onclick = () => byId('cart').remove();
  byId('shout').onclick = () => console.error('out of lamps');
</script>"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/api/slow":
            time.sleep(int(parse_qs(address.query)["ms"][0]) / 1000)
        self._answer(200 if address.path in ("/", "/api/slow") else 404, "text/html", PAGE)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._log("ERROR the shelf of lamp 17 is gone")
        self._answer(500, "application/json", json.dumps({"error": "no shelf"}).encode())

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self._log(f"{self.command} {self.path} {status}")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _log(self, line: str) -> None:
        mark = self.headers.get("X-Pilothouse-Exchange", "-")
        sys.stderr.write(f"[{mark}] {line}\n")
        sys.stderr.flush()

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Handler)
    sys.stdout.write(f"listening on http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()

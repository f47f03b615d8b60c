"""A shop in one file with a login, and what is done in it by several tests."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.driving import Driver

PASSWORD = "correct-horse-battery"

APP = '''
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

HOME = """<!doctype html><title>Shop</title><h1>Shop</h1><p id=who></p>
<form id=login><label>Name <input name=user></label>
<label>Password <input name=password type=password></label><button>Log in</button></form>
<label>Size <select id=size><option>S</option><option>L</option></select></label>
<label><input id=terms type=checkbox> Terms</label>
<button id=buy>Buy "it" now</button><button id=ask>Ask</button>
<a href="/order/17">my order</a> <a href="/popup" target=_blank>help</a><ul id=list></ul>
<script>
const byId = id => document.getElementById(id);
byId('who').textContent = (localStorage.user ?? 'nobody') + ';' + document.cookie;
byId('login').onsubmit = event => {
  event.preventDefault();
  const form = new FormData(event.target);
  localStorage.user = form.get('user');
  document.cookie = 'visits=' + form.get('password').length + '; max-age=9999';
  location = '/';
};
byId('buy').onclick = async () => {
  const item = document.createElement('li');
  try {
    const answer = await fetch('/api/cart?size=' + byId('size').value, {method: 'POST'});
    item.textContent = answer.status + ' ' + await answer.text();
  } catch (error) { item.textContent = String(error); }
  byId('list').append(item);
};
byId('ask').onclick = () => { document.title = prompt('Who?'); };
</script>"""


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        if address.path == "/go":
            self.answer(302, "", Location=query["to"][0])
        elif address.path == "/api/cart":
            body = json.dumps({"cart": {"items": [{"price": 5}]}, "real": True})
            self.answer(200, body, "application/json")
        elif address.path.startswith("/order/") or address.path == "/popup":
            self.answer(200, f"<title>Two</title><h1>{address.path}</h1><button>Close</button>")
        else:
            self.answer(200, HOME)

    do_POST = do_GET

    def answer(self, status, text, kind="text/html", **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(text), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(text.encode())


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Answer).serve_forever()
'''


def start(driver: Driver, **more: Any) -> dict[str, Any]:
    app = driver.files / "app.py"
    app.write_text(APP)
    return driver.start(command=[sys.executable, str(app)], **more)


def log_in(driver: Driver) -> None:
    fields = [
        {"selector": "[name=user]", "value": "ada"},
        {"selector": "[name=password]", "value": PASSWORD},
    ]
    driver.call("fillForm", fields=fields, submit="text=Log in")
    driver.call("waitFor", text="ada;")


@contextmanager
def canary() -> Iterator[tuple[int, list[str]]]:
    """A server that nobody may reach: its port, and who did."""
    seen: list[str] = []

    class Count(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()
            self.wfile.write(b"canary")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Count)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server.server_port, seen
    finally:
        server.shutdown()
        serving.join()
        server.server_close()

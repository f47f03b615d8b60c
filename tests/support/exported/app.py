"""A small app with a page for each flow that is exported as a test."""

from __future__ import annotations

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAY = "<p id=said></p><script>const say = text => { said.textContent = text; };</script>"
PAGES = {
    "/login": "<form method=post action=/session><label>User <input id=user name=user></label>"
    "<label>Password <input id=password name=password type=password></label>"
    "<button id=go>Sign in</button></form>",
    "/account": "<h1>Welcome</h1>",
    "/form": "<form action=/done><label>Name <input name=name></label>"
    "<label>Size <select id=size name=size><option>S</option><option>L</option></select></label>"
    "<label><input id=terms type=checkbox name=terms> Terms</label><button>Order</button></form>",
    "/done": "<h1>Ordered</h1>" + _SAY + "<script>say(location.search)</script>",
    "/upload": "<label>File <input id=file type=file"
    " onchange=\"say('got ' + this.files[0].name)\"></label>" + _SAY,
    "/opener": '<a href="/popup" target=_blank>Help</a>',
    "/popup": "<button onclick=\"say('Thanks')\">Understood</button>" + _SAY,
    "/framed": "<h1>Shop</h1><iframe id=pay src=/inner></iframe>",
    "/inner": "<label>Card <input id=card></label>"
    "<button onclick=\"say('paid by ' + card.value)\">Pay</button>" + _SAY,
    "/reports": '<a id=get href="/report.csv">Report</a>',
    "/confirm": "<button onclick=\"say(confirm('Sure?') ? 'Deleted' : 'Kept')\">Delete</button>"
    + _SAY,
    "/spa": "<button id=open>Item</button>" + _SAY + "<script>"
    "const show = () => say('now at ' + location.pathname);"
    "document.getElementById('open').onclick = async () => {"
    " await fetch('/api'); history.pushState({}, '', '/spa/items/17'); show(); };"
    "addEventListener('popstate', show);</script>",
    "/drag": "<div id=card draggable=true style='width: 80px; height: 40px'>Card</div>"
    "<div id=box style='width: 200px; height: 100px' ondragover='event.preventDefault()'"
    " ondrop=\"event.preventDefault(); say('Dropped')\">Box</div>" + _SAY,
    "/broken": "<button id=save onclick=\"say('Saving')\">Save</button>" + _SAY,
}


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == "/session":
            self._answer(303, "", Location="/account")
        elif path == "/report.csv":
            self._answer(200, "a,b\n", **{"Content-Disposition": "attachment"})
        else:
            self._answer(200, f"<!doctype html><title>App</title>{PAGES.get(path, 'nothing')}")

    do_POST = do_GET

    def _answer(self, status: int, text: str, **headers: str) -> None:
        self.send_response(status)
        length = str(len(text.encode()))
        for name, value in {"Content-Type": "text/html", "Content-Length": length}.items():
            self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running_app() -> Iterator[str]:
    """Serve the pages; give their origin."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), _Answer)) as server:
        yield f"http://127.0.0.1:{server.server_port}"

"""A local web site of our own, for tests and benchmarks with a real browser.

It runs in a thread, or with `python -m tests.support.site` in a process of its own, on 127.0.0.1
and a free port. `localhost` reaches it too, and the browser
takes the two hosts for two sites. Pages make no outside request; those that do something by
themselves set `document.title` to `done` at the end. Nothing may be cached but /cached.js.

Answers:
    /                    links to all pages
    /item/{i}            JSON {"item": i, "pad": "…"}
    /api/echo            any method: JSON of the method, headers and body that came
    /redirect/{n}        n hops, then 200 with JSON
    /status/{code}       that status
    /slow?ms=100         JSON after a wait
    /abort               promises 1000 bytes, sends 12 and closes
    /big?bytes=1000000   text of that length
    /binary              all 256 byte values, application/octet-stream
    /pixel.png           an image
    /cached.js           the only answer that may be cached
    /set-cookie          sets `session` (HttpOnly) and `theme`; JSON of the cookies that came
    /secret              JSON of made-up tokens and of the Authorization header that came
    /stream?n=5          chunked text, one chunk after the other
    /sse?n=5             event stream with ids; even ones named `tick`, the last one `end`
    /ws                  WebSocket echo, text and binary; ?frames=n sends n frames and closes
    /download            an attachment, report.csv
    /etag                text that is confirmed with 304 when it is asked for again
    /kept                a page with two console lines that may come back as it was left (bfcache)
    /bad-cookie          sets a cookie for another domain, which browsers refuse
    /latin               text in ISO-8859-1

Pages:
    /console             every console type and kind of value, exceptions, rejections, a 404
    /flood?n=10000       logs n lines when `start()` is called, at once with &auto=1
    /fetches?n=2000      fetches /item/0 … /item/{n-1}, 50 at a time
    /mix?n=10            n rounds of console lines, GETs, a POST, an image and an exception
    /frames              a frame of this site and one of the other host (/frame); both log and fetch
    /workers             dedicated, nested and shared worker; each logs and fetches
    /sw                  a service worker that logs, fetches and answers /sw-made itself
    /websocket           sends three frames to /ws and closes
    /events?n=5          reads /sse
    /spa                 pushState views that fetch, by link or `go(path)`; ?auto=1 visits two
    /navigate-away       fetches, then leaves by link, `leave()` or ?auto=1 for the other host
    /dialog              buttons for alert, confirm and prompt
    /form                inputs of every kind, a password among them, posted to /api/echo
    /covered             a button under an overlay that can be dismissed
    /mapped              a minified script with a source map that throws when the button is clicked
    /empty               nothing
"""

from __future__ import annotations

import socket
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple, Self

import uvicorn

from tests.support.site_routes import application

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
"""Two names of the same server that a browser takes for two sites."""
STOP_GUARD_S = 30


class Received(NamedTuple):
    """A request as the site got it; a WebSocket's opening request is one too."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Site:
    """The running site: `with Site() as site: … site.url("/console")`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[Received] = []
        # Bound and listening from here on, so whoever connects early waits instead of failing.
        self._socket = socket.create_server((HOSTS[0], 0), backlog=512)
        # asyncio sets this on sockets of its own making only. Without it every answer waits 40 ms
        # for the browser's acknowledgement of its head; whatever is accepted here inherits it.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._recorded(application()),
            lifespan="off",
            log_config=None,
            log_level="critical",  # /abort breaks off on purpose, which the server would report
            access_log=False,
            ws="websockets-sansio",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="test site", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True  # without waiting for open streams and slow answers
        self._thread.join(STOP_GUARD_S)
        self._socket.close()
        assert not self._thread.is_alive(), "the test site did not stop"

    def url(self, path: str = "/", host: str = HOSTS[0]) -> str:
        return f"http://{host}:{self.port}{path}"

    @property
    def requests(self) -> list[Received]:
        """Every request so far, in the order in which they were complete."""
        with self._lock:
            return list(self._requests)

    def forget_requests(self) -> None:
        with self._lock:
            self._requests.clear()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _recorded(self, app: ASGIApp) -> ASGIApp:
        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            body = await _whole_body(receive) if scope["type"] == "http" else b""
            self._record(scope, body)
            unread = scope["type"] == "http"

            async def receive_again() -> Message:
                nonlocal unread
                if unread:
                    unread = False
                    return {"type": "http.request", "body": body, "more_body": False}
                return await receive()

            await app(scope, receive_again, send)

        return wrapped

    def _record(self, scope: Scope, body: bytes) -> None:
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        with self._lock:
            self._requests.append(Received(scope.get("method", "GET"), path, headers, body))


async def _whole_body(receive: Receive) -> bytes:
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return b"".join(parts)


def main() -> None:
    """The site in a process of its own, whose only line tells its port; it ends with its stdin."""
    with Site() as site:
        sys.stdout.write(f"{site.port}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()

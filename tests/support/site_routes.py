"""What the test site answers; `site.py` lists the routes and runs them.

Pages and scripts are the files of the folder `site`; everything else is a short function here.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from starlette.websockets import WebSocket

    type Endpoint = Callable[[Request], Awaitable[Response]]

FOLDER = Path(__file__).parent / "site"
PAGES = tuple(sorted(file.stem for file in FOLDER.glob("*.html")))
"""The names of all pages: `console` is served as /console."""
CACHEABLE = "cached.js"

ITEM_PAD = "0123456789" * 20
ALL_BYTES = bytes(range(256))
SECRETS = {
    "access_token": "not-a-real-access-token-5f1c",
    "refresh_token": "not-a-real-refresh-token-77ab",
    "api_key": "not-a-real-api-key-90de",
    "password": "not-a-real-password-31c4",
}
"""What /secret tells; a test can look for these values wherever they must not appear."""
SESSION_COOKIE = "not-a-real-session-8d02"

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg=="
)
_EVERY_METHOD = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".map": "application/json"}
_PAUSE_S = 0.01  # between chunks, so that each arrives by itself


def application() -> ASGIApp:
    """All routes of the site; nothing may be cached unless its route says so."""
    return _not_stored(Starlette(routes=[*_files(), *_answers()]))


def _files() -> list[Route]:
    pages = [Route(f"/{name}", _file(FOLDER / f"{name}.html")) for name in PAGES]
    # A reload at an address that pushState made must find the page again.
    pages.append(Route("/spa/{view}", _file(FOLDER / "spa.html")))
    scripts = [
        Route(f"/{file.name}", _file(file))
        for file in sorted(FOLDER.iterdir())
        if file.suffix in {".js", ".map"}
    ]
    return [*pages, *scripts]


def _answers() -> list[Route | WebSocketRoute]:
    return [
        Route("/", index),
        Route("/item/{i:int}", item),
        Route("/api/echo", echo, methods=_EVERY_METHOD),
        Route("/redirect/{hops:int}", redirect),
        Route("/status/{code:int}", status, methods=_EVERY_METHOD),
        Route("/slow", slow),
        Route("/abort", abort),
        Route("/big", big),
        Route("/binary", binary),
        Route("/pixel.png", pixel),
        Route("/set-cookie", set_cookie),
        Route("/secret", secret),
        Route("/stream", stream),
        Route("/sse", server_sent_events),
        Route("/download", download),
        Route("/etag", etag),
        Route("/kept", kept),
        Route("/bad-cookie", bad_cookie),
        Route("/latin", latin),
        WebSocketRoute("/ws", websocket),
    ]


def _file(file: Path) -> Endpoint:
    body = file.read_bytes()
    headers = {"cache-control": "public, max-age=3600"} if file.name == CACHEABLE else None

    async def answer(_: Request) -> Response:
        return Response(body, media_type=_MEDIA_TYPES[file.suffix], headers=headers)

    return answer


async def index(_: Request) -> Response:
    links = "".join(f'<li><a href="/{name}">{name}</a></li>' for name in PAGES)
    head = '<meta charset="utf-8"><link rel="icon" href="data:,"><title>index</title>'
    page = f'<!doctype html><html lang="en">{head}<ul>{links}</ul></html>'
    return Response(page, media_type="text/html")


async def item(request: Request) -> Response:
    return JSONResponse({"item": request.path_params["i"], "pad": ITEM_PAD})


async def echo(request: Request) -> Response:
    body = (await request.body()).decode(errors="replace")
    return JSONResponse(
        {"method": request.method, "headers": dict(request.headers), "body": body},
    )


async def redirect(request: Request) -> Response:
    hops: int = request.path_params["hops"]
    if hops > 0:
        return RedirectResponse(f"/redirect/{hops - 1}", status_code=302)
    return JSONResponse({"redirected": True})


async def status(request: Request) -> Response:
    code: int = request.path_params["code"]
    if code in {204, 205, 304}:  # these have no body
        return Response(status_code=code)
    return Response(f"status {code}", status_code=code, media_type="text/plain")


async def slow(request: Request) -> Response:
    ms = _number(request, "ms", 100)
    await asyncio.sleep(ms / 1000)
    return JSONResponse({"slow": ms})


async def abort(_: Request) -> Response:
    return _CutOff()


async def big(request: Request) -> Response:
    size = _number(request, "bytes", 1_000_000)
    return Response((b"0123456789abcdef" * (size // 16 + 1))[:size], media_type="text/plain")


async def binary(_: Request) -> Response:
    return Response(ALL_BYTES, media_type="application/octet-stream")


async def etag(request: Request) -> Response:
    headers = {"etag": '"1"', "cache-control": "no-cache"}
    if request.headers.get("if-none-match"):
        return Response(status_code=304, headers=headers)
    return Response("confirmed", media_type="text/plain", headers=headers)


async def kept(_: Request) -> Response:
    page = "<title>done</title><script>console.log('one'); console.error('two')</script>"
    return Response(page, media_type="text/html", headers={"cache-control": "no-cache"})


async def bad_cookie(_: Request) -> Response:
    return Response("", headers={"set-cookie": "stranger=1; domain=example.org"})


async def latin(_: Request) -> Response:
    body = "gr\u00fc\u00dfe".encode("latin-1")
    return Response(body, headers={"content-type": "text/plain; charset=iso-8859-1"})


async def pixel(_: Request) -> Response:
    return Response(_PIXEL, media_type="image/png")


async def set_cookie(request: Request) -> Response:
    response = JSONResponse({"cookies": request.cookies})
    response.set_cookie("session", SESSION_COOKIE, httponly=True, samesite="lax")
    response.set_cookie("theme", "dark", samesite="lax")
    return response


async def secret(request: Request) -> Response:
    return JSONResponse({**SECRETS, "authorization": request.headers.get("authorization")})


async def stream(request: Request) -> Response:
    count = _number(request, "n", 5)

    async def chunks() -> AsyncIterator[str]:
        for i in range(count):
            yield f"chunk {i}\n"
            await asyncio.sleep(_PAUSE_S)

    return StreamingResponse(chunks(), media_type="text/plain")


async def server_sent_events(request: Request) -> Response:
    count = _number(request, "n", 5)
    first = int(request.headers.get("last-event-id") or -1) + 1
    if first > count:
        return Response(status_code=204)  # tells an EventSource to stop reconnecting

    async def events() -> AsyncIterator[str]:
        for i in range(first, count):
            name = "event: tick\n" if i % 2 == 0 else ""  # the others are plain messages
            yield f"id: {i}\n{name}data: {json.dumps({'n': i})}\n\n"
            await asyncio.sleep(_PAUSE_S)
        yield f"id: {count}\nevent: end\ndata: {{}}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def download(_: Request) -> Response:
    headers = {"content-disposition": 'attachment; filename="report.csv"'}
    return Response("id,name\n1,one\n2,two\n", media_type="text/csv", headers=headers)


async def websocket(socket: WebSocket) -> None:
    await socket.accept()
    frames = int(socket.query_params.get("frames", "0"))
    for i in range(frames):
        await socket.send_text(json.dumps({"frame": i}))
    if frames:
        await socket.close(1000, "all sent")
        return
    while (message := await socket.receive())["type"] == "websocket.receive":
        if (text := message.get("text")) is not None:
            await socket.send_text(text)
        else:
            await socket.send_bytes(message["bytes"])


class _CutOff(Response):
    """Promises more than it sends; the server then closes the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"cut off here", "more_body": True})


def _not_stored(app: ASGIApp) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_fresh(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, receive, send_fresh)

    return wrapped


def _number(request: Request, name: str, default: int) -> int:
    return int(request.query_params.get(name, default))

"""A hostile browser: a debugging port that speaks DevTools as no browser would.

It answers enough of the protocol for an observation to begin, and mixes into it odd answers, odd
events and bytes that are nothing at all.
"""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tests.fuzz.arguments import odd_value
from tests.fuzz.values import TEXTS, URLS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

HOSTILE = "HOSTILE"
PAGE = {
    "targetId": HOSTILE,
    "type": "page",
    "title": "\u202e",
    "url": "http://127.0.0.1:1/",
    "attached": False,
    "canAccessOpener": False,
}
METHODS = (
    *("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"),
    *("Network.requestWillBeSent", "Network.requestWillBeSentExtraInfo", "Network.loadingFailed"),
    *("Network.responseReceived", "Network.responseReceivedExtraInfo", "Network.dataReceived"),
    *("Network.loadingFinished", "Network.webSocketCreated", "Network.webSocketFrameReceived"),
    *(
        "Network.webSocketFrameSent",
        "Network.webSocketClosed",
        "Network.eventSourceMessageReceived",
    ),
    *("Page.frameNavigated", "Page.javascriptDialogOpening", "Page.loadEventFired"),
    *("Target.attachedToTarget", "Target.detachedFromTarget", "Target.targetInfoChanged"),
    *("Target.targetDestroyed", "Target.targetCrashed", "Target.targetCreated"),
    *("Inspector.targetCrashed", "Debugger.scriptParsed", "Network.requestServedFromCache", "x"),
)
"""Events of DevTools that the observer reads, and one that nobody knows."""


class HostileBrowser:
    """Drawn from a seed; `run_hostile_browser` serves it."""

    def __init__(self, random: Random, *, is_silent: bool) -> None:
        """`is_silent` leaves some commands unanswered, for which an observer waits its time."""
        self.port = 0
        self._is_silent = is_silent
        self.frames = 0
        self._random = random

    def answer_http(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer the HTTP part of a debugging port."""
        if request.path.startswith("/devtools"):
            return None
        about = {
            "Browser": self._random.choice(("Chrome/156.0.0.0", "x", "")),
            "webSocketDebuggerUrl": f"ws://127.0.0.1:{self.port}/devtools/browser/x",
        }
        listed: Any = [{**PAGE, "id": HOSTILE, "webSocketDebuggerUrl": "ws://127.0.0.1:1/"}]
        told: Any = listed if "list" in request.path else about
        if self._random.random() < 0.1:
            told = odd_value(self._random, told)
        body = json.dumps(told).encode()
        headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body))})
        return Response(HTTPStatus.OK.value, "OK", headers, body)

    async def serve(self, socket: ServerConnection) -> None:
        """Speak to one observer."""
        shouting = asyncio.create_task(self._shout(socket))
        try:
            async for raw in socket:
                with suppress(ValueError):
                    await self._answer(socket, json.loads(raw))
        except ConnectionClosed:
            pass
        finally:
            shouting.cancel()
            await asyncio.gather(shouting, return_exceptions=True)

    async def _answer(self, socket: ServerConnection, command: dict[str, Any]) -> None:
        random = self._random
        answer: dict[str, Any] = {"id": command["id"], "result": self._result(command)}
        if session := command.get("sessionId"):
            answer["sessionId"] = session
        odd = random.random()
        if odd < 0.05:
            answer["result"] = odd_value(random, answer["result"])
        elif odd < 0.08:
            error = {"code": random.choice((-32000, "x", None)), "message": random.choice(TEXTS)}
            answer = {"id": command["id"], "error": random.choice((error, None, "x", []))}
        elif odd < 0.10 and self._is_silent:
            answer["id"] = odd_value(random, command["id"])
        elif odd < 0.11 and self._is_silent:
            return
        self.frames += 1
        await socket.send(json.dumps(answer))

    def _result(self, command: dict[str, Any]) -> Any:
        match command.get("method"):
            case "Target.getTargets":
                return {"targetInfos": [PAGE]}
            case "Target.getTargetInfo":
                return {"targetInfo": PAGE}
            case "Target.attachToTarget" | "Target.attachToBrowserTarget":
                return {"sessionId": "S"}
            case "Network.getResponseBody":
                return {"body": self._random.choice(TEXTS), "base64Encoded": True}
            case "Browser.getVersion":
                return {"product": "Chrome/156", "protocolVersion": "1.3"}
        return {}

    async def _shout(self, socket: ServerConnection) -> None:
        """Send events that nobody asked for."""
        random = self._random
        with suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(random.random() / 20)
                self.frames += 1
                if random.random() < 0.05:
                    await socket.send(random.choice(("", "{", "[]", "null", b"\xff\x00", "1")))
                else:
                    await socket.send(json.dumps(self.event()))

    def event(self) -> dict[str, Any]:
        """Return an event with one thing or more that is odd."""
        random = self._random
        params: dict[str, Any] = {
            "requestId": f"r{random.randrange(5)}",
            "loaderId": "L",
            "type": random.choice(("log", "error", "Document", "XHR", 1)),
            "timestamp": random.choice((1.5, 0, -1, 1e300, "x")),
            "wallTime": 1_700_000_000.5,
            "args": [{"type": "string", "value": random.choice(TEXTS)}, {"type": "object"}],
            "request": {
                "url": random.choice(URLS),
                "method": "GET",
                "headers": {"Cookie": "a=b", "x": random.choice(TEXTS)},
            },
            "response": {
                "url": random.choice(URLS),
                "status": random.choice((200, 404, -1, "x")),
                "headers": {"content-type": random.choice(TEXTS)},
                "mimeType": "text/html",
                "payloadData": random.choice(TEXTS),
                "opcode": random.choice((1, 2, 9)),
            },
            "headers": {"set-cookie": "s=1\nt=2"},
            "errorText": random.choice(TEXTS),
            "encodedDataLength": random.choice((0, -1, 1e30)),
            "dataLength": 5,
            "entry": {"level": "error", "text": random.choice(TEXTS), "source": "network"},
            "exceptionDetails": {"text": random.choice(TEXTS), "lineNumber": -1, "exceptionId": 1},
            "sessionId": random.choice(("S2", "S", "")),
            "targetInfo": {**PAGE, "targetId": random.choice((HOSTILE, "T2", ""))},
            "targetId": random.choice((HOSTILE, "T2")),
            "frame": {"id": "F", "url": random.choice(URLS), "loaderId": "L"},
            "scriptId": "1",
            "url": random.choice(URLS),
            "sourceMapURL": "data:application/json,{}",
            "status": random.choice(("crashed", 1)),
            "errorCode": random.choice((0, "x")),
        }
        for _ in range(random.randrange(4)):
            name = random.choice(list(params))
            if random.random() < 0.3:
                del params[name]
            else:
                params[name] = odd_value(random, params[name])
        odd_params: Any = random.choice((None, "x", 1)) if random.random() < 0.03 else params
        return {
            "method": random.choice(METHODS),
            "params": odd_params,
            "sessionId": random.choice(("S", "S", "S", "S2", "", 1)),
        }


@contextmanager
def run_hostile_browser(random: Random, *, is_silent: bool = True) -> Iterator[HostileBrowser]:
    """Serve a hostile browser on a free port of loopback until the block ends."""
    browser = HostileBrowser(random, is_silent=is_silent)
    is_up = threading.Event()
    loop = asyncio.new_event_loop()
    stopped = asyncio.Event()

    async def run() -> None:
        async with serve(
            browser.serve,
            "127.0.0.1",
            0,
            process_request=browser.answer_http,
            max_size=None,
            compression=None,
            close_timeout=1,
        ) as server:
            browser.port = next(iter(server.sockets)).getsockname()[1]
            is_up.set()
            await stopped.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    assert is_up.wait(30)
    try:
        yield browser
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(30)
        loop.close()

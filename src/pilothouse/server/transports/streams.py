"""Event streams that last for as long as their clients like, ended when the server ends.

A server waits at its end for the requests that are under way. A request that only listens would be
waited for in vain, and then be cut off as if something had failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LISTENING = b"subscriptions/listen"
"""The request of the 2026 era that only listens; that of 2025 is a GET."""


class EndingStreams:
    """An ASGI application whose event streams can be ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[anyio.CancelScope] = set()
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _may_only_listen(scope):
            await self._app(scope, receive, send)
            return
        is_stream = is_whole = False

        async def pass_on(message: Message) -> None:
            nonlocal is_stream, is_whole
            await send(message)
            if message["type"] == "http.response.start":
                is_stream = _header(message, b"content-type").startswith(b"text/event-stream")
                if is_stream:
                    self._open.add(serving)
                    if self._is_over:
                        serving.cancel()
            elif message["type"] == "http.response.body":
                is_whole = not message.get("more_body")

        with anyio.CancelScope() as serving:
            try:
                await self._app(scope, receive, pass_on)
            finally:
                self._open.discard(serving)
        if is_stream and not is_whole:
            await send({"type": "http.response.body", "body": b""})

    def end(self) -> None:
        """End all that are open, and those that are about to be."""
        self._is_over = True
        for serving in list(self._open):
            serving.cancel()


def _may_only_listen(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    return scope["method"] == "GET" or _header(scope, b"mcp-method") == LISTENING


def _header(message: Any, name: bytes) -> bytes:
    """Return the value of a header of a request or an answer; empty: there is none."""
    found: bytes = next((value for key, value in message["headers"] if key.lower() == name), b"")
    return found

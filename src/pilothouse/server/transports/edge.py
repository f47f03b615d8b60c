"""What every HTTP request passes before it reaches a route: Host, Origin, size, sound JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from pilothouse.core.net import jsonrpc
from pilothouse.machine.net.local_users import Caller
from pilothouse.server.mcp.sdk_types import to_result
from pilothouse.server.runtime import too_many
from pilothouse.server.transports.asgi import CALLER
from pilothouse.server.transports.principal import principal_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pilothouse.core.net.origins import OriginPolicy
    from pilothouse.machine.net.http_access import Access, AccessRefused
    from pilothouse.server.runtime import Runtime

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]


def _header(scope: Scope, name: bytes) -> str | None:
    values = [value for key, value in scope["headers"] if key == name]
    # Two Host or Origin headers are an attempt to have two parsers disagree.
    return values[0].decode("latin-1") if len(values) == 1 else "" if values else None


_DRAINED = 4
"""A body up to this many times the limit is read to its end before it is refused."""


async def respond(
    send: Send, status: int, body: Any, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Send a short JSON answer."""
    data = json.dumps(body).encode()
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(data)).encode()),
                *_HEADERS,
                *(headers or []),
            ],
        }
    )
    await send({"type": "http.response.body", "body": data})


class OriginGuard:
    """A guard against foreign Hosts and Origins on every route, WebSocket upgrades included; and
    with `access` against foreign users."""

    def __init__(
        self, app: ASGIApp, origin_policy: OriginPolicy, access: Access | None = None
    ) -> None:
        self._app = app
        self._origin_policy = origin_policy
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        host, origin = _header(scope, b"host"), _header(scope, b"origin")
        if not self._origin_policy.admits_host(host):
            status, why = 421, "Host names another server; use 127.0.0.1 or localhost"
        elif not self._origin_policy.admits_origin(origin, host or ""):
            status, why = 403, "Origin is another site; requests of pages are taken from here only"
        elif refused := self._judge(scope):
            await _refuse(scope, send, refused)
            return
        else:
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": why})
        else:
            await respond(send, status, {"error": {"code": status, "message": why}})

    def _judge(self, scope: Scope) -> AccessRefused | None:
        if self._access is None:
            return None
        query = scope["query_string"].decode("latin-1")
        return self._access.judge(
            scope.get("state", {}).get(CALLER, Caller.OTHER),
            scope.get("method", ""),
            scope["path"] + (f"?{query}" if query else ""),
            _all(scope, b"authorization"),
            _all(scope, b"cookie"),
        )


def _all(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


async def _refuse(scope: Scope, send: Send, refused: AccessRefused) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "another user's server"})
        return
    headers = [(name.encode(), value.encode("latin-1")) for name, value in refused.headers]
    length = str(len(refused.body)).encode()
    own = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send(
        {
            "type": "http.response.start",
            "status": refused.status,
            "headers": [*own, *_HEADERS, *headers],
        }
    )
    await send({"type": "http.response.body", "body": refused.body})


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes | None:
    """Return the whole body, or None when it is larger than it may be.

    A body that is only somewhat too large is read and thrown away, because a client that is still
    sending when the connection closes sees a reset instead of the answer.
    """
    declared = _header(scope, b"content-length") or "0"
    if not declared.isdecimal() or int(declared) > _DRAINED * most:
        return None
    parts: list[bytes] = []
    size = 0
    while size <= _DRAINED * most:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            parts.clear()
        else:
            parts.append(part)
        if not message.get("more_body", False):
            break
    return b"".join(parts) if size <= most else None


class SoundMessages:
    """A filter that lets only sound JSON-RPC through to an MCP endpoint, within the rate limit."""

    def __init__(self, app: ASGIApp, runtime: Runtime) -> None:
        self._app = app
        self._runtime = runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await read_body(scope, receive, jsonrpc.MAX_BYTES)
        if body is None:
            why = f"request body is larger than {jsonrpc.MAX_BYTES} bytes"
            refusal = jsonrpc.Refusal(jsonrpc.INVALID_REQUEST, why)
            await respond(send, 413, refusal.response(), [(b"connection", b"close")])
            return
        wrong_kind = jsonrpc.refuse_kind(_header(scope, b"content-type"))
        if wrong_kind is not None:
            await respond(send, 415, wrong_kind.response())
            return
        message = jsonrpc.parse(body)
        if isinstance(message, jsonrpc.Refusal):
            await respond(send, 400, message.response())
            return
        if message.get("method") == "tools/call" and await self._too_early(scope, message, send):
            return
        scope["state"]["message"] = message
        await self._app(_as_json(scope), _replay(body, receive), send)

    async def _too_early(self, scope: Scope, message: dict[str, Any], send: Send) -> bool:
        """Answer a call that came too early; the client learns from Retry-After when to come."""
        tool = self._runtime.tool(str(message.get("params", {}).get("name")))
        if tool is None or "id" not in message:
            return False
        wait = self._runtime.limits.admit(principal_of(scope) or "local", tool.name)
        if not wait:
            return False
        result = to_result(too_many(self._runtime, tool, wait))
        shown = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        after = str(math.ceil(wait)).encode()
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": shown}
        await respond(send, 200, answer, [(b"retry-after", after)])
        return True


def _as_json(scope: Scope) -> Scope:
    """Return a request whose type is spelled as the SDK knows it, which minds case and blanks."""
    plain = (b"content-type", b"application/json")
    if plain in scope["headers"]:
        return scope
    others = [field for field in scope["headers"] if field[0] != plain[0]]
    return {**scope, "headers": [*others, plain]}


def _replay(body: bytes, receive: Receive) -> Receive:
    """Replay a body that was read already, followed by whatever else the client does."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again

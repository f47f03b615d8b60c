"""One question to a server, for what the hub itself wants to know; clients' calls are relayed.

HTTP/1.0, so that the answer ends with the connection and needs no framing.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.core.net.http1 import HEAD_END, BadMessage, parse_answer_head, write_head
from pilothouse.hub.http.sse import SSE, message_of, take_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse.core.net.http1 import AnswerHead, Body
    from pilothouse.hub.ports import Upstream

ANSWER_S = 10.0
_MOST = 16 << 20
_ID = 1


class NoAnswer(Exception):
    """The server could not be asked, or did not answer."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer to one question."""

    status: int
    session: str
    """`Mcp-Session-Id`, empty if none was sent."""
    body: Any
    """The JSON; of a stream of events the message that answers. None: there was none, or it was
    in words for people, as many servers refuse what they do not know."""


async def post(
    upstream: Upstream,
    method: str,
    params: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    within: float = ANSWER_S,
) -> HttpAnswer:
    """Send a JSON-RPC request, or a notification by its name. Raises NoAnswer."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    if not method.startswith("notifications/"):
        message["id"] = _ID
    return await _exchange(
        upstream, "POST", upstream.endpoint, headers=headers, message=message, within=within
    )


async def get(upstream: Upstream, path: str, within: float = ANSWER_S) -> HttpAnswer:
    """Get a path. Raises NoAnswer."""
    return await _exchange(upstream, "GET", path, within=within)


async def delete(
    upstream: Upstream, headers: Mapping[str, str], within: float = ANSWER_S
) -> HttpAnswer:
    """Delete the session that the headers name. Raises NoAnswer."""
    return await _exchange(upstream, "DELETE", upstream.endpoint, headers=headers, within=within)


async def _exchange(
    upstream: Upstream,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    message: object = None,
    within: float,
) -> HttpAnswer:
    body = b"" if message is None else json.dumps(message).encode()
    fields = {
        "Host": upstream.host_header or "localhost",
        "Accept": "application/json, text/event-stream",
        "Connection": "close",
        **({"Content-Type": "application/json", "Content-Length": str(len(body))} if body else {}),
        **(headers or {}),
    }
    request = write_head(f"{method} {path or '/mcp'} HTTP/1.0", fields.items()) + body
    try:
        async with asyncio.timeout(within):
            head, content = await _send(upstream, method, request)
    except (OSError, ValueError, TimeoutError, BadMessage) as error:
        raise NoAnswer(f"{method} {path}: {str(error) or type(error).__name__}") from None
    told = _answer_in(content) if _is_stream(head) else _json(content)
    return HttpAnswer(head.status, head.first("mcp-session-id"), told)


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


async def _send(upstream: Upstream, method: str, request: bytes) -> tuple[AnswerHead, bytes]:
    if upstream.path:
        reader, writer = await asyncio.open_unix_connection(upstream.path)
    else:
        reader, writer = await asyncio.open_connection(upstream.host, upstream.port)
    try:
        writer.write(request)
        answer = bytearray()
        while (end := HEAD_END.search(answer)) is None:
            answer += await _more(reader)
        head = parse_answer_head(bytes(answer[: end.start()]))
        body = head.body(method)
        content = bytearray(body.take(bytes(answer[end.end() :])))
        with suppress(EOFError):
            # Some keep the connection open though they were asked not to, and have nothing to add.
            while not _is_whole(head, body, content):
                content += body.take(await _more(reader))
                if len(content) > _MOST:
                    raise ValueError(f"the answer is larger than {_MOST} bytes")
        return head, bytes(content)
    except EOFError:
        raise NoAnswer("the connection closed without an answer") from None
    finally:
        writer.close()


async def _more(reader: asyncio.StreamReader) -> bytes:
    """Return the next bytes. Raises EOFError at the end."""
    piece = await reader.read(1 << 16)
    if not piece:
        raise EOFError
    return piece


def _is_stream(head: AnswerHead) -> bool:
    return head.first("content-type").startswith(SSE)


def _is_whole(head: AnswerHead, body: Body, content: bytearray) -> bool:
    return body.ended or (_is_stream(head) and _answer_in(bytes(content)) is not None)


def _answer_in(stream: bytes) -> Any:
    """Return the response among the events, None without one; notifications may come before it."""
    content = bytearray(stream)
    while one := take_event(content):
        message = message_of(one)
        if message is not None and "id" in message and "method" not in message:
            return message
    return None

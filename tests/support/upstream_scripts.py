"""Workers that do as a test has written, for the listener against a plain upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.hub.mcp.template import Template

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.listener_rig import Asked, Script

CAPABILITIES = {"tools": {}, "logging": {}, "resources": {"subscribe": True}}
SERVER = {"name": "plain", "version": "1"}
HANDSHAKE = {
    "initialize": {"capabilities": CAPABILITIES, "serverInfo": SERVER},
    "ping": {},
    "tools/list": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]},
}
MODERN = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "tools/list": {"tools": [], "resultType": "complete"},
}
TEMPLATE = Template(HANDSHAKE, MODERN)
EVENTS = "Content-Type: text/event-stream"


def worker(on_call: Callable[[Asked], Awaitable[None]]) -> Script:
    """A worker that shakes hands as an MCP server does, and does as told with all else."""

    async def script(asked: Asked) -> None:
        message = asked.message if asked.body else {}
        if message.get("method") == "initialize":
            asked.result({"protocolVersion": "2025-11-25"}, "Mcp-Session-Id: inner")
        elif asked.head.method == "DELETE":
            asked.answer("200 OK")
        elif message.get("method", "").startswith(("notifications/", "logging/", "resources/")):
            asked.answer("202 Accepted")
        elif asked.head.method == "GET":
            asked.answer("405 Method Not Allowed")
        else:
            await on_call(asked)

    return script


async def echo(asked: Asked) -> None:
    asked.result({"content": [{"type": "text", "text": "done"}]})


def hanging_up(said: bytes) -> Callable[[Asked], Awaitable[None]]:
    """Answers with exactly this, and closes."""

    async def script(asked: Asked) -> None:
        asked.writer.write(said)
        await asked.writer.drain()
        asked.writer.close()

    return script


def stream(asked: Asked, *pieces: bytes) -> None:
    """Begin a stream of events."""
    if not asked.writer.is_closing():
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        head = f"HTTP/1.1 200 OK\r\n{EVENTS}\r\nTransfer-Encoding: chunked\r\n\r\n"
        asked.writer.write(head.encode() + chunks)


def methods(asked: list[Asked]) -> list[str]:
    return [one.message.get("method", "-") if one.body else one.head.method for one in asked]

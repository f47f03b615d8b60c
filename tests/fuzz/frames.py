"""Odd bytes for every socket of ours, made of what is said there.

control     one JSON object a line: relays and commands
services    pieces of messages: workers and their hub
zygote      one JSON object a line: the hub and the parent of its workers
engine      one JSON object a line: the owner of the proxy's engine
extension   a WebSocket with messages: the Chrome extension
rest        HTTP: the REST API of the proxy
config      HTTP: its config endpoint
mcp         HTTP: /mcp and what lies beside it
pipe        messages with a zero byte at their end: a browser, its driver and the observer (pipe.py)

places.py sends them.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from pilothouse import __version__
from pilothouse.ipc.frames import packed, pieces
from tests.fuzz.arguments import mutate, odd_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    type Message = Mapping[str, Any]
    type Frames = list[bytes]
    """What is sent on one connection, piece by piece."""

MOST = 400_000
_HEAD = struct.Struct("!IIB")

CONTROL: tuple[Message, ...] = (
    {"hello": {"version": __version__, "pid": 7, "settings": {"cdp_port": 9333}, "cwd": "/tmp"}},
    {"hello": {"version": "0", "pid": 7, "settings": {}, "cwd": "/tmp"}},
    {"status": True},
    {"compare": {"cdp_port": 1, "profile": "full", "redact": ["x"]}},
    {"worker": True, "client": {"name": "fuzz"}},
)
SERVICES: tuple[Message, ...] = (
    {"call": 1, "do": "hello", "with": {"session": "fuzz"}},
    {"call": 2, "do": "house.claim", "with": {"session_id": "x", "port": 1, "shared": False}},
    {"tell": "house.release", "with": {"session_id": "x"}},
    {"tell": "house.listeners", "with": {"ports": [1, 2]}},
    {"tell": "house.counted", "with": {"told": {}}},
    {"call": 3, "do": "house.counted", "with": {"told": {}}},
    {"call": 4, "do": "intercept.history", "with": {"token": None, "limit": 1}},
    {"call": 5, "do": "intercept.config", "with": {}},
    {"call": 6, "do": "intercept.job", "with": {"job_id": "x"}},
    {"call": 7, "do": "bookmarks.state", "with": {}},
    {"hold": 8, "do": "intercept.view", "with": {}},
    {"hold": 9, "do": "bookmarks.view", "with": {}},
    {"drop": 8},
    {"tell": "bookmarks.wanted", "with": {}},
    {"answer": 1, "value": 1},
    {"answer": 2, "fault": {"class": "x", "message": "x", "hint": "", "details": {}}},
    {"answer": 3, "broke": "x"},
)
ZYGOTE: tuple[Message, ...] = (
    {
        **{"fork": "f1", "socket": "f1", "cwd": "/", "settings": {}, "session": "x"},
        **{"services": "", "temp": ""},
    },
    {"signal": "f1", "number": 9},
    {"signal": "nobody", "number": 15},
)
ENGINE: tuple[Message, ...] = (
    {"id": 1, "do": "ping", "args": {}},
    {"id": 2, "do": "state", "args": {}},
    {"id": 3, "do": "configure", "args": {"config": {"listenPorts": [], "servers": []}}},
    {"id": 4, "do": "open_browser", "args": {"name": "a", "session": "s", "upstream": None}},
    {"id": 5, "do": "close_browser", "args": {"name": "a"}},
    {"id": 6, "do": "mocks", "args": {"session": "s", "rules": [{"url": "x", "status": 200}]}},
    {"id": 7, "do": "breakpoints", "args": {"session": "s", "rules": [{"url": "("}]}},
    {"id": 8, "do": "decide", "args": {"held_id": "h1", "action": "forward"}},
    {"id": 9, "do": "inject", "args": {"connection": "c", "to_client": True, "payload_b64": "="}},
    {"id": 10, "do": "job", "args": {"job_id": "x"}},
    {"id": 11, "do": "resend", "args": {"plan": {"sources": []}}},
    {"id": 12, "do": "end_session", "args": {"session": "s"}},
    {"id": 13, "do": "flush", "args": {}},
)
HELLO: Message = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "hello",
    "params": {
        "token": "<code>",
        "profile": {"id": "fuzz", "name": "Fuzz"},
        "boot": "b",
        "version": "0.1.0",
        "chrome": "156.0.0.0",
    },
}
EXTENSION: tuple[Message, ...] = (
    HELLO,
    {"jsonrpc": "2.0", "method": "heartbeat"},
    {"jsonrpc": "2.0", "id": 1, "result": {"tree": []}},
    {"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "no"}},
    {
        "jsonrpc": "2.0",
        "method": "bookmark_event",
        "params": {"type": "created", "id": "7", "data": {"title": "x", "url": "y"}, "own": False},
    },
    {
        "jsonrpc": "2.0",
        "method": "bookmark_event",
        "params": {"type": "removed", "id": "7", "data": {"node": {"title": "x"}}, "own": True},
    },
)
MCP: tuple[Message, ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
    {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "cdp://events/x"}},
    {"jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": {"uri": "pilothouse://x"}},
    {"jsonrpc": "2.0", "id": 4, "method": "prompts/get", "params": {"name": "diagnose"}},
    {"jsonrpc": "2.0", "id": 5, "method": "resources/subscribe", "params": {"uri": "x"}},
    {
        "jsonrpc": "2.0",
        "id": 6,
        "method": "completion/complete",
        "params": {
            "ref": {"type": "ref/prompt", "name": "diagnose"},
            "argument": {"name": "x", "value": ""},
        },
    },
    {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "status"}},
    {"jsonrpc": "2.0", "id": 8, "method": "logging/setLevel", "params": {"level": "debug"}},
    {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": "x"}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    {"jsonrpc": "2.0", "id": 1, "result": {}},
)
REST: tuple[Message, ...] = (
    {"filter": "id > 0", "limit": 5},
    {"count": 1, "modifications": [{"type": "header_add", "name": "a", "value": "b"}]},
    {"listenPorts": [], "servers": [], "modifications": [], "sslPassThroughs": []},
)
REST_PATHS = (
    *("/openapi.json", "/packets", "/packets/1", "/packets/x", "/packets/1/resend", "/config"),
    *("/history?limit=x", "/history?filter=(", "/logs?level=x", "/config/restore", "/../../x"),
    *("/history?offset=-1&order=;", "/%00", "/history?limit=1&limit=2", "/packets/" + "9" * 400),
)
MCP_PATHS = (
    *("/mcp", "/mcp/key", "/message", "/mcp/" + "k" * 300, "/mcp/%2e%2e", "/health", "/metrics"),
    *("/", "/api/sessions", "/api/rows?after=x", "/status", "/x", "/mcp?sessionId=x"),
)
HEADERS = (
    "content-type: application/json",
    "accept: application/json, text/event-stream",
    "accept: */*",
    "mcp-session-id: nobody",
    "mcp-session-id: \xff\x00",
    "mcp-protocol-version: 2026-07-28",
    "mcp-protocol-version: 1",
    "mcp-method: tools/list",
    "mcp-method: x",
    "mcp-name: =?base64?x?=",
    "transfer-encoding: chunked",
    "content-length: -1",
    "content-length: 99999999999999999999",
    "last-event-id: \u00e9",
    "expect: 100-continue",
    "upgrade: websocket",
    "connection: upgrade",
    "x: " + "y" * 70_000,
    "host: evil.invalid",
    "a b: c",
    ": x",
)


def odd_messages(random: Random, usual: Sequence[Message], count: int) -> list[Any]:
    """Return messages of which most have something wrong."""
    drawn = []
    for _ in range(count):
        message: Any = dict(random.choice(usual))
        for _ in range(random.choice((0, 1, 1, 2))):
            message = mutate(message, random)
        drawn.append(odd_value(random, message) if random.random() < 0.05 else message)
    return drawn


def json_bytes(message: Any) -> bytes:
    return json.dumps(message).encode()[:MOST]


def odd_bytes(random: Random, data: bytes) -> bytes:
    """Return bytes with some of them cut, changed or repeated."""
    match random.randrange(7):
        case 0 if data:
            at = random.randrange(len(data))
            return data[:at] + random.randbytes(random.randrange(1, 9)) + data[at + 1 :]
        case 1:
            return data[: random.randrange(len(data) + 1)]
        case 2:
            return b"\xff\xfe" + data
        case 3:
            return random.randbytes(random.choice((1, 30, 5_000)))
        case 4:
            return data * random.choice((2, 3))
        case _:
            return data


def lines(random: Random, usual: Sequence[Message]) -> Frames:
    """Return what is sent where each line is an object."""
    made = []
    drawn = odd_messages(random, usual, random.choice((1, 2, 5)))
    if usual is CONTROL and random.random() < 0.3:
        # A worker is started only for one who has said hello well enough.
        drawn = [*odd_messages(random, CONTROL[:1], 1), CONTROL[-1]]
    for message in drawn:
        data = json_bytes(message)
        if random.random() < 0.2:
            data = odd_bytes(random, data)
        made.append(data + random.choice((b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\0")))
    return made


def service_pieces(random: Random) -> Frames:
    """Return what a worker would say to its hub, nearly."""
    made = [b"".join(pieces(1, packed(SERVICES[0])))] if random.random() < 0.7 else []
    for number, message in enumerate(odd_messages(random, SERVICES, random.choice((1, 3))), 2):
        # Not by `packed`, which refuses what cannot be sent.
        text = json_bytes(message)
        body = struct.pack("!IQ", 1, len(text)) + text
        head = (len(body), number, True)
        if random.random() < 0.25:
            odd = (0, 1, 1 << 17, (1 << 17) + 1, 2**32 - 1)
            head = (random.choice(odd), random.choice((0, number)), random.random() < 0.5)
        made.append(_HEAD.pack(*head) + body)
        if random.random() < 0.2:
            made[-1] = odd_bytes(random, made[-1])
    return made


def http_bytes(
    random: Random, paths: Sequence[str], usual: Sequence[Message], token: str
) -> Frames:
    """Return a request, or something like it."""
    body = json_bytes(odd_messages(random, usual, 1)[0])
    if random.random() < 0.2:
        body = odd_bytes(random, body)
    method = random.choice(("GET", "POST", "POST", "POST", "PUT", "DELETE", "OPTIONS", "X", "g t"))
    head = [f"{method} {random.choice(paths)} HTTP/1.1", "Host: 127.0.0.1"]
    if random.random() < 0.8:
        head += HEADERS[:2]
    if token and random.random() < 0.9:
        head.append(f"authorization: Bearer {token}")
    head += [random.choice(HEADERS) for _ in range(random.choice((0, 0, 1, 2)))]
    if random.random() < 0.85:
        head.append(f"content-length: {len(body)}")
    data = "\r\n".join(head).encode("latin-1", "replace") + b"\r\n\r\n" + body
    return [odd_bytes(random, data) if random.random() < 0.1 else data]


def extension_messages(random: Random) -> Frames:
    made = [json_bytes(HELLO)] if random.random() < 0.7 else []
    for message in odd_messages(random, EXTENSION, random.choice((1, 3))):
        data = json_bytes(message)
        made.append(odd_bytes(random, data) if random.random() < 0.2 else data)
    return made

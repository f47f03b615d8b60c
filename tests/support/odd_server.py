"""An MCP server of few words and bad manners: `odd_server.py http|stdio MANNER…`.

    noise    writes other things before and between what it should
    split    writes a byte at a time
    silent   does not say where it listens
    six      listens on the IPv6 address of this machine alone
    stay     does not heed SIGTERM, and has a child that does not either
    die      writes a reason and ends
    later    ends with the first request
    2025     shakes hands, and knows nothing but what servers of 2025 have to: all else gets no
             answer over stdio, and words for people over HTTP

It answers a request with the request itself. `tell` as a method makes it send a notification of
progress first, `ask` a request of its own, `slow` no answer until it is cancelled.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

MANNERS = frozenset(sys.argv[2:])


def write(text: str, to: Any = sys.stdout) -> None:
    for piece in text if "split" in MANNERS else [text]:
        to.write(piece)
        to.flush()


def noise() -> None:
    if "noise" in MANNERS:
        write('warming up: 100 %\n\n{"not": "a message"}\n[broken\nsee http://example.com:80/x\n')


def answers(message: dict[str, Any]) -> list[dict[str, Any]]:
    """What is said to a message, the answer last."""
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    token = params.get("_meta", {}).get("progressToken")
    if method == "tell":
        told = {"progressToken": token, "progress": 1}
        first = [{"jsonrpc": "2.0", "method": "notifications/progress", "params": told}]
    elif method == "ask":
        first = [{"jsonrpc": "2.0", "id": "its-own", "method": "roots/list", "params": {}}]
    elif method == "notifications/cancelled":
        return [{"jsonrpc": "2.0", "id": params["requestId"], "result": {"cancelled": True}}]
    elif id is None or method is None or method == "slow":
        # What the client says unasked is shown to it, so that a test can see it arrive.
        about = {"heard": message}
        return [{"jsonrpc": "2.0", "method": "notifications/message", "params": about}]
    else:
        first = []
    return [*first, {"jsonrpc": "2.0", "id": id, "result": {"pid": os.getpid(), "you": message}}]


def of_2025(message: dict[str, Any]) -> list[dict[str, Any]]:
    """What is said to a message by a server that was written by hand in 2025."""
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        about = {"name": "odd", "version": "1"}
        version = message["params"]["protocolVersion"]
        result: Any = {"protocolVersion": version, "capabilities": {"tools": {}}}
        result["serverInfo"] = about
    elif method == "tools/list":
        result = {"tools": [{"name": "who", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": str(os.getpid())}]}
    else:
        return []
    return [{"jsonrpc": "2.0", "id": id, "result": result}]


def said_to(message: dict[str, Any]) -> list[dict[str, Any]]:
    return of_2025(message) if "2025" in MANNERS else answers(message)


def serve_stdio() -> None:
    noise()
    for line in sys.stdin:
        if "later" in MANNERS:
            sys.exit("it was too much for me")
        for answer in said_to(json.loads(line)):
            noise()
            write(json.dumps(answer) + "\n")


def serve_http() -> None:
    is_six = "six" in MANNERS
    address = "::1" if is_six else "127.0.0.1", int(os.environ.get("ODD_PORT", "0"))
    family = socket.AF_INET6 if is_six else socket.AF_INET
    listener = socket.create_server(address, family=family)
    noise()
    if "silent" not in MANNERS:
        write(f"Listening on http://localhost:{listener.getsockname()[1]}\n", sys.stderr)
    while True:
        client, _ = listener.accept()
        with client, client.makefile("rwb") as stream:
            head = []
            while (line := stream.readline()) not in (b"\r\n", b""):
                head.append(line.lower())
            length = next((int(h.split(b":")[1]) for h in head if b"content-length" in h), 0)
            if not head or "later" in MANNERS:
                continue
            body = json.loads(stream.read(length)) if length else {}
            said = said_to(body)
            answer = json.dumps(said[-1]).encode() if said else b"Invalid or missing session"
            status = b"200 OK" if said else b"400 Bad Request"
            session = b"Mcp-Session-Id: odd\r\n" if "2025" in MANNERS else b""
            length_line = b"Content-Length: %d\r\n\r\n" % len(answer)
            stream.write(b"HTTP/1.0 %s\r\n" % status + session + length_line + answer)


def main() -> None:
    if "die" in MANNERS:
        sys.exit("no licence for this machine")
    if "stay" in MANNERS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; sleep 600 & wait"])
    serve_http() if sys.argv[1] == "http" else serve_stdio()


main()

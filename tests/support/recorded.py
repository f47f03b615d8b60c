"""Records as the history and the engine give them, for tests of how they are shown."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

from pilothouse.intercept.ports import Detail, Side

START = 1_736_937_000_000.0
"""2025-01-15T10:30:00Z"""


def row(packet_id: int, **changes: Any) -> dict[str, Any]:
    """A row as the history gives it."""
    made: dict[str, Any] = {
        "id": packet_id,
        "group": packet_id,
        "is_response": 0,
        "connection": "c1",
        "session": "s1",
        "listener": 8080,
        "type": "HTTP",
        "encode": "HTTP",
        "alpn": "http/1.1",
        "scheme": "https",
        "server_name": "api.example.com",
        "client_ip": "192.168.1.100",
        "client_port": 50_000,
        "server_ip": "93.184.216.34",
        "server_port": 443,
        "method": "GET",
        "url": "/api/users",
        "version": "HTTP/1.1",
        "status": 200,
        "duration_ms": 245.25,
        "time": START + packet_id,
        "length": 1024,
        "modified": 0,
        "resend": 0,
        "job": "",
        "key": "",
        "error": "",
        "peer_id": packet_id + 1,
        "peer_time": START,
        "peer_length": 10,
        "peer_modified": 0,
    }
    return {**made, **changes}


def side(packet_id: int, head: bytes, body: bytes = b"", **changes: Any) -> Side:
    made = Side(
        id=packet_id,
        time=START,
        length=len(head) + len(body),
        head=head,
        body=body,
        body_length=len(body),
    )
    return replace(made, **changes)


def exchange(
    packet_id: int,
    request_body: bytes = b"",
    response_body: bytes = b"{}",
    content_type: str = "application/json",
    **changes: Any,
) -> Detail:
    """Both packets of a plain exchange."""
    kind = content_type.encode()
    request = (
        b"GET /api/users HTTP/1.1\r\nHost: api.example.com\r\nAuthorization: Bearer abcdef\r\n"
    )
    response = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n\r\n"
    return Detail(
        row=row(packet_id, **changes),
        request=side(packet_id, request + b"Content-Type: " + kind + b"\r\n\r\n", request_body),
        response=side(packet_id + 1, response, response_body),
    )


def held(held_id: str, head: bytes, body: bytes) -> dict[str, Any]:
    """What a breakpoint holds."""
    return {
        "held_id": held_id,
        "session": "s1",
        "side": "request",
        "method": "POST",
        "url": "https://shop.example/pay?token=hunter22",
        "since": START,
        "forwarded_at": START + 30_000,
        "head": b64encode(head).decode(),
        "body": b64encode(body).decode(),
        "body_length": len(body),
    }

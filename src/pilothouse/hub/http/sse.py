"""Streams of events: where one ends, and the JSON-RPC message that it carries. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

SSE = "text/event-stream"
ENDS = (b"\n\n", b"\r\n\r\n")
"""Bytes that a whole event ends with."""
_END = re.compile(rb"\r?\n\r?\n")


def event(message: bytes) -> bytes:
    """Return a message as one event."""
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


def take_event(content: bytearray) -> bytes:
    """Remove the first whole event from `content` and return it; nothing if there is none yet."""
    end = _END.search(content)
    return _take(content, end.end() if end else 0)


def take_events(content: bytearray) -> bytes:
    """Remove all whole events from `content` and return them."""
    last = 0
    for end in _END.finditer(content):
        last = end.end()
    return _take(content, last)


def _take(content: bytearray, length: int) -> bytes:
    taken = bytes(content[:length])
    del content[:length]
    return taken


def message_of(one: bytes) -> dict[str, Any] | None:
    """Return the message that an event carries, None if it carries none."""
    lines = [line[5:].removeprefix(b" ") for line in one.splitlines() if line.startswith(b"data:")]
    try:
        message = json.loads(b"\n".join(lines))
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def with_message(one: bytes, message: bytes) -> bytes:
    """Return the same event with another message."""
    others = [line for line in one.splitlines() if line and not line.startswith(b"data:")]
    return b"\r\n".join([*others, b"data: " + message, b"", b""])

"""How a line of a worker's log travels to its relay: as a JSON-RPC notification of our own."""

from __future__ import annotations

_HEAD = b'{"jsonrpc":"2.0","method":"notifications/pilothouse/log","params":'
_END = b"}\n"


def pack(line: str) -> str:
    """Return the message for a line, which is a JSON object."""
    return f"{_HEAD.decode()}{line}{_END.decode()}"


def unpack(message: bytes | memoryview) -> bytes | None:
    """Return the line of a message with its end; None where the message is another."""
    if message[: len(_HEAD)] != _HEAD:
        return None
    return bytes(message[len(_HEAD) : -len(_END)]) + b"\n"

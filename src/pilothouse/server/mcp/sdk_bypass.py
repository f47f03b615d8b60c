"""Large answers on their way round the SDK.

The SDK copies, checks and encodes a result three times; for a page of events that is half of what
a read costs. A large answer therefore travels beside it: the SDK carries its ticket, and the
writer of the wire puts the content, which was encoded once, in the ticket's place.
"""

from __future__ import annotations

import secrets

from pydantic_core import to_json

LEAST = 16_384
"""Least characters of an answer that is worth a ticket."""
MOST_HELD = 64


class SdkBypass:
    """Content that waits to be written, each by a ticket that nobody can guess."""

    def __init__(self) -> None:
        self._held: dict[str, str] = {}
        self._mark = f"parcel-{secrets.token_hex(16)}-"
        self._next = 0

    def hold(self, text: str) -> str:
        """Return a ticket for JSON that is both text and structured content of an answer."""
        self._next += 1
        ticket = f"{self._mark}{self._next}"
        self._held[ticket] = text
        while len(self._held) > MOST_HELD:  # answers to calls that were cancelled
            del self._held[next(iter(self._held))]
        return ticket

    def deliver(self, line: str) -> bytes:
        """Return a line of the wire with the content in the place of its ticket."""
        start = line.find(self._mark) if self._held else -1
        if start < 0:
            return line.encode()
        ticket = line[start : line.index('"', start)]
        text = self._held.pop(ticket)
        return (
            line.replace(f'{{"{ticket}":1}}', text, 1)
            .replace(f'"{ticket}"', to_json(text).decode(), 1)
            .encode()
        )

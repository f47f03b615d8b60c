"""Cuts a stream of bytes into lines. Pure."""

from __future__ import annotations


class Splitter:
    """What came so far without an end of line, and the lines that have ended."""

    def __init__(self, most: int | None = None) -> None:
        """Of a line that is longer than `most` bytes, so many and no more are kept."""
        self._most = most
        self._held = bytearray()

    def take(self, data: bytes) -> list[bytes]:
        """The lines that ended with this piece, without their ends."""
        first, *others = data.split(b"\n")
        self._keep(first)
        if not others:
            return []
        lines = [bytes(self._held)]
        *whole, last = others
        lines += whole if self._most is None else [line[: self._most] for line in whole]
        # Anew instead of emptied: a long line's memory goes back at once.
        self._held = bytearray()
        self._keep(last)
        return lines

    def rest(self) -> bytes:
        """The last line of a stream that ended without an end of line; empty if there is none."""
        return bytes(self._held)

    def _keep(self, part: bytes) -> None:
        self._held += part if self._most is None else part[: self._most - len(self._held)]

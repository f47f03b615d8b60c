"""Cuts a stream of bytes into lines. Pure."""

from __future__ import annotations


class Splitter:
    """Cutter of a byte stream into lines; holds what has no end of line yet."""

    def __init__(self, most: int | None = None) -> None:
        """Keep at most the first `most` bytes of a line, and all of it without a limit."""
        self._most = most
        self._held = bytearray()

    def take(self, data: bytes) -> list[bytes]:
        """Return the lines that ended with this piece, without their ends."""
        first, *others = data.split(b"\n")
        self._keep(first)
        if not others:
            return []
        lines = [bytes(self._held)]
        *whole, last = others
        lines += whole if self._most is None else [line[: self._most] for line in whole]
        # A new buffer instead of an emptied one: a long line's memory is freed at once.
        self._held = bytearray()
        self._keep(last)
        return lines

    def rest(self) -> bytes:
        """Return the last line of a stream if it has no end of line; empty if there is none."""
        return bytes(self._held)

    def _keep(self, part: bytes) -> None:
        self._held += part if self._most is None else part[: self._most - len(self._held)]

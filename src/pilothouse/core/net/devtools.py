"""Messages of a DevTools pipe that two clients share: which of them is whose.

A message ends with a zero byte. The first client has no need to know of the second one: it has the
browser's own session and whatever comes from there, with ids as it likes. The second one has ids
from `FIRST_OWN_ID` up and sessions that descend from one that it asked for itself.
"""

from __future__ import annotations

import json
from typing import Any

FIRST_OWN_ID = 1_000_000_000
"""Beyond what any client that counts from 1 gets to, and below what a browser takes as an id."""
END = b"\0"
_KEY = b',"sessionId":'
_LONGEST = 80
"""Bytes of a session's id with its key, at most; Chromium's ids have 32 characters."""


class Cutter:
    """A splitter of bytes into messages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete now, each without its end."""
        first, *more = data.split(END)
        self._parts.append(first)
        if not more:
            return []
        messages = [b"".join(self._parts), *more[:-1]]
        self._parts = [more[-1]]
        return messages

    def whole(self, data: bytes) -> bytes:
        """Return all messages that are complete now as they came, one after the other."""
        last = data.rfind(END) + 1
        if not last:
            self._parts.append(data)
            return b""
        messages = b"".join((*self._parts, data[:last]))
        self._parts = [data[last:]]
        return messages


class MessageRoutes:
    """The routes of a browser's messages: for each, whether it is the second client's.

    Chromium writes the method or the id first and the session last, which is read without parsing
    a message that may be megabytes long. What is written in another way is parsed.
    """

    def __init__(self) -> None:
        self._own: set[bytes] = set()

    def add(self, session: str) -> None:
        """Make a session the second client's, with all that will descend from it."""
        self._own.add(_bytes(session))

    def is_own(self, message: bytes) -> bool:
        """Tell whether a message is the second client's, and learn from it."""
        if (session := session_of(message)) and session in self._own:
            if _may_be_about_targets(message):
                self._learn(message)
            return True
        return _id_of(message) >= FIRST_OWN_ID

    def _learn(self, message: bytes) -> None:
        told = parsed(message)
        params = told.get("params")
        if isinstance(params, dict) and (child := params.get("sessionId")):
            if told.get("method") == "Target.attachedToTarget":
                self._own.add(_bytes(child))
            elif told.get("method") == "Target.detachedFromTarget":
                self._own.discard(_bytes(child))


def is_about_leaving(message: bytes) -> bool:
    """Tell whether a session has ended, which the other client may have to make up for."""
    return b'"Target.detachedFromTarget"' in message[:_LONGEST]


def session_of(message: bytes) -> bytes:
    """Return the id of the session that a message belongs to; empty for the browser's own."""
    if message.endswith(b'"}'):
        # The quote before the last one opens a string, unless that has an escaped one in it, and
        # what stands before it is the last key of the outermost object.
        opens = message.rfind(b'"', max(0, len(message) - _LONGEST), -2)
        if opens > 0 and message.endswith(_KEY, 0, opens) and b"\\" not in message[opens:]:
            return message[opens + 1 : -2]
    if b"sessionId" not in message:
        return b""
    return _bytes(parsed(message).get("sessionId") or "")


def _id_of(message: bytes) -> int:
    """Return the number of the command that a message answers; -1 for an event."""
    if message.startswith(b'{"method":'):
        return -1
    if message.startswith(b'{"id":'):
        ends = message.find(b",", 6, 32)
        if ends > 0 and (digits := message[6:ends]).isdigit():
            return int(digits)
    number = parsed(message).get("id")
    return number if isinstance(number, int) else -1


def _may_be_about_targets(message: bytes) -> bool:
    return message.startswith(b'{"method":"Target.') or not message.startswith(
        (b'{"method":"', b'{"id":')
    )


def _bytes(session: object) -> bytes:
    """Return the bytes of a session's id, whatever stands in its place."""
    return str(session).encode("utf-8", "surrogatepass")


def parsed(message: bytes) -> dict[str, Any]:
    """Return a message's object; an empty one for what is no JSON object."""
    try:
        told = json.loads(message.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}

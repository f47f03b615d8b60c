"""The JSON-RPC lines between a relay's client and its worker: who waits for what. Pure.

Lines pass as they are. Of a worker's line only the head is read, because the rest may be a picture
of megabytes; all that matters is whether it is an answer, and to what.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from pilothouse.hub.http.replies import compact, error_text
from pilothouse.hub.notices import LOST

INTERNAL_ERROR = -32603
_HEAD = re.compile(
    rb'\{"jsonrpc":"2\.0",(?:"id":("(?:[^"\\]|\\.){0,4000}"|-?\d{1,20}),)?"(result|error|method)":'
)

type Id = str | int


class WorkerLine(NamedTuple):
    """Id and kind of a line that a worker sent."""

    id: Id | None
    is_answer: bool


def what_is(line: bytes | memoryview) -> WorkerLine | None:
    """Return id and kind of a worker's line, None if it is no JSON-RPC message."""
    head = _HEAD.match(line)
    if head is not None:
        return WorkerLine(_id(head[1]), head[2] != b"method")
    try:  # a server that is not our own may order its keys as it likes
        message = json.loads(bytes(line))
    except ValueError:
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return None
    return WorkerLine(message.get("id"), "method" not in message)


def _id(text: bytes | None) -> Id | None:
    if text is None:
        return None
    id: Id = json.loads(text) if text.startswith(b'"') else int(text)
    return id


def with_notice(line: bytes, notice: str) -> bytes:
    """Append a text to the content of a tool's answer; return other answers as they are."""
    message = json.loads(line)
    result = message.get("result")
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return line
    # Last: the first text of a spec's tool is the JSON of its structured content.
    content.append({"type": "text", "text": notice})
    return compact(message).encode()


class Flight:
    """Requests under way between the client and one worker, in both directions."""

    def __init__(self) -> None:
        self._asked: dict[Id, str] = {}
        """Method of each request of the client's that waits for its answer, by id."""
        self._asked_back: set[Id] = set()

    def __len__(self) -> int:
        return len(self._asked)

    # Towards the worker

    def passes(self, message: dict[str, Any]) -> bool:
        """Note a message of the client's; return whether the worker is to have it."""
        id = message.get("id")
        if "method" not in message:
            # It may answer a request of a worker that is gone; the new one has made none.
            if id not in self._asked_back:
                return False
            self._asked_back.discard(id)
        elif id is not None:
            self._asked[id] = message["method"]
        elif message["method"] == "notifications/cancelled":
            # Nobody gets an answer to what was cancelled.
            if (dropped := cancelled(message)) is not None:
                self._asked.pop(dropped, None)
        return True

    def forget(self, message: dict[str, Any]) -> None:
        """Drop a request that the worker has not seen."""
        self._asked.pop(message["id"], None)

    # From the worker

    def answered(self, said: WorkerLine) -> str | None:
        """Note a line of the worker's; return the method that it answers, if it does."""
        if said.is_answer:
            return None if said.id is None else self._asked.pop(said.id, None)
        if said.id is not None:
            self._asked_back.add(said.id)
        return None

    def lost(self, why: str = LOST) -> list[bytes]:
        """Forget what a worker that is gone was asked; return the errors that the client gets."""
        asked, self._asked = self._asked, {}
        self._asked_back.clear()
        return [error_text(id, INTERNAL_ERROR, why) for id in asked]


def cancelled(message: dict[str, Any]) -> Id | None:
    """Return the id of the request that a `notifications/cancelled` is about, None without one."""
    id = message.get("params", {}).get("requestId")
    return id if isinstance(id, str | int) else None

"""JSON-RPC over the standard input and output of a server, for several who ask at once.

Each request gets an id of our own on its way in and its old one back on the way out, because those
who ask count from one, all of them. The same for tokens of progress and ids of subscriptions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from pilothouse.hub.http.replies import compact

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.machine.spawn import InputWriter, OutputReader

    type Message = dict[str, Any]
    type Hear = Callable[[Message], None]

LONGEST_LINE = 64 << 20
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
INTERNAL_ERROR = -32603


@dataclass(slots=True)
class _Asked:
    id: Any
    token: Any
    receive: Hear


class Pipe:
    """One server's two streams."""

    def __init__(
        self,
        into: InputWriter,
        unasked: Hear,
        noise: Callable[[bytes], None],
    ) -> None:
        """Give `unasked` what belongs to no request, `noise` the lines that are no messages."""
        self._into = into
        self._unasked = unasked
        self._noise = noise
        self._numbers = count(1)
        self._asked: dict[int, _Asked] = {}

    # In

    def send(self, message: Message) -> None:
        """Send a notification, or an answer to the server."""
        if message.get("method") == "notifications/cancelled":
            params = message.get("params", {})
            number = self._number_of(params.get("requestId"))
            message = {**message, "params": {**params, "requestId": number}}
        self._write(message)

    def ask(self, message: Message, receive: Hear) -> int:
        """Send a request. `receive` gets all of it, its answer last; the number ends it."""
        number = next(self._numbers)
        meta = message.get("params", {}).get("_meta", {})
        token = meta.get("progressToken")
        self._asked[number] = _Asked(message["id"], token, receive)
        message = {**message, "id": number}
        if token is not None:
            about = {**meta, "progressToken": number}
            message["params"] = {**message["params"], "_meta": about}
        self._write(message)
        return number

    def forget(self, number: int, *, cancel: bool) -> None:
        """Drop a request of somebody who has left; `cancel` has the server drop it too."""
        if self._asked.pop(number, None) is not None and cancel:
            params = {"requestId": number, "reason": "the client has left"}
            self._write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def _number_of(self, id: Any) -> Any:
        return next((n for n, asked in reversed(self._asked.items()) if asked.id == id), id)

    def _write(self, message: Message) -> None:
        if not self._into.is_closing():
            self._into.write(compact(message).encode() + b"\n")

    # Out

    async def listen(self, out: OutputReader) -> None:
        """Listen until the server's output ends."""
        pieces: list[bytes] = []
        size = 0
        while piece := await out.read(1 << 16):
            first, *lines = piece.split(b"\n")
            pieces.append(first)
            size += len(first)
            if lines:
                self._take(b"".join(pieces))
                *whole, last = lines
                for line in whole:
                    self._take(line)
                pieces, size = [last], len(last)
            if size > LONGEST_LINE:
                self._noise(pieces[0])
                pieces, size = [], 0

    def _take(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        for message in said if isinstance(said, list) else [said]:
            if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
                self._receive(message)
            elif line.strip():
                self._noise(line)

    def _receive(self, message: Message) -> None:
        if "method" not in message:
            asked = self._asked.pop(message.get("id"), None)  # type: ignore[arg-type]
            if asked is not None:
                asked.receive({**message, "id": asked.id})
            return
        params = message.get("params", {})
        meta = params.get("_meta", {})
        if (asked := self._asked.get(params.get("progressToken"))) is not None:
            asked.receive({**message, "params": {**params, "progressToken": asked.token}})
        elif (asked := self._asked.get(meta.get(SUBSCRIPTION))) is not None:
            about = {**meta, SUBSCRIPTION: asked.id}
            asked.receive({**message, "params": {**params, "_meta": about}})
        else:
            self._unasked(message)

    def end(self, why: str) -> None:
        """Answer whoever still waits, as the server has gone."""
        waiting, self._asked = self._asked, {}
        for asked in waiting.values():
            error = {"code": INTERNAL_ERROR, "message": why}
            asked.receive({"jsonrpc": "2.0", "id": asked.id, "error": error})

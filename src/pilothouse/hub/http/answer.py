"""An answer on its way from a worker to the client: passed on as it comes, its head rewritten."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pilothouse.core.net.http1 import LAST_CHUNK, Chunked, Endless, chunk, kept, write_head
from pilothouse.hub.http.replies import JSON, compact
from pilothouse.hub.http.sse import ENDS, SSE, event, message_of, take_event, with_message

if TYPE_CHECKING:
    import asyncio

    from pilothouse.core.net.http1 import AnswerHead, Body, RequestHead
    from pilothouse.hub.http.connection import Connection
    from pilothouse.hub.http.upstream import UpstreamConnection

_LONGEST_END = len(b"\r\n\r\n\r\n")


class Passing:
    """Writes an answer to the client, byte for byte after its head."""

    def __init__(self, client: Connection, request: RequestHead, session: str = "") -> None:
        """Take the client and its request; `session` is the public id, not the worker's own."""
        self._client = client
        self._request = request
        self._session = session
        self.is_last = False
        """The client's connection does not go on, whatever the answer is."""
        self.withholds = 0
        """A status that the client is not to see: the answer is dropped, and `refused` is set."""
        self.refused = False
        self.began: asyncio.Future[None] | None = None
        """Done when the answer has begun, for whoever waits for that."""
        self.may_go_on = False
        """True if the client's connection may go on, once the answer has ended."""
        self._body: Body | None = None
        self._wraps = self._is_stream = False
        self._tail = b""
        self.head: AnswerHead | None = None
        """Head of the answer, None before it has begun."""

    @property
    def stays_open(self) -> bool:
        """Tell whether the client may send another request once the answer is whole."""
        unread = self._request.body is not None and not self._request.body.ended
        unframed = isinstance(self._body, Endless) and not self._wraps
        return self._request.stays_open and not (unread or unframed or self.is_last)

    def begin(self, link: UpstreamConnection, head: AnswerHead, body: Body, first: bytes) -> None:
        if head.status == self.withholds:
            self.refused = True
            return
        if self.began is not None and not self.began.done():
            self.began.set_result(None)
        self._client.follow(link)
        self.head, self._body = head, body
        self._is_stream = head.first("content-type").startswith(SSE)
        # A client can tell a chunked answer that was cut short from a whole one.
        changes = head.status == 101
        self._wraps = isinstance(body, Endless) and self._request.minor == "1" and not changes
        self._client.write(self._rewritten(head, {"mcp-session-id"}) + self._framed(first))

    def data(self, data: bytes) -> None:
        if not self.refused:
            self._client.write(self._framed(data))

    def _framed(self, data: bytes) -> bytes:
        if self._is_stream:
            self._tail = (self._tail + data[-_LONGEST_END:])[-_LONGEST_END:]
        return chunk(data) if self._wraps and data else data

    def _rewritten(self, head: AnswerHead, dropped: set[str], length: int | None = None) -> bytes:
        fields = kept(head.fields, head.values, dropped)
        if self._session:
            fields.append(("Mcp-Session-Id", self._session))
        if length is not None:
            fields.append(("Content-Length", str(length)))
        if self._wraps:
            fields.append(("Transfer-Encoding", "chunked"))
        if head.status == 101:
            fields += [("Connection", "Upgrade"), ("Upgrade", "websocket")]
        elif not self.stays_open:
            fields.append(("Connection", "close"))
        return write_head(f"HTTP/1.1 {head.status} {head.reason}", fields)

    def finish(self, *, whole: bool, lost: bytes = b"") -> None:
        """End the answer, as the worker sends nothing more.

        A stream that was cut between two events ends with the message `lost` as its last: the
        client learns at once what became of its call.
        """
        self._client.follow(None)
        if whole:
            if self._wraps:
                self._client.write(LAST_CHUNK)
            self.may_go_on = self.stays_open
        elif lost and self._is_between_events():
            self._client.write(chunk(event(lost)) + LAST_CHUNK)
            self.may_go_on = self.stays_open
        else:
            self._client.reset()

    def _is_between_events(self) -> bool:
        if not self._is_stream:
            return False
        if self._wraps:
            return not self._tail or self._tail.endswith(ENDS)
        is_between = isinstance(self._body, Chunked) and self._body.between_chunks
        return is_between and (not self._tail or self._tail.removesuffix(b"\r\n").endswith(ENDS))


class ResultReader:
    """Reads a tool's result on its way to the client, and adds a notice to it."""

    def __init__(self, notice: str) -> None:
        self._notice = notice
        self.names: list[str] = []
        """Names, out of the result, of what lives in the worker that answered."""

    def __call__(self, message: dict[str, Any]) -> None:
        result = message.get("result")
        if not isinstance(result, dict):
            return
        found = result.get("structuredContent")
        if isinstance(found, dict) and not result.get("isError"):
            self.names += _names(found)
        content = result.get("content")
        if self._notice and isinstance(content, list):
            # Last: the first text of a spec's tool is the JSON of its structured content.
            content.append({"type": "text", "text": self._notice})


def _names(found: dict[str, Any]) -> list[str]:
    """Return the sessions and targets that an answer names, and those that it lists."""
    values = [found.get("sessionId"), found.get("targetId")]
    for listed, name in (("tabs", "targetId"), ("targets", "id")):
        entries = found.get(listed)
        if isinstance(entries, list):
            values += [entry.get(name) for entry in entries if isinstance(entry, dict)]
    return [value for value in values if isinstance(value, str)]


class Tapped(Passing):
    """Lets the response to one request be read, and changed, on its way.

    It is held back until `finish`, so that what it says can be acted on before the client has it.
    """

    def __init__(
        self,
        client: Connection,
        request: RequestHead,
        session: str,
        id: str | int,
        reading: ResultReader,
    ) -> None:
        super().__init__(client, request, session)
        self._id = id
        self._reading = reading
        self._content = bytearray()
        self._chunked: Chunked | None = None
        self._is_json = False
        self._held = b""

    def begin(self, link: UpstreamConnection, head: AnswerHead, body: Body, first: bytes) -> None:
        if head.status == self.withholds:
            self.refused = True
            return
        self._is_json = head.first("content-type").startswith(JSON)
        self._chunked = Chunked(self._content) if isinstance(body, Chunked) else None
        if self._is_json:
            self.head = head
            self.data(first)
        elif head.first("content-type").startswith(SSE):
            super().begin(link, head, body, b"")
            self.data(first)
        else:
            super().begin(link, head, body, first)

    def data(self, data: bytes) -> None:
        if not self._is_json and not self._is_stream:
            super().data(data)
            return
        if self._chunked is not None:
            self._chunked.take(data)
        else:
            self._content += data
        if self._is_stream:
            self._pass_events()

    def _pass_events(self) -> None:
        while not self._held and (one := take_event(self._content)):
            message = message_of(one)
            if message is None or "method" in message or message.get("id") != self._id:
                self._write(one)
            else:
                self._reading(message)
                self._held = with_message(one, compact(message).encode())

    def _write(self, events: bytes) -> None:
        framed = self._wraps or self._chunked is not None
        self._client.write(chunk(events) if framed else events)

    def read(self, *, whole: bool) -> list[str]:
        """Read the response, if whole; return what it names. A stream's was read on its way."""
        if self._is_json and whole:
            self._held = bytes(self._content)
            with suppress(ValueError):
                message = json.loads(self._held)
                if isinstance(message, dict):
                    self._reading(message)
                    self._held = compact(message).encode()
        return self._reading.names

    def finish(self, *, whole: bool, lost: bytes = b"") -> None:
        if self._is_stream:
            if self._held:
                whole = True
                self._write(self._held)
            if whole and self._chunked is not None:
                self._client.write(LAST_CHUNK)
        elif self._is_json and whole and self.head is not None:
            dropped = {"mcp-session-id", "content-length", "transfer-encoding"}
            head = self._rewritten(self.head, dropped, len(self._held))
            self._client.write(head + self._held)
        super().finish(whole=whole, lost=lost)

    def _is_between_events(self) -> bool:
        # Only whole events were written.
        return self._is_stream and (self._wraps or self._chunked is not None)

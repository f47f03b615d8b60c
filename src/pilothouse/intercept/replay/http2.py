"""One request over HTTP/2, from a head that is written in the form of HTTP/1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pilothouse.intercept.replay.http1 import parse_head
from pilothouse.intercept.replay.http1_response import Http1Response

if TYPE_CHECKING:
    from h2.connection import H2Connection
    from h2.events import Event

    type Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Http2Request:
    """A request for HTTP/2: headers, pseudo headers first, a body and trailers."""

    headers: Headers
    body: bytes
    trailers: Headers


def request_of(
    head: bytes, body: bytes, trailers: bytes, *, scheme: str, host: str
) -> Http2Request:
    """Make a request; the first Host header becomes the authority, else `host` does."""
    parsed = parse_head(head)
    method, target, *_ = [*parsed.words, b"", b""]
    fields = [(header.name.lower(), header.value) for header in parsed.headers]
    named = next((place for place, (name, _) in enumerate(fields) if name == b"host"), None)
    authority = host.encode() if named is None else fields.pop(named)[1]
    pseudo = [(b":method", method), (b":authority", authority)]
    if method != b"CONNECT":
        pseudo += [(b":scheme", scheme.encode()), (b":path", target)]
    lines = parse_head(b"\n" + trailers).headers
    ended = [(header.name.lower(), header.value) for header in lines]
    return Http2Request([*pseudo, *fields], body, ended)


class Http2:
    """Conversation on the first stream of a connection."""

    def __init__(self, request: Http2Request) -> None:
        self.response = Http1Response()
        self.is_done = False
        self.error = ""
        self._request = request
        self._sent = 0
        self._connection = _connection()
        self._stream = 1
        self._is_begun = False
        self._is_ended = False

    def to_send(self) -> bytes:
        from h2.exceptions import ProtocolError

        if not self._is_ended and not self.is_done:
            try:
                self._begin()
                self._send_body()
            except ProtocolError as problem:
                self._stop(f"HTTP/2: {problem}")
        return self._connection.data_to_send()

    def receive(self, data: bytes, at: float) -> None:
        from h2.exceptions import ProtocolError

        if not data:
            self._stop("the server closed before the end of the response")
            return
        try:
            events = self._connection.receive_data(data)
        except ProtocolError as problem:
            self._stop(f"HTTP/2: {problem}")
            return
        for event in events:
            if not self.is_done:
                self._take(event, at)

    def _take(self, event: Event, at: float) -> None:
        from h2 import events

        match event:
            case events.ResponseReceived():
                self.response.time = at
                self.response.head, self.response.status = _head(event.headers)
            case events.DataReceived():
                self.response.add(event.data)
                self._connection.acknowledge_received_data(
                    event.flow_controlled_length, event.stream_id
                )
            case events.TrailersReceived():
                self.response.trailers = _lines(event.headers)
            case events.StreamEnded():
                self.is_done = True
            case events.StreamReset():
                self._stop(f"the server reset the stream (HTTP/2 error {event.error_code})")
            case events.ConnectionTerminated() if event.error_code:
                self._stop(f"the server ended the connection (HTTP/2 error {event.error_code})")

    def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._connection.initiate_connection()
            self._connection.send_headers(self._stream, self._request.headers)

    def _send_body(self) -> None:
        """Send as much as the server's windows allow."""
        request, connection = self._request, self._connection
        while self._sent < len(request.body):
            window = connection.local_flow_control_window(self._stream)
            size = min(window, connection.max_outbound_frame_size)
            if size <= 0:
                return
            piece = request.body[self._sent : self._sent + size]
            connection.send_data(self._stream, piece)
            self._sent += len(piece)
        if request.trailers:
            connection.send_headers(self._stream, request.trailers, end_stream=True)
        else:
            connection.end_stream(self._stream)
        self._is_ended = True

    def _stop(self, error: str) -> None:
        self.is_done, self.error = True, error


def _connection() -> H2Connection:
    """Make one that neither corrects nor refuses: what was recorded goes out as it was."""
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.settings import SettingCodes, Settings

    connection = H2Connection(
        H2Configuration(
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
        )
    )
    connection.local_settings = Settings(client=True, initial_values={SettingCodes.ENABLE_PUSH: 0})
    return connection


def _head(headers: Headers) -> tuple[bytes, int | None]:
    said = next((value for name, value in headers if name == b":status"), b"")
    fields = [(name, value) for name, value in headers if not name.startswith(b":")]
    head = b"HTTP/2.0 " + said + b" \r\n" + _lines(fields) + b"\r\n"
    return head, int(said) if said.isdigit() else None


def _lines(headers: Headers) -> bytes:
    return b"".join(name + b": " + value + b"\r\n" for name, value in headers)

# mypy: allow-untyped-calls
"""Additions to mitmproxy's HTTP/1: trailers after a chunked body, interim responses, addresses
that are not ASCII.

It gives up on a connection that sends or gets trailers, whose peer then waits for ever, and takes
a 103 for the whole answer. Here trailers are read and sent on as its HTTP/2 does it, and interim
responses are left out as its HTTP/2 does that, too. A path with plain UTF-8 in it, as curl sends
it, is refused only where the whole address stands in the request: here it is taken as elsewhere.
What is no request at all is worth a warning, since it cannot be recorded. Imported for what it
does.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import h11
from h11._readers import ChunkedReader
from mitmproxy.http import Headers
from mitmproxy.net.http.http1 import read as http1_read
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import _events, _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_INTERIM = re.compile(rb"HTTP/1\.\d (?!101)1\d\d\b")
_WHOLE_ADDRESS = re.compile(rb"([!-~]+ [A-Za-z]+://[!-.0-~]+)/(\S*)( [!-~]+)")
_REPORTED = 300
"""Characters that are logged of what a client sent instead of a request."""
_LAST_CHUNK = b"0\r\n\r\n"
_TRAILERS = {
    _events.RequestEndOfMessage: _events.RequestTrailers,
    _events.ResponseEndOfMessage: _events.ResponseTrailers,
}

type _Commands = Generator[commands.Command, Any]
type _Step = Callable[[Any, Any], _Commands]


class _Chunks(ChunkedReader):
    """Reader that keeps the trailers aside, which its user would not take."""

    trailers: Headers | None = None

    def __call__(self, buffer: Any) -> Any:
        event = super().__call__(buffer)
        if isinstance(event, h11.EndOfMessage) and event.headers:
            self.trailers = Headers(event.headers.raw_items())
            return h11.EndOfMessage()
        return event


def _body_reader(make: Callable[[int | None], Any]) -> Callable[[int | None], Any]:
    def made(expected_size: int | None) -> Any:
        reader = make(expected_size)
        return _Chunks() if isinstance(reader, ChunkedReader) else reader

    return made


def _reading(read_body: _Step) -> _Step:
    def read(self: Any, event: events.Event) -> _Commands:
        for command in read_body(self, event):
            trailers = getattr(self.body_reader, "trailers", None)
            if trailers and _is_end(command):
                self.body_reader.trailers = None
                told = _TRAILERS[self.ReceiveEndOfMessage](self.stream_id, trailers)
                yield ReceiveHttp(told)
            yield command

    return read


def _is_end(command: commands.Command) -> bool:
    return isinstance(command, ReceiveHttp) and type(command.event) in _TRAILERS


def _sending(send: _Step) -> _Step:
    def sent(self: Any, event: _events.HttpEvent) -> _Commands:
        if isinstance(event, (_events.RequestTrailers, _events.ResponseTrailers)):
            self.trailers = event.trailers
            return
        trailers = _taken(self) if type(event) in _TRAILERS else None
        for command in send(self, event):
            # A message that is not chunked has no place for them.
            if trailers and isinstance(command, commands.SendData) and command.data == _LAST_CHUNK:
                command.data = b"0\r\n" + bytes(trailers) + b"\r\n"
            yield command

    return sent


def _taken(connection: Any) -> Headers | None:
    """Take the trailers of the message that ends; the next one has its own."""
    trailers, connection.trailers = getattr(connection, "trailers", None), None
    return trailers


def _after_interim(read_headers: _Step) -> _Step:
    def read(self: Any, event: events.Event) -> _Commands:
        while self.request and _INTERIM.match(bytes(self.buf)):
            lines = self.buf.maybe_extract_lines()
            if not lines:
                break
            yield commands.Log(f"left out: {bytes(lines[0])!r}", logging.DEBUG)
        yield from read_headers(self, event)

    return read


def _with_any_path(read_line: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(line: bytes) -> Any:
        if line.isascii() or not (found := _WHOLE_ADDRESS.fullmatch(line)):
            return read_line(line)
        start, path, version = found.groups()
        *before, _, last = read_line(start + b"/" + version)
        return (*before, b"/" + path, last)

    return read


def _told(read_headers: _Step) -> _Step:
    def read(self: Any, event: events.Event) -> _Commands:
        for command in read_headers(self, event):
            if isinstance(command, commands.Log) and not isinstance(event, events.ConnectionClosed):
                command.level = logging.WARNING
                command.message = f"no HTTP request, refused: {command.message[:_REPORTED]}"
            yield command

    return read


def _fill() -> None:
    theirs: Any = _http1
    either, server, client = theirs.Http1Connection, theirs.Http1Server, theirs.Http1Client
    lines: Any = http1_read
    lines._read_request_line = _with_any_path(lines._read_request_line)
    theirs.make_body_reader = _body_reader(theirs.make_body_reader)
    either.read_body = _reading(either.read_body)
    server.send, client.send = _sending(server.send), _sending(client.send)
    server.read_headers = _told(server.read_headers)
    client.read_headers = _after_interim(client.read_headers)


_fill()

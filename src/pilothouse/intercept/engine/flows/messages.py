"""HTTP messages as bytes, and back: what is recorded, and what rules and people edit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mitmproxy import http

from pilothouse.core.net.proxy_auth import is_own
from pilothouse.intercept.model import WireMessage
from pilothouse.intercept.replay import recode

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY_HEADER = b"x-pilothouse-exchange"
"""Header that joins a packet with what the browser saw; never taken from a client."""

_BREAKS_LINES = re.compile(rb"[\0\r\n]")
_BREAKS_WORDS = re.compile(rb"[\0-\x20\x7f]")

type Fields = tuple[tuple[bytes, bytes], ...]


class NotAMessage(ValueError):
    """Bytes that were edited are no HTTP message any more; the text says what is missing."""


def is_ambiguous(request: http.Request) -> bool:
    """Return whether it has characters that some servers take for the end of a line or word."""
    data = request.data
    values = b"".join([name + value for name, value in data.headers.fields])
    return bool(_BREAKS_LINES.search(values) or _BREAKS_WORDS.search(data.path))


def request_head(request: http.Request) -> bytes:
    """Return request line and headers as HTTP/1, whatever the version they came in."""
    data = request.data
    fields = data.headers.fields
    if data.authority and _is_framed(data.http_version) and b"host" not in request.headers:
        fields = ((b"host", data.authority), *fields)
    line = b"%b %b %b\r\n" % (data.method, data.path, data.http_version)
    return line + _written(fields)


def response_head(response: http.Response) -> bytes:
    data = response.data
    line = b"%b %d %b\r\n" % (data.http_version, data.status_code, data.reason)
    return line + _written(data.headers.fields)


def head_of(message: http.Message) -> bytes:
    if isinstance(message, http.Request):
        return request_head(message)
    assert isinstance(message, http.Response)
    return response_head(message)


def trailers_of(message: http.Message) -> bytes:
    return _lines(message.trailers.fields) if message.trailers else b""


def _written(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    return _lines(fields) + b"\r\n"


def _lines(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%b: %b\r\n" % field for field in fields if not _is_own(field)])


def _is_own(field: tuple[bytes, bytes]) -> bool:
    """Return whether a field is between us and the browser, or the next proxy."""
    return field[0].lower() == KEY_HEADER or is_own(*field)


def _is_framed(version: bytes) -> bool:
    """Return whether it is HTTP/2 or 3, without a request line and a Host header of their own."""
    return version.startswith((b"HTTP/2", b"HTTP/3"))


def sent(message: http.Message, head: bytes) -> WireMessage:
    """Return what is recorded of a message whose body is here as a whole."""
    body = message.raw_content or b""
    return WireMessage(
        time=message.timestamp_start * 1000,
        head=head,
        body=body,
        length=len(head) + len(body),
        body_length=len(body),
        trailers=trailers_of(message),
    )


@dataclass(frozen=True, slots=True)
class Readable:
    """A message as rules and people see it."""

    head: bytes
    body: bytes
    coding: str = ""
    """Content-Encoding that was taken off the body; empty if it is as transferred."""


def readable(message: http.Message) -> Readable:
    """Decode a message; a body that its coding does not fit, or a huge one, stays as it is."""
    head = head_of(message)
    body, codings = recode.decode(head, message.raw_content or b"")
    return Readable(head, body, _coding(message) if codings else "")


def _coding(message: http.Message) -> str:
    return str(message.headers.get("content-encoding", ""))


def change(message: http.Message, seen: Readable, edited: bytes, method: str = "") -> None:
    """Make the message what the edited bytes say; its length and coding are put right.

    `method` is that of the request which a response answers.

    Raises:
        NotAMessage: it is as it was.
    """
    line, fields, body = _split(edited)
    if isinstance(message, http.Request):
        fields = _start_request(message, line, fields)
    elif isinstance(message, http.Response):
        _start_response(message, line)
        if method == "HEAD" and not body:  # the length is that of a body which GET would get
            message.headers = _with_own(fields, message)
            return
    _fill(message, fields, body, seen)
    if isinstance(message, http.Response):
        leave_body_out(message, method)


def check(side: Literal["request", "response"], edited: bytes) -> None:
    """Check edited bytes; raises NotAMessage for those that `change` would not take."""
    line, _, _ = _split(edited)
    if side == "request":
        _request_words(line)
    else:
        _status_words(line)


def leave_body_out(response: http.Response, method: str) -> None:
    """Drop the body of an answer to HEAD, or of a status that never has one: the client would take
    it for the beginning of the next answer. Only to HEAD may its length be given."""
    if method == "HEAD":
        response.raw_content = b""
    elif response.status_code in (204, 304):
        response.raw_content = b""
        response.headers.pop(b"content-length", None)
        response.headers.pop(b"transfer-encoding", None)


def _request_words(line: bytes) -> list[bytes]:
    words = line.split(b" ")
    if len(words) != 3 or not words[0] or not words[1]:
        raise NotAMessage(f"a request starts with METHOD PATH VERSION, not {line[:80]!r}")
    return words


def _status_words(line: bytes) -> list[bytes]:
    words = line.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit() or not 100 <= int(words[1]) <= 999:
        raise NotAMessage(f"a response starts with VERSION STATUS REASON, not {line[:80]!r}")
    return words


def _start_request(request: http.Request, line: bytes, fields: Fields) -> Fields:
    """Set the request's line; return the other fields: HTTP/2 has its own place for the host."""
    words = _request_words(line)
    request.data.method, request.data.path = words[0], words[1]
    if not _is_framed(request.data.http_version):
        request.data.http_version = words[2]
        return fields
    hosts = [value for name, value in fields if name.lower() == b"host"]
    request.data.authority = hosts[0] if hosts else request.data.authority
    return tuple(field for field in fields if field[0].lower() != b"host")


def _start_response(response: http.Response, line: bytes) -> None:
    words = _status_words(line)
    response.data.status_code = int(words[1])
    response.data.reason = words[2] if len(words) == 3 else b""


def _split(edited: bytes) -> tuple[bytes, Fields, bytes]:
    head, gap, body = edited.partition(b"\r\n\r\n")
    if not gap:
        raise NotAMessage("there is no empty line (CRLF CRLF) after the headers")
    line, *lines = head.split(b"\r\n")
    fields = []
    for text in lines:
        name, colon, value = text.partition(b":")
        if not colon or not name.strip():
            raise NotAMessage(f"a header has a name, a colon and a value, not {text[:80]!r}")
        fields.append((name.strip(), value.strip()))
    return line, tuple(fields), body


def _with_own(fields: Fields, message: http.Message) -> http.Headers:
    own = tuple(field for field in message.headers.fields if _is_own(field))
    return http.Headers((*fields, *own))


def _fill(message: http.Message, fields: Fields, body: bytes, seen: Readable) -> None:
    message.headers = _with_own(fields, message)
    had_length = b"content-length" in message.headers
    if not seen.coding:
        message.raw_content = body
    elif body != seen.body or _coding(message) != seen.coding:
        # Encodes it again as Content-Encoding says, or drops a coding that it does not know.
        message.content = body
    length = len(message.raw_content or b"")
    if length or had_length:
        if b"transfer-encoding" not in message.headers:
            message.headers[b"content-length"] = str(length)
    else:
        message.headers.pop(b"content-length", None)

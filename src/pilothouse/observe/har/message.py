"""The parts of a HAR entry, request, response and messages, with everything in them masked.

Lists (query, form fields, cookies) are read from what is masked already and masked once more by
name, so that a secret which only decoding brings to light is not shown either.
"""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from pilothouse.observe.har.timing import number, whole
from pilothouse.observe.record.bodies import is_text
from pilothouse.observe.record.packed_bodies import masked_base64, readable, size, unpacked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.observe.model import Body

    type Fields = Mapping[str, Any]
    type Record = dict[str, Any]

_UNKNOWN_TYPE = "x-unknown"
_VERSIONS = {"h2": "HTTP/2", "h2c": "HTTP/2", "h3": "HTTP/3"}


def request(sent: Fields, answer: Fields, url: str, method: str, redactor: Redactor) -> Record:
    """Return what was sent; a socket's handshake has its request headers only in the answer."""
    headers = _headers(sent.get("headers") or answer.get("requestHeaders"), redactor)
    shown_url = redactor.url(url.partition("#")[0])
    made: Record = {
        "method": redactor.text(method),
        "url": shown_url,
        "httpVersion": _version(answer, redactor),
        "cookies": [
            _cookie(part)
            for line in _lines(headers, "cookie")
            for part in line.split(";")
            if part.strip()
        ],
        "headers": headers,
        "queryString": _pairs(shown_url.partition("?")[2], redactor),
        "headersSize": _sent_size(method, url, sent.get("headers"), answer),
        "bodySize": 0,
    }
    posted = sent.get("postDataPreview")
    if isinstance(posted, str) or sent.get("hasPostData"):
        mime_type = _first(headers, "content-type")
        length = _fields(sent.get("truncated")).get("postDataPreview")
        is_whole = isinstance(posted, str) and length is None
        made["postData"] = _post_data(posted, length, mime_type, redactor)
        made["bodySize"] = size(str(posted)) if is_whole else _content_length(headers)
    return made


def response(
    answer: Fields, status: object, body: Body | None, transferred: object, redactor: Redactor
) -> Record:
    """Return what came back on the network; without an answer, the same structure with status 0.

    A confirmed answer of the cache is 304 here, with the content that the page got.
    """
    headers = _headers(answer.get("headers"), redactor)
    mime_type = _text(answer.get("mimeType")) or (body.mime_type if body else "")
    wire_status = whole(answer.get("wireStatus")) or whole(status)
    headers_size = _answer_size(answer)
    body_size = _body_size(answer, wire_status, headers, headers_size, transferred)
    content = _content(body, mime_type, redactor)
    content["mimeType"] = _first(headers, "content-type") or content["mimeType"]
    if body is None and not _first(headers, "content-encoding"):
        content["size"] = max(0, body_size)
    if body is None and whole(transferred) > 0 and body_size != 0:
        content["comment"] = "the body was not kept"
    elif _first(headers, "content-encoding") and 0 < body_size < content["size"]:
        content["compression"] = content["size"] - body_size
    said = redactor.text(_text(answer.get("statusText")))
    made: Record = {
        "status": wire_status,
        "statusText": said if wire_status == whole(answer.get("status")) else _phrase(wire_status),
        "httpVersion": _version(answer, redactor),
        "cookies": [_set_cookie(line) for line in _lines(headers, "set-cookie")],
        "headers": headers,
        "content": content,
        "redirectURL": _first(headers, "location"),
        "headersSize": headers_size,
        "bodySize": body_size,
    }
    size = number(transferred)
    return made if size is None else {**made, "_transferSize": int(size)}


def cache(answer: Fields, started: str, redactor: Redactor) -> Record:
    """Return what the browser's cache had of it before."""
    if answer.get("fromDiskCache") is not True:
        return {}
    tag = _first(_headers(answer.get("headers"), redactor), "etag")
    return {"beforeRequest": {"lastAccess": started, "eTag": tag, "hitCount": 0}}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _body_size(
    answer: Fields, status: int, headers: list[Record], headers_size: int, transferred: object
) -> int:
    """Return the body's bytes on the wire: by its header, else what came without the headers."""
    if answer.get("fromDiskCache") is True or status in (204, 304):
        return 0
    if answer.get("method") == "HEAD":
        return 0
    length = _content_length(headers)
    total = whole(transferred, -1)
    if length >= 0 or total < 0:
        return length
    return max(0, total - max(0, headers_size))


def _is_plain(answer: Fields) -> bool:
    """Tell whether its headers are text on the wire; HTTP/2 and 3 pack them."""
    return _text(answer.get("protocol")).lower().startswith("http/1")


def _answer_size(answer: Fields) -> int:
    """Return the bytes of the response's headers, -1 where they cannot be known."""
    if told := whole(answer.get("headersSize")):
        return told
    if not _is_plain(answer):
        return -1
    first = f"HTTP/1.1 {answer.get('status')} {_text(answer.get('statusText'))}"
    return _lines_size(first, answer.get("headers"))


def _sent_size(method: str, url: str, headers: object, answer: Fields) -> int:
    """Return the bytes of the request's headers, -1 where they cannot be known."""
    if not headers or not _is_plain(answer):
        return -1
    path = "/" + url.partition("://")[2].partition("#")[0].partition("/")[2]
    return _lines_size(f"{method} {path} HTTP/1.1", headers)


def _lines_size(first: str, headers: object) -> int:
    lines = [
        f"{name}: {line}"
        for name, value in _fields(headers).items()
        for line in _text(value).split("\n")
    ]
    return sum(size(line) + 2 for line in (first, *lines, ""))


def frame(event: Fields, redactor: Redactor) -> Record:
    """Return a WebSocket message: text, or base64 with what is readable in it masked."""
    opcode, data = whole(event.get("opcode"), 1), _text(event.get("payloadPreview"))
    if opcode == 1:
        data = redactor.text(data)
    else:
        data = masked_base64(data, redactor)
    return {
        "type": "send" if event.get("direction") == "sent" else "receive",
        "opcode": opcode,
        "data": data,
        **_true_length(event, "payloadPreview"),
    }


def server_sent(event: Fields, redactor: Redactor) -> Record:
    texts = {
        name: redactor.text(_text(event.get(name))) for name in ("eventName", "eventId", "data")
    }
    return {**texts, **_true_length(event, "data")}


def _true_length(event: Fields, name: str) -> Record:
    """Return as `_length` the bytes that a text had before it was cut; empty if it was not."""
    length = _fields(event.get("truncated")).get(name)
    return {} if length is None else {"_length": whole(length)}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _fields(value: object) -> Fields:
    return value if isinstance(value, dict) else {}


def _version(answer: Fields, redactor: Redactor) -> str:
    spoken = _text(answer.get("protocol"))
    if not spoken and answer.get("status") == 101:
        spoken = "http/1.1"  # only HTTP/1.1 switches protocols
    short = spoken.partition("-")[0].lower()  # h3-29 is a draft of h3
    if short.startswith("http/"):
        return redactor.text(spoken.upper())
    return _VERSIONS.get(short) or redactor.text(spoken)


def _headers(headers: object, redactor: Redactor) -> list[Record]:
    """List the headers; the browser joins several of one name by line breaks."""
    return [
        {"name": name, "value": line}
        for name, value in _fields(headers).items()
        for line in redactor.header(name, _text(value)).split("\n")
    ]


def _lines(headers: list[Record], name: str) -> list[str]:
    return [header["value"] for header in headers if header["name"].lower() == name]


def _first(headers: list[Record], name: str) -> str:
    return next(iter(_lines(headers, name)), "")


def _content_length(headers: list[Record]) -> int:
    said = _first(headers, "content-length")
    is_size = said.isascii() and said.isdecimal() and len(said) < 16
    return int(said) if is_size else -1


def _pairs(encoded: str, redactor: Redactor) -> list[Record]:
    pairs = parse_qsl(encoded, keep_blank_values=True, errors="replace")
    masked: Any = redactor.value([{"name": name, "value": value} for name, value in pairs])
    records: list[Record] = masked
    return records


def _cookie(part: str) -> Record:
    """Split a cookie; one without a name is all value."""
    name, equals, value = part.strip().partition("=")
    return {"name": name, "value": value} if equals else {"name": "", "value": name}


def _set_cookie(line: str) -> Record:
    first, *rest = line.split(";")
    attributes = {
        name.strip().lower(): value.strip() for name, _, value in (a.partition("=") for a in rest)
    }
    made: Record = {
        **_cookie(first),
        "httpOnly": "httponly" in attributes,
        "secure": "secure" in attributes,
    }
    made |= {name: attributes[name] for name in ("path", "domain") if attributes.get(name)}
    try:
        made["expires"] = parsedate_to_datetime(attributes.get("expires", "")).isoformat()
    except (ValueError, TypeError, OverflowError):
        pass  # a session cookie, or a date that is none
    return made


def _post_data(posted: object, length: object, mime_type: str, redactor: Redactor) -> Record:
    text = redactor.text(_text(posted), mime_type)
    made: Record = {"mimeType": mime_type, "text": text}
    if "form-urlencoded" in mime_type.lower():
        made["params"] = _pairs(text, redactor)
    if posted is None:
        made["comment"] = "files, or too large for the browser to send along"
    elif length is not None:
        made["comment"] = f"cut; {whole(length)} bytes in full"
    return made


def _content(body: Body | None, mime_type: str, redactor: Redactor) -> Record:
    made: Record = {"size": 0, "mimeType": redactor.text(mime_type) or _UNKNOWN_TYPE}
    if body is None:
        return made
    if not body.encoded:
        shown = redactor.text(body.text, mime_type)
        return {**made, "size": size(body.text), "text": shown}
    raw = unpacked(body.text)
    made["size"] = len(raw)
    if is_text(mime_type):
        said = raw.decode(json.detect_encoding(raw), "replace")
        return {**made, "text": redactor.text(said, mime_type)}
    # Text under a false flag is shown as text only when there was something to hide in it.
    plain = readable(raw)
    masked = None if plain is None else redactor.text(plain)
    if masked != plain:
        return {**made, "text": masked}
    return {**made, "text": body.text, "encoding": "base64"}

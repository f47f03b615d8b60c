"""HAR 1.2 from recorded exchanges, masked, for any HAR viewer.

Messages of a WebSocket stand with its handshake, under the name that Chrome's own export has; those
of a stream of events with its response, those of TCP and UDP with an entry of their connection.
Nothing that is given is left out; a body that is not given whole is said to be so.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from pilothouse import __version__
from pilothouse.core.timeline.clock import iso
from pilothouse.intercept.present.packets import header, headers_view, shown_body
from pilothouse.intercept.replay.http1 import parse_head

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.intercept.ports import Detail, Side

    type Record = dict[str, Any]

_UNKNOWN_TYPE = "x-unknown"
_USUAL_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_NO_SIDE = (b"", b"", 0)
_OPCODES = {"TEXT": 1, "BINARY": 2, "CLOSE": 8, "PING": 9, "PONG": 10}
"""Opcodes of WebSocket frames, by what stands in the column `method`."""


def har(exchanges: Iterable[Detail], redactor: Redactor) -> dict[str, Any]:
    """Return the whole archive, in order of time."""
    entries: list[Record] = []
    sockets: dict[str, Record] = {}
    for detail in sorted(exchanges, key=_started):
        connection = str(detail.row["connection"])
        if not _is_message(detail):
            entries.append(_entry(detail, redactor))
            sockets[connection] = entries[-1]
            continue
        if connection not in sockets:
            entries.append(_stand_in(detail, redactor))
            sockets[connection] = entries[-1]
        name = "_webSocketMessages" if detail.row["type"] == "WebSocket" else "_messages"
        sockets[connection].setdefault(name, []).append(_message(detail, redactor))
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "Pilothouse", "version": __version__},
            "pages": [],
            "entries": entries,
        }
    }


def _is_message(detail: Detail) -> bool:
    sides = (detail.request, detail.response)
    return not any(side and side.head for side in sides) and detail.row["type"] in (
        "WebSocket",
        "SSE",
        "TCP",
        "UDP",
    )


def _started(detail: Detail) -> float:
    return min(side.time for side in (detail.request, detail.response) if side is not None)


def _entry(detail: Detail, redactor: Redactor) -> Record:
    row, request, response = detail.row, detail.request, detail.response
    wait, receive = _times(detail)
    made: Record = {
        "startedDateTime": iso(_started(detail)),
        "time": round(wait + receive, 3),
        "request": _request(row, request, redactor),
        "response": _response(row, response, redactor),
        "cache": {},
        "timings": {"send": 0, "wait": wait, "receive": receive},
        "_packetId": row["group"],
    }
    if row["server_ip"]:
        made["serverIPAddress"] = row["server_ip"]
    if row["type"] != "HTTP":
        made["_resourceType"] = row["type"].lower()
    if row["resend"]:
        made["_resend"] = True
    if any(side is not None and side.modified for side in (request, response)):
        made["_modified"] = True
    if row["error"]:
        made["_error"] = redactor.text(row["error"])
    return made


def _times(detail: Detail) -> tuple[float, float]:
    """Return milliseconds to the response's first byte, and from there to its last."""
    total = max(0.0, float(detail.row["duration_ms"] or 0.0))
    if detail.request is None or detail.response is None:
        return round(total, 3), 0.0
    wait = min(total, max(0.0, detail.response.time - detail.request.time))
    return round(wait, 3), round(total - wait, 3)


def _request(row: Record, side: Side | None, redactor: Redactor) -> Record:
    head, body, length = (side.head, side.body, side.body_length) if side else _NO_SIDE
    url = redactor.url(_url(row))
    headers = headers_view(head, redactor)
    made: Record = {
        "method": row["method"] or ("GET" if head else ""),
        "url": url,
        "httpVersion": row["version"],
        "cookies": [
            _cookie(part)
            for line in _lines(headers, "cookie")
            for part in line.split(";")
            if part.strip()
        ],
        "headers": headers,
        "queryString": _pairs(url.partition("#")[0].partition("?")[2], redactor),
        "headersSize": len(head) if head else -1,
        "bodySize": length,
    }
    if length:
        made["postData"] = _post_data(head, body, length, redactor)
    return made


def _post_data(head: bytes, body: bytes, length: int, redactor: Redactor) -> Record:
    mime_type = header(head, "content-type")
    shown, is_text = shown_body(head, body, redactor)
    made: Record = {"mimeType": mime_type}
    if is_text:
        made["text"] = shown.decode("utf-8", "replace")
    else:
        # HAR has no encoding for what is posted; this one is understood by most viewers.
        made |= {"text": b64encode(shown).decode(), "_encoding": "base64"}
    if is_text and "form-urlencoded" in mime_type.lower():
        made["params"] = _pairs(made["text"], redactor)
    return made | _comment(body, length)


def _response(row: Record, side: Side | None, redactor: Redactor) -> Record:
    head, body, length = (side.head, side.body, side.body_length) if side else _NO_SIDE
    headers = headers_view(head, redactor)
    words = parse_head(head).words
    return {
        "status": row["status"] or 0,
        "statusText": redactor.text(words[2].decode("latin-1")) if len(words) > 2 else "",
        "httpVersion": words[0].decode("latin-1") if words else "",
        "cookies": [_cookie(line.split(";")[0]) for line in _lines(headers, "set-cookie")],
        "headers": headers,
        "content": _content(head, body, length, redactor),
        "redirectURL": next(iter(_lines(headers, "location")), ""),
        "headersSize": len(head) if head else -1,
        "bodySize": length if side else -1,
    }


def _content(head: bytes, body: bytes, length: int, redactor: Redactor) -> Record:
    made: Record = {"size": length, "mimeType": header(head, "content-type") or _UNKNOWN_TYPE}
    if not body:
        return made | _comment(body, length)
    shown, is_text = shown_body(head, body, redactor)
    made["size"] = len(shown) if len(body) == length else length
    if header(head, "content-encoding") and len(body) == length:
        made["compression"] = len(shown) - length
    if is_text:
        made["text"] = shown.decode("utf-8", "replace")
    else:
        made |= {"text": b64encode(shown).decode(), "encoding": "base64"}
    return made | _comment(body, length)


def _comment(body: bytes, length: int) -> Record:
    if len(body) == length:
        return {}
    return {"comment": f"{'cut' if body else 'left out'}; {length} bytes in full"}


def _stand_in(detail: Detail, redactor: Redactor) -> Record:
    """Return the entry of a connection whose handshake is not here, or that had none."""
    made = _entry(detail, redactor)
    # A WebSocket begins with a GET, also where that was not recorded.
    method = "GET" if detail.row["type"] == "WebSocket" else ""
    made["request"] |= {"method": method, "bodySize": 0, "headersSize": -1}
    made["request"].pop("postData", None)
    made["response"] = _response({"status": 0}, None, redactor)
    made["_resourceType"] = detail.row["type"].lower()
    return made


def _message(detail: Detail, redactor: Redactor) -> Record:
    side = detail.request or detail.response
    assert side is not None
    shown, is_text = shown_body(b"", side.body, redactor)
    is_text = is_text and detail.row["method"] != "BINARY"
    made: Record = {
        "type": "send" if detail.request is not None else "receive",
        "time": round(side.time / 1000, 6),
        "opcode": _OPCODES.get(detail.row["method"] or "", 1 if is_text else 2),
        "data": shown.decode("utf-8", "replace") if is_text else b64encode(shown).decode(),
    }
    if len(side.body) < side.body_length:
        made["_length"] = side.body_length
    return made


def _url(row: Record) -> str:
    scheme = row["scheme"] or "http"
    host = row["server_name"] or row["server_ip"]
    host = f"[{host}]" if ":" in host else host
    port = row["server_port"]
    place = host if not port or port == _USUAL_PORTS.get(scheme) else f"{host}:{port}"
    return f"{scheme}://{place}{row['url'] or ''}"


def _lines(headers: list[dict[str, str]], name: str) -> list[str]:
    return [one["value"] for one in headers if one["name"].lower() == name]


def _pairs(encoded: str, redactor: Redactor) -> list[Record]:
    """Parse pairs that are masked already, and mask them once more by name."""
    pairs = parse_qsl(encoded, keep_blank_values=True, errors="replace")
    masked: Any = redactor.value([{"name": name, "value": value} for name, value in pairs])
    records: list[Record] = masked
    return records


def _cookie(part: str) -> Record:
    name, equals, value = part.strip().partition("=")
    return {"name": name, "value": value} if equals else {"name": "", "value": name}

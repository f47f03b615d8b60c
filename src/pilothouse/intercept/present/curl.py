"""A recorded request as a curl command for a POSIX shell, with secrets masked.

Every word that comes from the traffic is quoted so that the shell and curl take it for data only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.present.decode import decoded
from pilothouse.intercept.present.packets import shown_body
from pilothouse.intercept.replay import recode
from pilothouse.intercept.replay.http1 import parse_head

if TYPE_CHECKING:
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.intercept.ports import Detail, Side
    from pilothouse.intercept.replay.http1 import Head

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_OF_CURL = ("accept", "user-agent")
"""Headers that curl adds by itself unless it is given others."""
_VERSIONS = {"HTTP/1.0": "--http1.0", "HTTP/2": "--http2", "HTTP/3": "--http3"}
_EXPECTS_ABOVE = 1024 * 1024
_LONGEST_WORD = 100_000
"""Longest argument: Linux starts no program with one of 128 KiB; a shell's own may be longer."""
_USUAL_PORTS = {"http": 80, "https": 443}


def curl(detail: Detail, redactor: Redactor) -> str:
    """Return the command; comments at its end say what it cannot repeat.

    Raises:
        InvalidInput: it is no HTTP request.
    """
    request = detail.request
    if request is None or not request.head:
        raise InvalidInput(
            f"packet {detail.row['id']} is no HTTP request",
            hint="resend_packet can send messages of live connections",
            field="packet_id",
            expected="a packet of an HTTP exchange",
            received=str(detail.row["id"]),
        )
    head = parse_head(request.head)
    body = _body(request, redactor)
    headers, left_off = _headers(head, body, detail, redactor)
    data, before = _data(body)
    parts = [
        "curl",
        *_version(detail.row["version"]),
        *_method(head, body),
        *_place(head, detail, redactor),
        *headers,
        *data,
    ]
    notes = [f"{left_off} header lines are left out: curl cannot send them"] if left_off else []
    if len(request.body) < request.body_length:
        notes.append(
            f"only {len(request.body)} of {request.body_length} bytes of the body are here"
        )
    return before + " ".join(parts) + "".join(f"\n# {note}" for note in notes)


def quoted(text: bytes) -> str:
    """Quote one word for a POSIX shell. Bytes that a terminal might act on are written as octal."""
    readable = _readable(text)
    if readable is not None:
        return "'" + readable.replace("'", "'\\''") + "'"
    return '"$(printf ' + _octal(text) + ')"'


def _readable(text: bytes) -> str | None:
    try:
        said = text.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(said) else said


def _octal(text: bytes) -> str:
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.:,;/=&?+*()[]{}<>@"
    return "'" + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text) + "'"


def _version(version: str) -> list[str]:
    known = (flag for start, flag in _VERSIONS.items() if version.startswith(start))
    return [next(known, "--http1.1")]


def _method(head: Head, body: bytes) -> list[str]:
    method = head.words[0] if head.words else b""
    if method == b"HEAD" and not body:
        return ["--head"]
    is_usual = method == (b"POST" if body else b"GET")
    return [] if is_usual else ["--request", quoted(method)]


def _place(head: Head, detail: Detail, redactor: Redactor) -> list[str]:
    """Return the URL; a target that is no plain path is given apart, as curl would change it."""
    row = detail.row
    scheme = {"ws": "http", "wss": "https"}.get(row["scheme"], row["scheme"]) or "http"
    host = row["server_name"] or row["server_ip"]
    host = f"[{host}]" if ":" in host else host
    if row["server_port"] != _USUAL_PORTS.get(scheme):
        host += f":{row['server_port']}"
    words = head.words
    target = redactor.url((words[1] if len(words) > 1 else b"/").decode("utf-8", "surrogateescape"))
    if re.fullmatch(r"/[^#\s]*", target) and _readable(_bytes(target)) is not None:
        return ["--globoff", "--path-as-is", quoted(_bytes(f"{scheme}://{host}{target}"))]
    return ["--request-target", quoted(_bytes(target)), quoted(_bytes(f"{scheme}://{host}/"))]


def _headers(head: Head, body: bytes, detail: Detail, redactor: Redactor) -> tuple[list[str], int]:
    written: list[str] = []
    left_off = 0
    names = {header.name.lower().decode("latin-1") for header in head.headers}
    for header in head.headers:
        name = header.name.decode("utf-8", "surrogateescape")
        if name.lower() == "content-length":
            continue
        value = redactor.header(name, header.value.decode("utf-8", "surrogateescape"))
        line = _bytes(f"{name}: {value}" if value else f"{name};")
        # curl reads a file where a header begins with an @, and ends a header at a NUL.
        if not name or line.startswith(b"@") or b"\0" in line or b":" not in header.raw:
            left_off += 1
            continue
        written += ["--header", quoted(line)]
    unwanted = [name for name in _OF_CURL if name not in names]
    if body and "content-type" not in names:
        unwanted.append("content-type")
    if len(body) > _EXPECTS_ABOVE and "expect" not in names:
        unwanted.append("expect")
    for name in unwanted:
        written += ["--header", f"'{name.title()}:'"]
    if "accept-encoding" in names:
        written.append("--compressed")
    return written, left_off


def _body(request: Side, redactor: Redactor) -> bytes:
    """Return it as it was sent, unless there was something to mask in it."""
    if not request.body:
        return b""
    shown, is_text = shown_body(request.head, request.body, redactor)
    plain = decoded(request.head, request.body)
    if not is_text or shown == plain or redactor.reveal:
        return request.body
    _, codings = recode.decode(request.head, request.body)
    return recode.encode(shown, codings, like=request.body)


def _data(body: bytes) -> tuple[list[str], str]:
    """Return the option that carries the body, and what stands before the command."""
    if not body:
        return [], ""
    if len(body) <= _LONGEST_WORD and _readable(body) is not None:
        return ["--data-raw", quoted(body)], ""
    return ["--data-binary", "@-"], f"printf {_octal(body)} | "


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

"""Packets as they are shown: rows of a page and the two sides of an exchange, masked and cut.

Everything is masked before it is cut, so that no cut leaves half of a secret behind.
"""

from __future__ import annotations

import base64
import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.timeline.clock import iso
from pilothouse.intercept.history.schema import COLUMNS
from pilothouse.intercept.present.decode import (
    DECODED_LIMIT,
    body_text,
    decoded,
    headers_of,
    is_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.intercept.ports import Detail, Side

ROW = ("id", "method", "url", "status", "length", "time", "server_name", "client_ip", "group")
"""Fields that a row shows unless others are asked for."""
FIELDS = tuple(
    dict.fromkeys(
        (
            *ROW,
            *(name for name, kind in COLUMNS.items() if kind != "content"),
            *"direction duration_ms scheme version listener session job error".split(),
        )
    )
)
"""Fields that a row can show."""

_FLAGS = frozenset({"resend", "modified"})
_NEVER_CUT = frozenset({"time", "client_ip", "server_ip", "direction"})
_ROW_CHARACTERS = 310
_FIELD_CHARACTERS = 40
"""Characters for each field of a row beyond the default ones."""
_LONGEST_ESCAPE = 6
_CUTS = (12_000, 2_000, 400, 200, 120, 80, 56, 40, 24, 12)
"""Lengths at which a text in a row may be cut; a page takes the longest with which it fits."""


def chosen(fields: Sequence[str] | None) -> tuple[str, ...]:
    """Return the fields that a row is to show.

    Raises:
        InvalidInput: one is none.
    """
    for name in fields or ():
        if name not in FIELDS:
            raise InvalidInput(
                f"fields: {name[:80]!r} is none",
                hint="choose from expected; get_packet_detail shows headers and bodies",
                field="fields",
                expected=f"some of {', '.join(FIELDS)}",
                received=name[:80],
            )
    return tuple(dict.fromkeys(fields or ())) or ROW


def rows_view(
    rows: Sequence[dict[str, Any]], fields: tuple[str, ...], redactor: Redactor
) -> list[dict[str, Any]]:
    """Return a page's rows. Long texts are cut as far as the page needs, and the row says so."""
    whole = [_row(row, fields, redactor) for row in rows]
    more = max(0, len(fields) - len(ROW)) * _FIELD_CHARACTERS
    room = max(len(whole), 10) * (_ROW_CHARACTERS + more)
    fitting = (most for most in _CUTS if sum(_cost(row, most) for row in whole) <= room)
    most = next(fitting, _CUTS[-1])
    return [_cut(row, most) for row in whole]


def _row(row: dict[str, Any], fields: tuple[str, ...], redactor: Redactor) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in fields:
        match name:
            case "time":
                made[name] = iso(row["time"])
            case "url":
                made[name] = redactor.url(row["url"] or "")
            case "error":
                made[name] = redactor.text(row["error"])
            case "direction":
                made[name] = "response" if row["is_response"] else "request"
            case "duration_ms":
                made[name] = _milliseconds(row["duration_ms"])
            case _:
                made[name] = bool(row[name]) if name in _FLAGS else row[name]
    return made


def _cost(row: dict[str, Any], most: int) -> int:
    """Return how many characters of JSON a row takes at the most, if its texts are cut there."""
    cost = 3
    for name, value in row.items():
        cost += len(name) + 4
        if name in _NEVER_CUT or not isinstance(value, str):
            cost += 2 + len(str(value))
            continue
        kept = _kept(value, most)
        cost += 2 + kept * _escaped(value)
        cost += len(name) + 24 if kept < len(value) else 0
    return cost


def _cut(row: dict[str, Any], most: int) -> dict[str, Any]:
    """Return the row with its long texts cut; `truncated` has the whole length of each."""
    kept = {
        name: _kept(value, most)
        for name, value in row.items()
        if isinstance(value, str) and name not in _NEVER_CUT
    }
    long = {name: len(row[name]) for name, length in kept.items() if length < len(row[name])}
    if not long:
        return row
    short = {name: f"{row[name][: kept[name] - 1]}…" for name in long}
    return {**row, **short, "truncated": long}


def _kept(text: str, most: int) -> int:
    return min(len(text), max(2, most // _escaped(text)))


def _escaped(text: str) -> int:
    """Return what a character of the text may cost in JSON. Judged in the cheapest way: texts come
    from outside, and may be nothing but characters that are escaped."""
    plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    return 1 if plain else _LONGEST_ESCAPE


def _milliseconds(duration: float | None) -> float | None:
    return None if duration is None else round(duration, 1)


# One exchange

HELD_BODY_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Range:
    """Part of a body that is shown, in bytes of its decoded and masked form."""

    offset: int
    most: int


@dataclass(frozen=True, slots=True)
class BodyPart:
    """A part of a body as it is shown."""

    text: str
    is_base64: bool
    total: int
    """Bytes of the whole body, decoded and masked."""
    next_offset: int | None
    """Offset from which to read on; None at the end."""


def body_part(head: bytes, body: bytes, wanted: Range, redactor: Redactor) -> BodyPart:
    """Cut a part out, never within a character of text; what is no text becomes base64."""
    content, readable = shown_body(head, body, redactor)
    piece = content[wanted.offset : wanted.offset + wanted.most]
    if readable:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(piece)
        taken = len(piece) - len(decoder.getstate()[0])
    else:
        text, taken = base64.b64encode(piece).decode(), len(piece)
    end = wanted.offset + taken
    more = end if end < len(content) else None
    return BodyPart(text, not readable and bool(piece), len(content), more)


def shown_body(head: bytes, body: bytes, redactor: Redactor) -> tuple[bytes, bool]:
    """Return the body decoded and masked, and whether it is text (then in UTF-8)."""
    if not is_text(head, body):
        return cast("bytes", redactor.value(decoded(head, body))), False
    text = redactor.text(body_text(head, body), header(head, "content-type"))
    return text.encode("utf-8", "replace"), True


def header(head: bytes, name: str) -> str:
    """Return the first value of a header, empty without one."""
    return next((value for key, value in headers_of(head) if key.lower() == name), "")


def headers_view(head: bytes, redactor: Redactor) -> list[dict[str, str]]:
    masked = redactor.headers(headers_of(head))
    return [{"name": name, "value": value} for name, value in masked]


def detail_view(
    detail: Detail, redactor: Redactor, ranges: dict[str, Range] | None
) -> dict[str, Any]:
    """Return both sides of an exchange as the spec has them; bodies only where ranges are given."""
    row = detail.row
    sides = {"request": detail.request, "response": detail.response}
    made: dict[str, Any] = {
        "id": row["id"],
        "method": row["method"] or "",
        "url": redactor.url(row["url"] or ""),
        "status": row["status"],
        "headers": {
            name: headers_view(side.head if side else b"", redactor) for name, side in sides.items()
        },
        "trailers": _trailers(sides, redactor),
        "original": _originals(sides, redactor, ranges),
        "timing": _timing(row),
        "group": row["group"],
        "type": row["type"],
        "version": row["version"],
        "scheme": row["scheme"],
        "server": {
            "name": row["server_name"],
            "ip": row["server_ip"],
            "port": row["server_port"],
        },
        "client": {"ip": row["client_ip"], "port": row["client_port"]},
        "resend": bool(row["resend"]),
        "modified": any(side.modified for side in sides.values() if side),
        "sizes": {name: _sizes(side) for name, side in sides.items() if side},
        "error": redactor.text(row["error"]) or None,
    }
    return {**made, **_bodies(sides, redactor, ranges)} if ranges else made


def _trailers(
    sides: dict[str, Side | None], redactor: Redactor
) -> dict[str, list[dict[str, str]]] | None:
    """Return headers that came after a body; gRPC has its outcome there."""
    trailed = {name: side.trailers for name, side in sides.items() if side and side.trailers}
    return {name: headers_view(b"\r\n" + raw, redactor) for name, raw in trailed.items()} or None


def _originals(
    sides: dict[str, Side | None], redactor: Redactor, ranges: dict[str, Range] | None
) -> dict[str, dict[str, Any]] | None:
    """Return a side before it was changed, with its body's beginning if bodies are shown."""
    made: dict[str, dict[str, Any]] = {}
    for name, side in sides.items():
        if side is None or side.original_head is None:
            continue
        head, body = side.original_head, side.original_body or b""
        made[name] = {"head": "\n".join(_shown_lines(head, redactor))}
        if ranges:
            made[name] |= _beginning(head, body, ranges[name].most, redactor)
    return made or None


def _beginning(head: bytes, body: bytes, most: int, redactor: Redactor) -> dict[str, Any]:
    """Return the first bytes of a body that can be read no further here."""
    part = body_part(head, body, Range(0, most), redactor)
    made: dict[str, Any] = {"body": part.text}
    if part.is_base64:
        made["encoding"] = "base64"
    return made if part.next_offset is None else {**made, "truncated": True}


def _timing(row: dict[str, Any]) -> dict[str, Any]:
    made = {"timestamp": iso(row["time"])}
    duration = _milliseconds(row["duration_ms"])
    return made if duration is None else {**made, "duration_ms": duration}


def _sizes(side: Side) -> dict[str, Any]:
    """Return a packet's sizes on the wire, and how much of its body was kept if not all."""
    made: dict[str, Any] = {"id": side.id, "length": side.length, "body": side.body_length}
    if len(side.body) < side.body_length:
        made["kept"] = len(side.body)
    if side.modified:
        made["modified"] = True
    return made


def _bodies(
    sides: dict[str, Side | None], redactor: Redactor, ranges: dict[str, Range]
) -> dict[str, Any]:
    body: dict[str, str] = {}
    encoding: dict[str, str] = {}
    truncated: dict[str, Any] = {}
    for name, side in sides.items():
        if side is None:
            body[name] = ""
            continue
        part = body_part(side.head, side.body, ranges[name], redactor)
        body[name] = part.text
        if part.is_base64:
            encoding[name] = "base64"
        if part.next_offset is not None or ranges[name].offset:
            truncated[name] = _rest(name, part, ranges[name])
    made: dict[str, Any] = {"body": body}
    if encoding:
        made["encoding"] = encoding
    return {**made, "truncated": truncated} if truncated else made


def _rest(name: str, part: BodyPart, shown: Range) -> dict[str, Any]:
    """Return which bytes of a body are shown, of how many, and how to get the next ones."""
    made: dict[str, Any] = {"offset": min(shown.offset, part.total), "total": part.total}
    if part.total >= DECODED_LIMIT:
        made["total_is_exact"] = False  # not more than this is decoded
    if part.next_offset is not None:
        made |= {
            "next_offset": part.next_offset,
            "hint": f"call again with {name}_offset {part.next_offset}",
        }
    return made


# What breakpoints hold


def held_view(held: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return a held message as text, instead of the bytes that the engine sends."""
    head, body = base64.b64decode(held["head"]), base64.b64decode(held["body"])
    made = {
        **held,
        "url": redactor.url(held["url"]),
        "since": iso(held["since"]),
        "forwarded_at": iso(held["forwarded_at"]),
        "head": "\n".join(_shown_lines(head, redactor)),
        **_beginning(head, body, HELD_BODY_BYTES, redactor),
    }
    return made if len(body) == held["body_length"] else {**made, "truncated": True}


def unmasked_head(given: str, held: dict[str, Any], redactor: Redactor) -> bytes:
    """Return a head that was written after a masked one, with untouched lines as they were."""
    head = base64.b64decode(held["head"])
    lines = [line for line in head.splitlines() if line]
    originals = dict(zip(_shown_lines(head, redactor), lines, strict=True))
    written = [
        originals.get(line, line.encode("utf-8", "replace"))
        for line in re.split("\r?\n", given)
        if line
    ]
    return b"\r\n".join((*written, b"", b""))


def start_view(line: str, redactor: Redactor) -> str:
    """Mask a start line word by word, for a secret at the end of its URL ends with the URL."""
    return " ".join(redactor.url(word) for word in line.split(" "))


def _shown_lines(head: bytes, redactor: Redactor) -> list[str]:
    """Return start line and headers, one text for each line of the head, masked."""
    lines = [line.decode("utf-8", "replace") for line in head.splitlines() if line]
    shown = [start_view(line, redactor) for line in lines[:1]]
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        shown.append(f"{name}{colon} {redactor.header(name, value.strip())}" if colon else line)
    return shown

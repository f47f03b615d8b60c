"""What may pass as a JSON-RPC message, before any library builds objects of it.

Parsers differ on the odd cases (a key given twice, a fraction as an id, nesting without end), and
where two parsers differ one of them can be fooled: so the odd cases are refused at the edge.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 128
MAX_VALUES = 50_000
"""Most values of a message; empty objects and lists count twice. Values take time to read, not
bytes: 4 MB of objects would keep everybody waiting for most of a second."""
MAX_ID = 2**53
"""Beyond this, clients in JavaScript cannot tell two ids apart."""
_HALVES = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a character that is written in two; without the other it could not be written again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why a message is not accepted; it is answered with `response`."""

    code: int
    message: str
    id: str | int | None = None

    def response(self) -> dict[str, Any]:
        error = {"code": self.code, "message": self.message}
        return {"jsonrpc": "2.0", "id": self.id, "error": error}


class _Duplicate(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Duplicate(key)
            seen.add(key)
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite
)
"""Decoder made once: `json.loads` with hooks makes one a message, which costs more than reading."""


def refuse_kind(content_type: str | None) -> Refusal | None:
    """Return why a request with this Content-Type carries no message; None: it may carry one.

    Some types a page may send to any server without being allowed to; this one it may not.
    """
    kind = (content_type or "").partition(";")[0].strip()
    if kind.lower() == "application/json":
        return None
    found = f"it is {kind[:80]!a}" if kind else "there is none, or more than one"
    return Refusal(INVALID_REQUEST, f"Content-Type must be application/json; {found}")


def parse(raw: bytes) -> dict[str, Any] | Refusal:
    """Parse one message; return the reason where it is none."""
    if len(raw) > MAX_BYTES:
        return Refusal(INVALID_REQUEST, f"message is larger than {MAX_BYTES} bytes")
    if _has_more_values(raw, MAX_VALUES):
        return Refusal(INVALID_REQUEST, f"message has more than {MAX_VALUES:,} values")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return Refusal(PARSE_ERROR, f"not UTF-8 at byte {error.start}")
    try:
        message = _DECODER.decode(text)
    except _Duplicate as error:
        return Refusal(INVALID_REQUEST, f"key {str(error)[:80]!r} stands twice in one object")
    except RecursionError:
        return Refusal(INVALID_REQUEST, f"nested deeper than {MAX_DEPTH}")
    except ValueError as error:
        return Refusal(PARSE_ERROR, f"not JSON: {str(error)[:120]}")
    if isinstance(message, list):
        return Refusal(INVALID_REQUEST, "batches are not part of MCP; send one message")
    if not isinstance(message, dict):
        return Refusal(INVALID_REQUEST, "a message is a JSON object")
    checked = _checked(message)
    if _HALVES.search(text) and isinstance(checked, dict) and not _can_be_written(checked):
        why = "half of a character (a lone surrogate) stands in a string"
        return Refusal(INVALID_REQUEST, why, checked.get("id"))
    return checked


def _has_more_values(raw: bytes, most: int) -> bool:
    """Judge a message by its commas and opening brackets, behind one of which each value stands.

    What is no JSON may be judged either way: it is refused where it is read, up to where it is
    none, and up to there the judgement is right.
    """
    if len(raw) <= most or _separators(raw) <= most:
        return False
    # Those within strings do not count; without escapes each quote begins or ends a string.
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A value has at most two strings, itself and its key; many strings take long to leave out.
    if plain.count(b'"') > 4 * (most + 1):
        return True
    return _separators(b"".join(plain.split(b'"')[::2])) > most


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _can_be_written(message: object) -> bool:
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked(message: dict[str, Any]) -> dict[str, Any] | Refusal:
    if "id" in message:
        wrong = _wrong_id(message["id"])
        # A response to a request that could not be read has the id null.
        answered = "error" in message and "method" not in message
        if wrong and not (message["id"] is None and answered):
            return Refusal(INVALID_REQUEST, f"id is {wrong}; use a string or a whole number")
    sound_id = message.get("id")
    if message.get("jsonrpc") != "2.0":
        return Refusal(INVALID_REQUEST, 'jsonrpc must be "2.0"', sound_id)
    if not ({"method", "result", "error"} & message.keys()):
        return Refusal(INVALID_REQUEST, "neither method nor result nor error", sound_id)
    if "method" in message and not isinstance(message["method"], str):
        return Refusal(INVALID_REQUEST, "method must be a string", sound_id)
    if not isinstance(message.get("params", {}), dict):
        return Refusal(INVALID_REQUEST, "params must be an object", sound_id)
    if _deeper_than(message, MAX_DEPTH):
        return Refusal(INVALID_REQUEST, f"nested deeper than {MAX_DEPTH}", sound_id)
    return message


def _wrong_id(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool) or not isinstance(value, str | int):
        return f"of type {type(value).__name__}"
    if isinstance(value, int):
        return "too large" if abs(value) > MAX_ID else ""
    if len(value) > 1000:
        return "longer than 1,000 characters"
    return "" if _can_be_written(value) else "no text: half of a character (a lone surrogate)"


def _deeper_than(value: dict[str, Any], most: int) -> bool:
    level: list[Any] = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True

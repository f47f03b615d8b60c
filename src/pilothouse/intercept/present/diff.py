"""Differences of two exchanges: start lines, headers and bodies, masked and bounded.

JSON bodies are compared by their values, other texts by lines, everything else by its bytes.
"""

from __future__ import annotations

import json
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from pilothouse.intercept.present.decode import headers_of
from pilothouse.intercept.present.packets import shown_body, start_view
from pilothouse.intercept.replay.http1 import parse_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.intercept.ports import Detail, Side

    type Change = dict[str, Any]

MOST_CHANGES = 100
MOST_LINES = 200
MOST_CHARACTERS = 300
"""Characters of one value or line that are shown."""
_COMPARED_LINES = 1_000
"""Most lines that are compared, after what both begin and end with: it takes their square."""
_DEEPEST = 40
_ABSENT = object()


def diff(a: Detail, b: Detail, redactor: Redactor) -> dict[str, Any]:
    """Return `identical`, and for request and response what differs."""
    sides = {
        "request": _side(a.request, b.request, redactor),
        "response": _side(a.response, b.response, redactor),
    }
    return {
        "identical": not any(sides.values()),
        **{name: found for name, found in sides.items() if found},
    }


def _side(a: Side | None, b: Side | None, redactor: Redactor) -> dict[str, Any]:
    if a is None or b is None:
        missing = [name for name, side in (("a", a), ("b", b)) if side is None]
        return {"only_in": "b" if missing == ["a"] else "a"} if len(missing) == 1 else {}
    found: dict[str, Any] = {}
    if a.head != b.head:
        found |= _heads(a.head, b.head, redactor)
    if a.body != b.body or a.body_length != b.body_length:
        found["body"] = _bodies(a, b, redactor)
    return found


def _heads(a: bytes, b: bytes, redactor: Redactor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    starts = [parse_head(head).start.strip().decode("utf-8", "replace") for head in (a, b)]
    if starts[0] != starts[1]:
        found["start_line"] = _pair(*(start_view(start, redactor) for start in starts))
    if headers := _headers(_values(a), _values(b), redactor):
        found["headers"] = headers
    return found or {"headers": {"only_order_or_spelling": True}}


def _values(head: bytes) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in headers_of(head):
        values.setdefault(name.lower(), []).append(value)
    return values


def _headers(
    a: dict[str, list[str]], b: dict[str, list[str]], redactor: Redactor
) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {"removed": [], "added": [], "changed": []}
    for name in dict.fromkeys((*a, *b)):
        if a.get(name) == b.get(name):
            continue
        olds, news = (
            _cut(", ".join(redactor.header(name, value) for value in side.get(name, ())))
            for side in (a, b)
        )
        if name not in b:
            found["removed"].append({"name": name, "value": olds})
        elif name not in a:
            found["added"].append({"name": name, "value": news})
        else:
            found["changed"].append({"name": name, **_pair(olds, news)})
    return {kind: changes[:MOST_CHANGES] for kind, changes in found.items() if changes}


def _bodies(a: Side, b: Side, redactor: Redactor) -> dict[str, Any]:
    lengths = _pair(a.body_length, b.body_length)
    (old, is_old_text), (new, is_new_text) = (
        shown_body(side.head, side.body, redactor) for side in (a, b)
    )
    made: dict[str, Any] = {"length": lengths}
    if any(len(side.body) < side.body_length for side in (a, b)):
        made["compared"] = "the parts that were kept"
    if not (is_old_text and is_new_text):
        return {"kind": "binary", **made, "first_difference": _first_difference(a.body, b.body)}
    if old == new:
        # Differently compressed, or different in what is not shown.
        return {"kind": "text", **made, "only_encoding_or_masked_values": True}
    values = _json(old), _json(new)
    if _ABSENT not in values:
        return {
            "kind": "json",
            **made,
            **_listed(_changes(*values, "$", 0), MOST_CHANGES, "changes"),
        }
    return {"kind": "text", **made, **_lines(old, new)}


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _ABSENT


def _changes(a: Any, b: Any, path: str, depth: int) -> Iterator[Change]:
    """Yield what differs below a path, in the order of `a`, then of `b`."""
    if depth < _DEEPEST and isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys((*a, *b)):
            below = f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key)}]"
            yield from _changes(a.get(key, _ABSENT), b.get(key, _ABSENT), below, depth + 1)
    elif depth < _DEEPEST and isinstance(a, list) and isinstance(b, list):
        for place in range(max(len(a), len(b))):
            old, new = (side[place] if place < len(side) else _ABSENT for side in (a, b))
            yield from _changes(old, new, f"{path}[{place}]", depth + 1)
    elif type(a) is not type(b) or a != b:
        sides = {"a": a, "b": b}
        shown = {name: _json_text(side) for name, side in sides.items() if side is not _ABSENT}
        yield {"path": _cut(path), **shown}


def _json_text(value: object) -> str:
    return _cut(json.dumps(value, ensure_ascii=False))


def _lines(a: bytes, b: bytes) -> dict[str, Any]:
    old, new = (side.decode("utf-8", "replace").splitlines() for side in (a, b))
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    context = max(0, start - 2)
    last_old, last_new = (len(side) - max(0, end - 2) for side in (old, new))
    left, right = old[context:last_old], new[context:last_new]
    if max(len(left), len(right)) > _COMPARED_LINES:
        return {"first_different_line": start + 1, "too_long_to_compare": True}
    compared = list(unified_diff(left, right, n=2, lineterm=""))[2:]
    return {"starts_at_line": context + 1, **_listed(map(_cut, compared), MOST_LINES, "lines")}


def _alike(a: list[str], b: list[str]) -> int:
    """Return how many lines both begin with."""
    pairs = zip(a, b, strict=False)
    shortest = min(len(a), len(b))
    return next((place for place, (old, new) in enumerate(pairs) if old != new), shortest)


def _first_difference(a: bytes, b: bytes) -> int:
    pairs = zip(a, b, strict=False)
    shortest = min(len(a), len(b))
    return next((place for place, (old, new) in enumerate(pairs) if old != new), shortest)


def _listed(found: Iterator[Any], most: int, name: str) -> dict[str, Any]:
    every = list(found)
    left_off = len(every) - most
    return {name: every[:most], **({"left_off": left_off} if left_off > 0 else {})}


def _pair(a: object, b: object) -> Change:
    return {"a": _cut(a) if isinstance(a, str) else a, "b": _cut(b) if isinstance(b, str) else b}


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text)})"

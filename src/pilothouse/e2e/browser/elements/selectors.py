"""Selectors: CSS, those of Playwright, refs of a snapshot, and two more by what a user reads."""

from __future__ import annotations

import json
import re

_FIELD = re.compile(r"(label|placeholder)\s*=\s*(.+)", re.DOTALL)
_TEXT = re.compile(r"""(?:text|label|placeholder)\s*=|["']""")
_QUOTES = "\"'"


def is_by_text(selector: str) -> bool:
    """Tell whether it names an element by what a user reads, wherever in the page that is."""
    return bool(_TEXT.match(selector.strip()))


def for_playwright(selector: str) -> str:
    """Return the selector as Playwright knows it: `label=` and `placeholder=` are ours."""
    parts = _parts(selector)
    if not any(map(_field_of, parts)):
        return selector
    return " >> ".join(_engine(part) for part in parts)


def as_code(selector: str) -> str:
    """Return the calls that find the same in a test."""
    parts = _parts(selector)
    if not any(map(_field_of, parts)):
        return f"locator({literal(selector)})"
    return ".".join(_call(part) for part in parts)


def literal(text: str) -> str:
    """Return a text as a Python string, in double quotes where that needs no escaping."""
    made = repr(text)
    if made[0] == '"' or '"' in text:
        return made
    return '"' + made[1:-1].replace("\\'", "'") + '"'


def _engine(part: str) -> str:
    field = _field_of(part)
    if field is None:
        return part
    kind, text, exact = field
    # Case counts where the text is quoted, as with `text=`.
    value = json.dumps(text, ensure_ascii=False) + ("s" if exact else "i")
    return f"internal:label={value}" if kind == "label" else f"internal:attr=[placeholder={value}]"


def _call(part: str) -> str:
    field = _field_of(part)
    if field is None:
        return f"locator({literal(part)})"
    kind, text, exact = field
    return f"get_by_{kind}({literal(text)}{', exact=True' if exact else ''})"


def _field_of(part: str) -> tuple[str, str, bool] | None:
    """Return kind and text of a selector that is ours, and whether the text is meant exactly."""
    match = _FIELD.fullmatch(part)
    if match is None:
        return None
    kind, text = match[1], match[2]
    exact = len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES
    return kind, text[1:-1] if exact else text, exact


def _parts(selector: str) -> list[str]:
    """Split at `>>`, but not inside quotes."""
    parts, quote, begin = [], "", 0
    for at, sign in enumerate(selector):
        if quote:
            quote = "" if sign == quote and selector[at - 1] != "\\" else quote
        elif sign in _QUOTES:
            quote = sign
        elif selector.startswith(">>", at) and begin <= at:
            parts.append(selector[begin:at])
            begin = at + 2
    return [part.strip() for part in (*parts, selector[begin:])]

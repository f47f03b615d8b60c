"""Masking the value that stands after a name, in text of any kind: JSON, code, logs, HTML."""

import re

from pilothouse.core.secrets.names import is_count, is_holder, is_secret_autofill, is_secret_key
from pilothouse.core.secrets.shapes import MASK, Edit

OPENING_QUOTE = re.compile(r"""\\{0,3}["']""")
_QUOTE = re.compile(r"""\\++["']?|["']""")
_NUMBER = re.compile(r"-?\d[\d.eE+-]*")
_IN_CONTAINER = re.compile(r"""(\\{0,3}["'])|(-?\d[\d.eE+-]*)|[\[\]{}]""")
_NO_MERE_WORD = re.compile(r"""(?=[^&\s"'<>;\\]{6})[^&\s"'<>;\\\d]{0,64}\d""")
_BARE_VALUE = re.compile(r"""[^&\s"'<>;\\]++""")
_NAMED = re.compile(r"""\b(?:name|id|property)\s?=\s?["']?([\w.:\[\]-]{1,64})""", re.I)
_PASSWORD_FIELD = re.compile(r"""\btype\s?=\s?["']?password\b""", re.I)
_AUTOFILLED = re.compile(
    r"""\bautocomplete\s?=\s?(?:"([^"]{1,256})|'([^']{1,256})|([\w-]++))""", re.I
)
_VALUED = re.compile(r"""(\b(?:value|content)\s?=\s?)("[^"]++|'[^']++|[^"'\s>]++)""", re.I)


def string_end(text: str, start: int, quote_mark: str) -> tuple[int, int]:
    """Find where the string ends that begins at `start`, without and with its closing quote.

    With k backslashes before its quotes (0, or 1 or 3 inside other strings) an escaped backslash
    is 2(k+1) of them, so a quote closes the string if the backslashes before it are k modulo that.
    """
    level = len(quote_mark) - 1
    for found in _QUOTE.finditer(text, start):
        is_same = found[0][-1] == quote_mark[-1]
        if is_same and (len(found[0]) - 1) % (2 * level + 2) == level:
            return found.end() - len(quote_mark), found.end()
    return len(text), len(text)


def mask_under(key: str, text: str, start: int, quote_mark: str = '"') -> Edit | None:
    """Mask the string, number or container that starts here, also one that was cut off."""
    if not is_secret_key(key):
        return None
    if opening := OPENING_QUOTE.match(text, start):
        end, _ = string_end(text, opening.end(), opening[0])
        return (opening.end(), end, MASK) if end > opening.end() else None
    if not is_count(key) and (number := _NUMBER.match(text, start)):
        return *number.span(), quote_mark + MASK + quote_mark
    if text.startswith(("[", "{"), start) and not is_holder(key):
        return _mask_container(text, start, quote_mark)
    return None


def _mask_container(text: str, start: int, quote_mark: str) -> Edit:
    out: list[str] = []
    done, position, depth = start, start, 0
    while found := _IN_CONTAINER.search(text, position):
        position = found.end()
        if found[1]:
            end, position = string_end(text, found.end(), found[1])
            is_key = text[position : position + 8].lstrip().startswith(":")
            if not is_key and end > found.end():
                out += (text[done : found.end()], MASK)
                done = end
        elif found[2]:
            out += (text[done : found.start()], quote_mark + MASK + quote_mark)
            done = position
        else:
            depth += 1 if found[0] in "[{" else -1
            if depth == 0:
                break
    else:
        position = len(text)
    return start, position, "".join((*out, text[done:position]))


def mask_bare(key: str, sign: str, text: str, start: int) -> Edit | None:
    """Mask the value in `DB_PASSWORD=...`, `token: "..."`: unquoted keys of logs, YAML, code."""
    if not is_secret_key(key):
        return None
    if OPENING_QUOTE.match(text, start):
        return mask_under(key, text, start)
    # After `=` anything is the value; after a colon it might be a sentence.
    if "=" not in sign and not _NO_MERE_WORD.match(text, start):
        return None
    value = _BARE_VALUE.match(text, start)
    return (*value.span(), MASK) if value else None


def mask_tag(match: re.Match[str]) -> str:
    is_secret = (
        _PASSWORD_FIELD.search(match[0])
        or any(map(is_secret_key, _NAMED.findall(match[0])))
        or any(map(is_secret_autofill, map("".join, _AUTOFILLED.findall(match[0]))))
    )
    if is_secret:
        return _VALUED.sub(lambda m: m[1] + m[2][: m[2][0] in "\"'"] + MASK, match[0])
    return match[0]


def mask_named(match: re.Match[str]) -> str:
    """Keep what leads to the value (group 1) if the name (group 2) is a secret's."""
    return match[1] + MASK if is_secret_key(match[2]) else match[0]

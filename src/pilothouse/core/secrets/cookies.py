"""Cookies keep their names and attributes; only their values are secret."""

import re

from pilothouse.core.secrets.shapes import MASK

_FOLDED_COOKIE = re.compile(r"(,\s{0,2}[^=;,\s]{1,128}=)[^;,\s]++")
_COOKIE_ATTRIBUTES = frozenset(
    "domain expires httponly max-age partitioned path priority samesite secure".split()
)


def mask_cookie(part: str) -> str:
    name, equals, value = part.partition("=")
    if equals:
        return f"{name}={MASK}" if value.strip() else part
    return part.replace(part.strip(), MASK) if part.strip() else part


def mask_set_cookie(line: str) -> str:
    cookie, *attributes = line.split(";")
    masked = [mask_cookie(cookie)]
    for attribute in attributes:
        is_known = attribute.partition("=")[0].strip().lower() in _COOKIE_ATTRIBUTES
        # Some libraries join several Set-Cookie headers with commas.
        unfolded = _FOLDED_COOKIE.sub(rf"\g<1>{MASK}", attribute)
        masked.append(unfolded if is_known else mask_cookie(attribute))
    return ";".join(masked)

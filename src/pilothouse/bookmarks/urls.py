"""Which addresses a bookmark may have, and when two of them lead to the same page."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pilothouse.bookmarks.model import InvalidUrl
from pilothouse.core.secret_shapes import MASK
from pilothouse.core.urls import DEFAULT_PORTS, UrlError, target_of

_TABS_AND_NEWLINES = str.maketrans("", "", "\t\n\r")
_CONTROLS_AND_SPACE = "".join(map(chr, range(0x21)))
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
# A click on such a bookmark runs what it says in the page that is open.
_RUNNING = frozenset("javascript data vbscript livescript mocha jscript blob filesystem".split())
_WRAPPING = frozenset("view-source feed jar".split())
_MASKS = tuple(text.casefold() for text in (MASK, quote(MASK, safe="")))


def scheme_of(url: str) -> str:
    """The scheme as a browser reads it, which drops blanks, tabs and newlines; empty for none."""
    found = _SCHEME.match(_cleaned(url))
    return found[1].lower() if found else ""


def check_url(url: str) -> str:
    """The same URL, if a bookmark may have it.

    Raises:
        InvalidUrl: it would run as a script, is masked, or has no scheme.
    """
    rest = _cleaned(url)
    scheme = scheme_of(rest)
    while scheme in _WRAPPING:
        rest = _cleaned(rest.partition(":")[2])
        scheme = scheme_of(rest)
    if scheme in _RUNNING:
        raise _invalid(
            f"{scheme}: addresses are not taken: a click would run them in the page that is open",
            "give the address of a page, such as https://example.com/",
        )
    if is_masked(url):
        raise _invalid(
            "the address holds a mask in place of a secret, and would be stored like that",
            "leave url out to keep it, or give the real address",
        )
    if not scheme or "." in scheme or scheme == "localhost":
        raise _invalid(
            "the address does not say how it is reached",
            "write it in full, such as https://example.com/ or http://localhost:3000/",
        )
    return url


def is_masked(text: str) -> bool:
    """Whether a text holds what stands for a secret in answers, in either spelling."""
    folded = text.casefold()
    return any(mask in folded for mask in _MASKS)


def _cleaned(url: str) -> str:
    return url.translate(_TABS_AND_NEWLINES).strip(_CONTROLS_AND_SPACE)


def _invalid(message: str, hint: str) -> InvalidUrl:
    return InvalidUrl(message, hint=hint, field="url", expected="an absolute URL")


# Sameness

SAME = (
    "http and https, www., a default port, a slash at the end, the order of the query, "
    "parameters that only track (utm_…, fbclid …) and fragments other than #/ and #! do not count"
)
SAME_STRICTLY = "only the case of the host and a default port do not count"

_TRACKING = re.compile(
    r"utm_\w+|fbclid|gclid|gbraid|wbraid|dclid|msclkid|yclid|igshid|mc_[ce]id|_ga|_gl"
    r"|_hs(?:enc|mi)|mkt_tok|vero_id|oly_(?:anon|enc)_id|ref_src|spm",
    re.I,
)


def same_key(url: str, *, strict: bool = False) -> str:
    """A text that is equal for two URLs if they count as the same (`SAME`, `SAME_STRICTLY`)."""
    cleaned = _cleaned(url)
    try:
        target = target_of(cleaned)
        parts = urlsplit(cleaned.replace("\\", "/"))
    except (UrlError, ValueError):
        return cleaned
    host = target.host.name
    port = "" if target.port == DEFAULT_PORTS[target.scheme] else f":{target.port}"
    if strict:
        beside = f"?{parts.query}" if parts.query else ""
        beside += f"#{parts.fragment}" if parts.fragment else ""
        user = parts.netloc.rpartition("@")[0]
        return f"{target.scheme}://{user}@{host}{port}{parts.path or '/'}{beside}"
    pairs = sorted(
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if not _TRACKING.fullmatch(name)
    )
    route = parts.fragment if parts.fragment.startswith(("/", "!")) else ""
    path = unquote(parts.path).rstrip("/")
    return f"{host.removeprefix('www.')}{port}{path}?{pairs}#{unquote(route)}"

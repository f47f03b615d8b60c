"""Which addresses a bookmark may have, and when two of them lead to the same page."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pilothouse.bookmarks.model import InvalidUrl
from pilothouse.core.net.url_policy import (
    DEFAULT_PORTS,
    UrlError,
    cleaned_url,
    scheme_of,
    target_of,
)
from pilothouse.core.secrets.shapes import MASK

# A click on such a bookmark runs what it says in the page that is open.
_RUNNING = frozenset("javascript data vbscript livescript mocha jscript blob filesystem".split())
_WRAPPING = frozenset("view-source feed jar".split())
_MASKS = tuple(text.casefold() for text in (MASK, quote(MASK, safe="")))


def check_url(url: str) -> str:
    """Return the same URL, if a bookmark may have it.

    Raises:
        InvalidUrl: it would run as a script, is masked, has no scheme, or no host that can be one.
    """
    rest = cleaned_url(url)
    scheme = scheme_of(rest)
    while scheme in _WRAPPING:
        rest = cleaned_url(rest.partition(":")[2])
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
    _check_host(rest, scheme)
    return url


def _check_host(url: str, scheme: str) -> None:
    """Check the host: Chrome would refuse it too, but only in the midst of a batch or a plan."""
    try:
        if scheme in DEFAULT_PORTS:
            target_of(url)
        elif scheme != "file" and url.partition("://")[1:] == ("://", ""):
            raise UrlError(f"{scheme}:// has no host")
    except UrlError as error:
        raise _invalid(
            f"the address leads nowhere: {error}",
            "give the whole address with its host, such as https://example.com/",
        ) from None


def is_masked(text: str) -> bool:
    """Tell whether a text holds what stands for a secret in answers, in either spelling."""
    folded = text.casefold()
    return any(mask in folded for mask in _MASKS)


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
    """Return a text that is equal for URLs that count as the same (`SAME`, `SAME_STRICTLY`)."""
    cleaned = cleaned_url(url)
    try:
        target = target_of(cleaned)
        parts = urlsplit(cleaned.replace("\\", "/"))
    except (UrlError, ValueError):
        return cleaned
    host = target.host.name
    user = parts.netloc.rpartition("@")[0]
    port = "" if target.port == DEFAULT_PORTS[target.scheme] else f":{target.port}"
    if strict:
        beside = f"?{parts.query}" if parts.query else ""
        beside += f"#{parts.fragment}" if parts.fragment else ""
        return f"{target.scheme}://{user}@{host}{port}{parts.path or '/'}{beside}"
    pairs = sorted(
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if not _TRACKING.fullmatch(name)
    )
    route = parts.fragment if parts.fragment.startswith(("/", "!")) else ""
    # Each part for itself: a slash that is encoded is no slash.
    path = [unquote(part) for part in parts.path.rstrip("/").split("/")]
    return f"{unquote(user)}@{host.removeprefix('www.')}{port}{path}?{pairs}#{unquote(route)}"

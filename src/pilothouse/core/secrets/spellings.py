"""The ways in which a known secret may be written: encoded for a URL, for JSON, HTML or base64."""

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

_SHORTEST_BASE64 = 8
"""Least characters of base64 to look for: fewer could stand in any text by chance."""


def spellings(secret: str) -> set[str]:
    """Return a secret in all the ways in which it is looked for."""
    spelled = {secret, *_in_json(secret), *_in_base64(_bytes(secret))}
    spelled |= {twice for once in _in_json(secret) for twice in _in_json(once)}
    for text in {secret, html.escape(secret, quote=False), html.escape(secret)}:
        spelled |= {text, text.replace("&#x27;", "&#39;")}
    quoted = {quote(text, safe="", errors="replace") for text in spelled}
    quoted |= {quote(secret, errors="replace"), quote_plus(secret, errors="replace")}
    return spelled | quoted | {re.sub(r"%..", lambda found: found[0].lower(), t) for t in quoted}


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")  # the bytes as they came
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")  # half of a character, from JSON


def _in_json(text: str) -> set[str]:
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}


def _in_base64(secret: bytes) -> Iterator[str]:
    """Yield what stands for a secret alone, wherever it begins in what was encoded."""
    for before in range(3):
        encoded = b64encode(bytes(before) + secret).decode()
        start = -(-before * 8 // 6)  # of the first character that tells nothing of what was before
        end = (before + len(secret)) * 8 // 6
        if end - start >= _SHORTEST_BASE64:
            alone = encoded[start:end]
            yield alone
            yield alone.replace("+", "-").replace("/", "_")

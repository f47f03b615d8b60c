"""Whether a secret stands in a file, in whatever way it is written."""

from __future__ import annotations

import html
import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus


def spelled_in(content: bytes, secret: str) -> list[str]:
    """Return the spellings of a secret that are in a content, made without the product's code."""
    return [shown for shown in _spellings(secret) if shown.encode() in content]


def _spellings(secret: str) -> set[str]:
    told = {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
    }
    told |= {html.escape(secret), html.escape(secret, quote=False)}
    for _ in range(2):
        told |= {
            json.dumps(text, ensure_ascii=is_ascii)[1:-1]
            for text in told
            for is_ascii in (True, False)
        }
    for before in range(3):
        for encode in (b64encode, urlsafe_b64encode):
            # The characters at both ends are also of what is beside the secret.
            alone = encode(b"-" * before + secret.encode()).decode()[4:-4]
            told |= {alone, quote(alone, safe="")}
    return told

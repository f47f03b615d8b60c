"""What is secret wherever it stands, by its own shape: a JWT, a private key, a vendor's prefix.

The hints are looked for first, since most text has none of them and `in` is much faster than an
expression.
"""

import re
from base64 import b64decode
from urllib.parse import unquote

MASK = "[redacted]"

type Edit = tuple[int, int, str]
"""A change of a text: its start, its end, and what stands there instead."""

_TOKEN = re.compile(r"[\w.~+/%-]{4,}+=*+", re.ASCII)

SHAPE_HINTS = tuple(
    "eyJ AKIA ASIA ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox xapp- hooks.slack _live_ _test_ "
    "whsec_ AIza ya29. GOCSPX- sk- npm_ pypi- hf_ SG. dop_v1_ shpat_ hvs. PRIVATE :AA".split()
)
_SHAPES = re.compile(
    r"""
    (?P<jwt>eyJ[\w-]*+(?:\.[\w-]++)*+)
    | (?P<pem>-----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----)
      (?:[^-"'<]|-(?!----))*+
    | (?:AKIA|ASIA)[0-9A-Z]{16}
    | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{20,}
    | xox[a-z]-[A-Za-z0-9-]{10,} | xapp-[A-Za-z0-9-]{10,}
    | (?<=hooks\.slack\.com/services/)[\w/-]{16,}
    | [sr]k_(?:live|test)_\w{10,} | whsec_[A-Za-z0-9+/=]{16,}
    | AIza[\w-]{30,} | ya29\.[\w-]{20,} | GOCSPX-[\w-]{20,}
    | (?<![A-Za-z0-9\]])(?P<sk>sk-[\w-]{16,})
    | npm_[A-Za-z0-9]{30,} | pypi-AgE[\w-]{20,} | hf_[A-Za-z0-9]{30,}
    | SG\.[\w-]{16,64}\.[\w-]{16,} | dop_v1_[0-9a-f]{32,} | shpat_[0-9A-Fa-f]{32,}
    | hvs\.[\w-]{20,} | \d{8,10}:AA[\w-]{30,}
    """,
    re.VERBOSE | re.ASCII,
)
KNOWN_SCHEMES = frozenset(
    "apikey aws4-hmac-sha256 basic bearer digest dpop hawk hmac negotiate ntlm oauth token".split()
)


def mask_shapes(text: str) -> str:
    if any(hint in text for hint in SHAPE_HINTS):
        return _SHAPES.sub(_mask_shape, text)
    return text


def _mask_shape(match: re.Match[str]) -> str:
    found = match[0]
    if match["jwt"] is not None:
        # The pattern takes any run after "eyJ", so that a run without dots is read only once.
        return MASK if "." in found[10:] else found
    if match["pem"] is not None:
        return match["pem"] + MASK
    if match["sk"] is not None and not any(char.isdigit() for char in found):
        return found  # a CSS class such as sk-loading-indicator
    return MASK


def mask_scheme(scheme: str, text: str, start: int) -> Edit | None:
    token = _TOKEN.match(text, start)
    if token is None:
        return None
    word = token[0]
    # Prose ("Bearer authentication") and parameters (Bearer realm="...") are short, so that
    # whatever is read in vain is short as well.
    if len(word) < 64 and text.startswith('"', token.end()):
        return None
    if scheme.lower() == "basic":
        is_secret = len(word) > 1000 or _is_user_and_password(unquote(word))
    else:
        is_secret = len(word) >= 20 or not re.fullmatch(r"[a-z]+\.?", word)
    return (*token.span(), MASK) if is_secret else None


def _is_user_and_password(token: str) -> bool:
    try:
        return b":" in b64decode(token + "=" * (-len(token) % 4), validate=True)
    except ValueError:
        return False

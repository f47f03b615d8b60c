"""A quick look that tells most texts apart from those that could hold a secret.

Reading a text closely takes tens of microseconds, and a page of events has hundreds of texts. One
pass of RE2 over the whole says for nearly all of them that there is nothing to find. It may only
err on the side of looking closely.
"""

import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pilothouse.core.regex import OWN_MEMORY, compile_pattern
from pilothouse.core.secrets.shapes import SHAPE_HINTS

NAME_HINTS = tuple(
    "token secret pass pwd auth cred csrf xsrf jwt otp key session sessid sid cookie saml bearer "
    "basic negotiate dpop verifier cvv cvc location signature pw autocomplete".split()
)
"""Letters that are in every name of a secret."""

CACHED_LETTERS = 256
"""Longer texts are searched each time, so that the cache stays small."""
_LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
# A name may be spelled `api-key`, `API_KEY` or `apiKey`: only its letters count.
_NO_LETTERS = bytes(byte for byte in range(128) if chr(byte) not in string.ascii_letters)

# A URL without a user and without `key=value` has no place for a secret that the names miss.
_URL_WITH_VALUES = r"""://[^\s"'<>\\]*[@=]"""
# In a path and in a form there are keys that are secret only there, such as `code`.
_PAIR = r"""(?:[?&]|\\u0026)[^\s"'<>\\=&]*="""
# Both are secret in a line that has them, see `secrets/oauth.py`.
# In JSON the white space between a name and its value is an escape.
_STATE = r"""state(?:\\*["'])?(?:\s|\\[tnrfv])?(?:[=:]|%3D)"""
_OAUTH = f"code.*{_STATE}|{_STATE}.*code"


@lru_cache(maxsize=1)
def _patterns() -> tuple[Any, Any]:
    names = compile_pattern("|".join(NAME_HINTS), memory=OWN_MEMORY)
    shapes = "|".join(
        (_URL_WITH_VALUES, _PAIR, _OAUTH, *(hint.replace(".", r"\.") for hint in SHAPE_HINTS))
    )
    return names, compile_pattern(shapes, ignore_case=True, memory=OWN_MEMORY)


def might_hold_secret(text: bytes) -> bool:
    """Tell whether a text, or the JSON of a value, has to be read closely."""
    return _might_name_secret(text) or _patterns()[1].search(text) is not None


def which_might_hold_secrets(texts: Sequence[bytes]) -> list[bool]:
    """Tell which texts have to be read closely, mostly with one search for shapes over all."""
    shapes = _patterns()[1]
    if shapes.search(b"\n".join(texts)) is None:
        return [_might_name_secret(text) for text in texts]
    return [might_hold_secret(text) for text in texts]


def _might_name_secret(text: bytes) -> bool:
    letters = text.translate(_LOWER, _NO_LETTERS)
    if len(letters) <= CACHED_LETTERS:
        return _has_name(letters)
    return _patterns()[0].search(letters) is not None


# Lines of a log differ in their numbers mostly.
@lru_cache(maxsize=4_096)
def _has_name(letters: bytes) -> bool:
    return _patterns()[0].search(letters) is not None

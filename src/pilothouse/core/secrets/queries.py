"""Finding `key=value` pairs in text: in URLs, in paths as servers log them, in forms."""

import re
from collections.abc import Iterator

from pilothouse.core.secrets.names import is_secret_query_key
from pilothouse.core.secrets.oauth import state_beside

PAIR_KEYS = re.compile(r"(?:^|[?&;])([^=&;?/:\s]{1,128})=")
PAIR_MARK = re.compile(r"(?:[?&]|\\u0026)[^=&;?/:\s]{1,128}=")
"""Stands in a query, and between two pairs of a form."""
ESCAPED = r"\u0026"
"""An ampersand in JSON that is meant for pages."""
_ANY_KEY = re.compile(r"""(?<![^=&;?/:#\s"<>\\])[^=&;?/:#\s"<>\\]++(?==)""")
"""A word before an equals sign, marked as a pair or not; only where a word begins, so that no
character is looked at twice."""
_NESTED = ("%3D", "%3d", "%40", r"\u", r"\b")
"""Marks of a pair that is spelled in another way, or holds a URL of its own."""
_ESCAPES = frozenset("fnrt")
"""Letters that behind a backslash are white space in JSON, and so no part of a key."""
_REST = re.compile(r"""(?:[^\s"'<>\\]++|\\u0026)*+""")
_ENDS_A_WORD = frozenset("\"'<>\\")
_FORM = re.compile(r'[^\s"<>\\=&?;/:#]{1,128}=[^\s"<>\\]*+')


def may_hold_secrets(text: str) -> bool:
    """Tell whether some pair in a text might be secret; False is certain, and much quicker to find
    out than to read every query."""
    if PAIR_MARK.search(text) is None:
        return False
    if any(mark in text for mark in _NESTED):
        return True
    words = set(_ANY_KEY.findall(text))
    # A key of a form may have an apostrophe in it; everywhere else one begins the word.
    keys = words | {word.rpartition("'")[2] for word in words}
    keys |= {key[1:] for key in keys if key[:1] in _ESCAPES}
    return bool(state_beside(keys)) or any(map(is_secret_query_key, keys))


def runs_of_pairs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each query, from its question mark on, and of each form."""
    done = 0
    for mark in PAIR_MARK.finditer(text):
        start = mark.start()
        if start < done:
            continue
        if text[start] != "?":
            # The first pair has no mark. No character is looked at twice: all of this word is done.
            while start > done and not _ends_word(text[start - 1]):
                start -= 1
        rest = _REST.match(text, mark.start())
        done = rest.end() if rest else mark.end()
        yield start, done


def _ends_word(character: str) -> bool:
    return character in _ENDS_A_WORD or character.isspace()


def is_form(text: str) -> bool:
    """Tell whether a whole text looks like the body of a form of more than one field."""
    return "&" in text and _FORM.fullmatch(text) is not None

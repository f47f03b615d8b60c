"""Finding `key=value` pairs in text: in URLs, in paths as servers log them, in forms."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_plus

from pilothouse.core.secret_names import is_secret_query_key

PAIR_KEYS = re.compile(r"(?:^|[?&;])([^=&;?/:\s]{1,128})=")
PAIR_MARK = re.compile(r"(?:[?&]|\\u0026)[^=&;?/:\s]{1,128}=")
"""Stands in a query, and between two pairs of a form."""
ESCAPED = r"\u0026"
"""An ampersand in JSON that is meant for pages."""
_REST = re.compile(r"""(?:[^\s"'<>\\]++|\\u0026)*+""")
_ENDS_A_WORD = frozenset("\"'<>\\")
_FORM = re.compile(r'[^\s"<>\\=&?;/:#]{1,128}=[^\s"<>\\]*+')
_OF_OAUTH = frozenset(
    "access_token client_id code id_token redirect_uri response_type session_state".split()
)


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


def has_oauth_state(keys: Iterable[str]) -> bool:
    """Tell whether a `state` among these keys is the one of OAuth; alone it is of anything."""
    names = {unquote_plus(key).lower() for key in keys}
    return "state" in names and not names.isdisjoint(_OF_OAUTH)


def is_secret_pair(key: str, *, with_state: bool) -> bool:
    """Tell whether a pair's value is secret; `with_state` where its state is that of OAuth."""
    return is_secret_query_key(key) or (with_state and unquote_plus(key).lower() == "state")

"""OAuth's `code` and `state`: credentials for a moment, under names that mean anything elsewhere.

In a query their names are enough, and for `state` what stands beside it. In a line of a log that
has both names, as fields, a hash or an object, values are masked that look like tokens.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal
from urllib.parse import quote, unquote, unquote_plus

from pilothouse.core.secrets.shapes import MASK, Edit

type State = Literal["any", "token", ""]
"""Value of a `state` that is secret: any at all, one that looks like a token, or none."""

_BESIDE = frozenset(
    "access_token client_id code error_description id_token iss redirect_uri response_type"
    " session_state".split()
)
_PERHAPS_BESIDE = frozenset({"error", "scope"})
"""Names that stand beside the state of other things, too, as in `?scope=all&state=opened`."""

# A number, a word and a word with its number (`ERR_SSL_3`, `SKU12345`) have no letter behind a
# digit. Of the random tokens hardly one has none: they are long, and in one piece or a few.
_RANDOM = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z0-9]{6})[A-Za-z]*+[0-9]++[A-Za-z]")
_SHORTEST = 8

_STATE = re.compile(r"""state(?:\\*+["'])?\s?(?:[=:]|%3[Dd])""")
# A query that is percent-encoded as a whole, a value in quotes, or one without. JSON stays valid:
# behind a key in quotes and a colon, a value without them would be a number; behind a quote that
# closes a string comes none of what a value begins with. The text before a name is checked once
# the name was matched: a search for a pattern that begins with letters is quicker.
_FIELD = re.compile(
    r"""
    (?P<key>code|state)
    (?: (?<![\w.-]code)(?<![\w.-]state)
      | (?<=%26code) | (?<=%26state) | (?<=%3[Ff]code) | (?<=%3[Ff]state)
    )
    (?: %3[Dd](?P<encoded>(?:[^%\s"'<>\\&]|%(?!26|23))*+)
      | (?P<mark>\\*+["'])?+
        (?: \s?(?:=>?|:)\s?\[?\\*+["'](?P<quoted>(?![],:}])(?:[^\s"'\\]|\\++/)*+)
          | (?(mark)=|\s?[=:]\s?)(?P<bare>[^\s"'<>\\&;,(){}\[\]|]*+)
        )
    )
    """,
    re.VERBOSE,
)
_MASK_ENCODED = quote(MASK, safe="")


def state_beside(keys: Iterable[str]) -> State:
    """Return which value of a `state` among these keys is OAuth's; alone it is of anything."""
    names = {unquote_plus(key).lower() for key in keys}
    if "state" not in names:
        return ""
    if not names.isdisjoint(_BESIDE):
        return "any"
    return "" if names.isdisjoint(_PERHAPS_BESIDE) else "token"


def is_state(key: str) -> bool:
    """Tell whether a key is `state`, which is OAuth's only beside other keys of OAuth's."""
    return unquote_plus(key).lower() == "state"


def is_secret_state(key: str, value: str, beside: State) -> bool:
    """Tell whether a pair is a secret state, by what stands beside it."""
    return is_state(key) and (beside == "any" or (beside == "token" and looks_like_token(value)))


def looks_like_token(value: str) -> bool:
    """Tell whether a value is random rather than a word or a number."""
    return len(value) >= _SHORTEST and _RANDOM.search(value) is not None


def mask_oauth(text: str) -> str:
    """Mask both in lines that have both names, outside of queries."""
    # Most text has not both, and these two searches are all that it costs.
    if "state" not in text or "code" not in text:
        return text
    out: list[str] = []
    done = 0
    for start, end, new in _edits(text):
        out += (text[done:start], new)
        done = end
    return "".join((*out, text[done:])) if out else text


def _edits(text: str) -> Iterator[Edit]:
    end = 0
    for state in _STATE.finditer(text):
        if state.start() < end:
            continue
        start = text.rfind("\n", 0, state.start()) + 1
        end = text.find("\n", state.end())
        end = len(text) if end < 0 else end
        fields = list(_FIELD.finditer(text, start, end))
        if len({field["key"] for field in fields}) == 2:
            yield from filter(None, map(_masked, fields))


def _masked(field: re.Match[str]) -> Edit | None:
    form = field.lastgroup or ""
    value = field[form]
    if form == "encoded":
        return (*field.span(form), _MASK_ENCODED) if value and unquote(value) != MASK else None
    return (*field.span(form), MASK) if looks_like_token(value) else None

"""What is masked wherever something is shown: headers, URLs, bodies, log text, plain values.

Secrets are found in three ways: by the name they stand under (a header, a query key, a JSON key),
by their own shape (a JWT, a private key, a vendor's prefix), and because they were `learn`ed.
Every pattern here runs in linear time: nothing that could fail follows an unbounded run, so that
text from a hostile page cannot stall the event loop. Masking twice changes nothing.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, overload
from urllib.parse import quote, unquote, unquote_plus

from pilothouse.core.secrets.cookies import mask_cookie, mask_set_cookie
from pilothouse.core.secrets.names import (
    URL_KEYS,
    header_rule,
    is_count,
    is_holder,
    is_secret_key,
    is_secret_query_key,
)
from pilothouse.core.secrets.needles import SHORTEST, Needles
from pilothouse.core.secrets.oauth import is_secret_state, is_state, mask_oauth, state_beside
from pilothouse.core.secrets.prefilter import which_might_hold_secrets
from pilothouse.core.secrets.queries import (
    ESCAPED,
    PAIR_KEYS,
    PAIR_MARK,
    is_form,
    may_hold_secrets,
    runs_of_pairs,
)
from pilothouse.core.secrets.shapes import (
    KNOWN_SCHEMES,
    MASK,
    SHAPE_HINTS,
    Edit,
    mask_scheme,
    mask_shapes,
)
from pilothouse.core.secrets.spellings import spellings
from pilothouse.core.secrets.values import (
    OPENING_QUOTE,
    mask_bare,
    mask_named,
    mask_tag,
    mask_under,
    string_end,
)

# Brackets in the userinfo part make URL parsers stumble; this decodes to the same word.
_MASK_IN_USERINFO = quote(MASK, safe="")
_DEEPEST = 100
_DEEPEST_JSON = 4  # JSON in strings of JSON

type _Editor = Callable[[re.Match[str]], Edit | None]


class Pattern(Protocol):
    """A compiled regular expression, of `re` or of RE2."""

    def search(self, text: str, /) -> object | None: ...
    def sub(self, repl: Any, text: str, /) -> str: ...


# Places: a name and its value inside a text

# Text is read closely only near one of these, so that most of it costs a few searches.
_HINTS = (
    *"token secret passw passphrase passcode pwd auth cred csrf xsrf jwt otp key session sessid "
    "sid cookie saml bearer basic negotiate dpop verifier cvv cvc location signature autocomplete "
    "://".split(),
    *(hint.lower() for hint in SHAPE_HINTS),
)
_NEAR = 256
# A quoted key (or the record {"name": KEY, "value": ...} of HAR files), a header at the start of
# a line or string, a bare key as in logs and YAML, or an authentication scheme; not the value.
_NAME = re.compile(
    r"""
    (?P<mark>\\{0,3}["'])(?:name(?P=mark)\s*+:\s*+(?P=mark))?
      (?P<quoted>[^"'\\\r\n]{1,64})(?P=mark)\s*+(?:,\s*+(?P=mark)value(?P=mark)\s*+)?:\s*+
    | (?:^|(?<=[\n'"]))(?P<header>[A-Za-z][A-Za-z0-9-]{2,40}):[ \t]?
    | (?<![\w.$%\[\]-])(?P<bare>[\w.$%\[\]-]{1,64})(?P<sign>\s?=\s?|:\s?)(?![=>])
    | \b(?P<scheme>(?i:Bearer|Basic|Negotiate|DPoP))(?:\s|%20|\+){1,4}
    """,
    re.VERBOSE | re.ASCII,
)
_HEADER_VALUE = re.compile(r"""[^\r\n'"]++""")
_JSON_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:\s*+)?')
_RECORD_VALUE = re.compile(r'\s*+,\s*+"value"\s*+:\s*+')
_PAIR = re.compile(r"(^|[?&;])([^=&;?/:\s]{1,128})=")
_SECRET_VALUE = re.compile(r"[^&]++")
_PATH_VALUE = re.compile(r"[^&;?]++")
_AUTHORITY = re.compile(r"://([^/?#\s\"'<>\\]*)")
_URL_REST = re.compile(r"://[^\s\"'<>\\]*")
_TAG = re.compile(r"<(?:input|meta)\b[^<>]*+", re.I)
_ELEMENT = re.compile(r"(<(?:\w{1,32}:)?([\w.-]{1,64})(?:\s[^<>]{0,256})?>)[^<]*[^<\s][^<]*+")
_PART = re.compile(
    r'(form-data;\s?name="([^"\r\n]{1,128})"[^\r\n]{0,256}'
    r"(?:\r?\n[^\r\n]{1,256}){0,4}\r?\n\r?\n)(?:[^\r\n]|\r?\n(?!--))++",
    re.I,
)


def _edited(text: str, matches: Iterable[re.Match[str]], edit: _Editor) -> str:
    """Replace the (start, end, new) of each match, looking for none inside what was replaced."""
    out: list[str] = []
    done = 0
    for match in matches:
        if match.start() >= done and (change := edit(match)):
            start, end, new = change
            out += (text[done:start], new)
            done = end
    return "".join((*out, text[done:])) if out else text


def _spots(text: str) -> list[int]:
    """Return where hints stand, in order."""
    spots: list[int] = []
    # The dotted capital I is the one letter whose lower case is longer.
    lower = text.replace("\u0130", "I").lower()
    for hint in _HINTS:
        place = lower.find(hint)
        while place >= 0:
            spots.append(place)
            place = lower.find(hint, place + 1)
    return sorted(spots)


def _names_in(text: str) -> Iterator[re.Match[str]]:
    """Yield the names before values, reading each stretch of text around hints once."""
    start = end = 0
    for spot in _spots(text):
        if spot - _NEAR > end:
            yield from _NAME.finditer(text, start, end)
            start = spot - _NEAR
        end = spot + _NEAR
    yield from _NAME.finditer(text, start, end)


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[", '"')):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(frozen=True)
class Redactor:
    """A masker of secrets. `learn` returns one that knows more, `teach` changes this one."""

    patterns: Sequence[Pattern] = ()
    reveal: bool = False
    """The server's own setting to show everything as it is."""
    _short: frozenset[str] = field(default=frozenset(), repr=False)
    _needles: Needles = field(default=Needles(), repr=False)
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._remember_hash()

    def _remember_hash(self) -> None:
        # What was masked is looked up by its redactor, hundreds of times for a page of events.
        known = hash((tuple(self.patterns), self.reveal, self._short, self._needles))
        object.__setattr__(self, "_hash", known)

    def __hash__(self) -> int:
        return self._hash

    def learn(self, *secrets: str) -> "Redactor":
        """Mask these very texts everywhere, also where they are percent-encoded, JSON-escaped,
        escaped for HTML or part of something in base64.

        Shorter than four characters, one is masked only where it is a whole value.
        """
        known_already = frozenset(self._needles)
        fresh = {secret for secret in secrets if secret and secret not in known_already}
        short = {secret for secret in fresh if len(secret) < SHORTEST}
        known = replace(self, _short=self._short | short) if short else self
        if not fresh - short:
            return known
        spelled = (spellings(secret) for secret in fresh - short)
        return replace(known, _needles=Needles(known_already.union(*spelled)))

    def teach(self, secret: str) -> None:
        """Learn a secret in place, for all who hold this redactor; there is no way back."""
        known = self.learn(secret)
        for name in ("_short", "_needles"):
            object.__setattr__(self, name, getattr(known, name))
        self._remember_hash()

    @overload
    def headers(self, headers: Mapping[str, str]) -> dict[str, str]: ...
    @overload
    def headers(self, headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]: ...
    def headers(
        self, headers: Mapping[str, str] | Sequence[tuple[str, str]]
    ) -> dict[str, str] | list[tuple[str, str]]:
        """Return the same headers in the same order, with the secrets in them masked."""
        if isinstance(headers, Mapping):
            return {name: self.header(name, value) for name, value in headers.items()}
        return [(name, self.header(name, value)) for name, value in headers]

    def header(self, name: str, value: str) -> str:
        """Mask a header's value; scheme, cookie names and cookie attributes stay readable."""
        if self.reveal or not value:
            return value
        match header_rule(name):
            case "plain":
                return self._taught(value)
            case "other":
                return self.text(value)
            case "url":
                return self.url(value)
            case "cookie":
                return self._taught(";".join(map(mask_cookie, value.split(";"))))
            case "set-cookie":
                return self._taught("\n".join(map(mask_set_cookie, value.split("\n"))))
            case "credentials":
                scheme, space, rest = value.partition(" ")
                is_known = rest and scheme.lower() in KNOWN_SCHEMES
                return f"{scheme}{space}{MASK}" if is_known else MASK
            case "secret":
                return MASK

    def url(self, url: str) -> str:
        """Return the URL with its password and secret values of query and fragment masked."""
        return url if self.reveal else self._url_parts(mask_shapes(self._taught(url)))

    def text(self, text: str, content_type: str = "") -> str:
        """Mask a body, log line or console message; JSON stays valid, all else as it was."""
        if self.reveal or not text:
            return text
        text = self._taught(text)
        content_type = content_type.lower()
        if "form-urlencoded" in content_type:
            return self._pairs(mask_shapes(text))
        return self._read(text, _DEEPEST_JSON, is_code="javascript" in content_type)

    def value(self, value: object, keep: frozenset[str] = frozenset()) -> object:
        """Mask dicts, lists, tuples, strings and bytes, all the way down, and nothing else.

        `keep` names keys that hold no secret here, such as `sessionId` in Pilothouse's own logs.
        """
        return value if self.reveal else self._value(value, keep, _DEEPEST)

    def texts(self, value: Any) -> Any:
        """Mask every text in a value by what it is, not by the key that it stands under:
        `sessionId` is no secret in an error. What is neither text nor number becomes text."""
        if isinstance(value, dict):
            return {key: self.texts(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.texts(inner) for inner in value]
        return value if isinstance(value, int | float | None) else self.text(str(value))

    def suspects(self, packed: Sequence[bytes]) -> list[bool]:
        """Tell by a quick look for each of these, the JSON of values, whether there may be
        something to mask."""
        if self.reveal or self._is_taught:
            return [not self.reveal] * len(packed)
        return which_might_hold_secrets(packed)

    @property
    def _is_taught(self) -> bool:
        return bool(self.patterns or self._needles or self._short)

    def taught_in(self, text: str) -> bool:
        """Tell whether a taught secret or a pattern might be in a text; False is certain."""
        return bool(self.patterns or self._short) or any(self._needles.found_in(text))

    def _taught(self, text: str) -> str:
        """Mask learned secrets and the user's own patterns."""
        if text in self._short:
            return MASK
        text = self._needles.mask(text)
        for pattern in self.patterns:
            if pattern.search(text):
                text = _mask_matches(pattern, text)
        return text

    def _url_parts(self, url: str, depth: int = 2) -> str:
        if "@" in url:
            url = _AUTHORITY.sub(_mask_authority, url)
        return "#".join(self._pairs(part, depth) for part in url.split("#"))

    def _pairs(self, text: str, depth: int = 2) -> str:
        """Mask the secret values of `key=value` pairs, as in a query, a fragment or a form."""
        has_nested_url = depth > 0 and any(mark in text for mark in ("%3D", "%3d", "%40"))
        keys = PAIR_KEYS.findall(text)
        state = state_beside(keys)

        def is_secret(key: str) -> bool:
            return is_secret_query_key(key) or (state == "any" and is_state(key))

        has_secret = bool(state) or any(map(is_secret, keys))
        if not (has_secret or has_nested_url or self._short):
            return text

        def masked(pair: re.Match[str]) -> Edit | None:
            if is_secret(pair[2]):
                # A password may have a question mark; a session id in the path ends before one.
                value = (_PATH_VALUE if pair[1] == ";" else _SECRET_VALUE).match(text, pair.end())
                return (*value.span(), MASK) if value else None
            value = _PATH_VALUE.match(text, pair.end())
            if value and unquote_plus(value[0]) in self._short:
                return *value.span(), MASK
            if value and is_secret_state(pair[2], value[0], state):
                return *value.span(), MASK
            if value and has_nested_url and "%" in value[0]:
                inner = unquote(value[0])
                safe = self._url_parts(inner, depth - 1)
                return (
                    None
                    if safe == inner
                    else (*value.span(), quote(safe, safe="", errors="replace"))
                )
            return None

        return _edited(text, _PAIR.finditer(text), masked)

    def _may_hold_pairs(self, text: str) -> bool:
        return may_hold_secrets(text) or (bool(self._short) and PAIR_MARK.search(text) is not None)

    def _mask_pairs(self, text: str) -> str:
        """Mask the queries and forms in a text; of one that is a form as a whole also quotes."""
        if is_form(text):
            return self._pairs(text)
        out: list[str] = []
        done = 0
        for start, end in runs_of_pairs(text):
            run = text[start:end]
            is_escaped = ESCAPED in run and "&" not in run
            safe = self._url_parts(run.replace(ESCAPED, "&") if is_escaped else run)
            out += (text[done:start], safe.replace("&", ESCAPED) if is_escaped else safe)
            done = end
        return "".join((*out, text[done:]))

    def _read(self, text: str, depth: int, is_code: bool = False) -> str:
        # In source code both names are variables.
        if not is_code:
            text = mask_oauth(text)
        spots = _spots(text)
        # In source code `a?b=c:d` is a choice.
        has_pairs = not is_code and "=" in text and self._may_hold_pairs(text)
        if not (spots or has_pairs or self._short):
            return text
        if depth and _is_json(text):
            if has_pairs:
                spots = sorted((*spots, *(mark.start() for mark in PAIR_MARK.finditer(text))))
            return self._read_json(text, spots, depth - 1)
        # Shapes go first: a name that holds one must look the same when it is read again.
        text = mask_shapes(text)
        if "://" in text:
            urls = _URL_REST.finditer(text)
            text = _edited(text, urls, lambda url: (*url.span(), self._url_parts(url[0])))
        if has_pairs:
            text = self._mask_pairs(text)
        if not (spots or self._short):
            return text
        if "<" in text:
            text = _ELEMENT.sub(mask_named, _TAG.sub(mask_tag, text))
        if "form-data" in text:
            text = _PART.sub(mask_named, text)
        # In source code `token=next()` is an assignment, and masking it would hide the program.
        edit = self._mask_quoted if is_code else self._mask_value
        return _edited(text, _NAME.finditer(text) if self._short else _names_in(text), edit)

    def _read_json(self, text: str, spots: list[int], depth: int) -> str:
        """Mask each string on its own, so that no mask reaches beyond its quotes."""

        def masked(token: re.Match[str]) -> Edit | None:
            spot = bisect_left(spots, token.start())
            if not self._short and (spot == len(spots) or spots[spot] >= token.end()):
                return None
            raw = token[1]
            content: str = json.loads(f'"{raw}"') if "\\" in raw else raw
            if token[2]:
                return mask_under(content, text, token.end())
            record = _RECORD_VALUE.match(text, token.end())
            if record and text.endswith(('"name":', '"name": '), 0, token.start()):
                return mask_under(content, text, record.end())
            safe = MASK if content in self._short else self._read(content, depth)
            quoted = json.dumps(safe, ensure_ascii="\\u" in raw or raw.isascii())
            return None if safe == content else (token.start(), token.end(), quoted)

        return _edited(text, _JSON_STRING.finditer(text), masked)

    def _mask_value(self, name: re.Match[str]) -> Edit | None:
        """Mask the value after a quoted key, a header's name, a bare key or a scheme."""
        text, start = name.string, name.end()
        if name["quoted"]:
            return self._mask_quoted(name)
        if name["scheme"]:
            return mask_scheme(name["scheme"], text, start)
        header = name["header"] or ""
        is_header = "-" in header or header.lower() in ("authorization", "cookie", "location")
        if is_header and header_rule(header) not in ("plain", "other"):
            value = _HEADER_VALUE.match(text, start)
            return (*value.span(), self.header(header, value[0])) if value else None
        return mask_bare(name["bare"] or header, name["sign"] or ":", text, start)

    def _mask_quoted(self, name: re.Match[str]) -> Edit | None:
        """Mask a string in JSON, also in a JSON string, or a Python or JavaScript literal."""
        key, mark, text, start = name["quoted"], name["mark"], name.string, name.end()
        if key and (change := mask_under(key, text, start, mark)):
            return change
        if key and self._short and (opening := OPENING_QUOTE.match(text, start)):
            end, _ = string_end(text, opening.end(), opening[0])
            if text[opening.end() : end] in self._short:
                return opening.end(), end, MASK
        return None

    def _value(self, value: object, keep: frozenset[str], depth: int) -> object:
        if depth == 0:
            return MASK
        match value:
            case str():
                return self.text(value)
            case bytes():
                text = value.decode("utf-8", "surrogateescape")
                return self.text(text).encode("utf-8", "surrogateescape")
            case Mapping():
                return {
                    key: self._entry(key, item, value, keep, depth) for key, item in value.items()
                }
            case list():
                masked = [self._value(item, keep, depth - 1) for item in value]
                return _mask_oauth_state(masked) if _are_records(value) else masked
            case tuple():
                return tuple(self._value(item, keep, depth - 1) for item in value)
            case _:
                return value

    def _entry(
        self,
        key: object,
        item: object,
        parent: Mapping[object, object],
        keep: frozenset[str],
        depth: int,
    ) -> object:
        name = parent.get("name") if key == "value" else key  # HAR: {"name": ..., "value": ...}
        if not isinstance(name, str) or name in keep:
            return self._value(item, keep, depth - 1)
        if isinstance(item, str):
            rule = header_rule(name)
            if rule in ("credentials", "cookie", "set-cookie"):
                return self.header(name, item)
            is_record = key == "value" and (rule == "secret" or is_secret_query_key(name))
            if item and (is_record or is_secret_key(name)):
                return MASK
            return self.url(item) if name.lower() in URL_KEYS else self.text(item)
        if is_secret_key(name) and not is_holder(name):
            return _mask_leaves(item, depth - 1, numbers=not is_count(name))
        return self._value(item, keep, depth - 1)


def _are_records(values: list[Any]) -> bool:
    first = values[0] if values else None
    return isinstance(first, Mapping) and "name" in first and "value" in first


def _mask_oauth_state(records: list[Any]) -> list[Any]:
    """Mask the `state` of a query or a form in the records of HAR, as in its text."""
    pairs = [one for one in records if isinstance(one, dict) and "value" in one]
    state = state_beside(str(one.get("name")) for one in pairs)
    for one in pairs if state else ():
        if one["value"] and is_secret_state(str(one.get("name")), str(one["value"]), state):
            one["value"] = MASK
    return records


def _mask_matches(pattern: Pattern, text: str) -> str:
    def masked(match: re.Match[str]) -> str:
        start, end = match.span()
        is_in_a_mask = text.find(MASK, max(0, end - len(MASK)), start + len(MASK)) >= 0
        return text[start:end] if start == end or is_in_a_mask else MASK

    return pattern.sub(masked, text)


def _mask_authority(match: re.Match[str]) -> str:
    userinfo, at, host = match[1].rpartition("@")
    user, colon, password = userinfo.partition(":")
    if not colon:
        return match[0]
    # Without a password the user name is the key, as in https://sk_live_...:@api.example
    kept = f"{user}:{_MASK_IN_USERINFO}" if password else f"{_MASK_IN_USERINFO}:"
    return f"://{kept}{at}{host}"


def _mask_leaves(value: object, depth: int, numbers: bool) -> object:
    """Mask all below a secret key but its structure; flags and nulls tell nothing, and stay."""
    match value:
        case None | bool() | "":
            return value
        case int() | float():
            return MASK if numbers else value
        case Mapping() if depth:
            is_cookie = "name" in value and "value" in value  # path and expiry are no secrets
            return {
                key: item
                if is_cookie and key != "value"
                else _mask_leaves(item, depth - 1, numbers)
                for key, item in value.items()
            }
        case list() | tuple() if depth:
            return [_mask_leaves(item, depth - 1, numbers) for item in value]
        case _:
            return MASK

"""What holds of masking whatever the text: it is idempotent, keeps JSON, and is linear."""

import json
import time
from importlib import import_module

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pilothouse.core.secrets.names import is_secret_key
from pilothouse.core.secrets.queries import PAIR_MARK
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.secrets.shapes import MASK
from tests.support.rounds import IS_SOAK, examples
from tests.unit.core.secrets.test_redactor import NAMED_PLACES, SECRET_KEYS, SHAPES

REDACTOR = Redactor()
FORM = "application/x-www-form-urlencoded"
re2 = import_module("re2")  # it has no type stubs

_FRAGMENTS = st.sampled_from(
    [
        *(place.replace("{{", "{").replace("}}", "}") for place in NAMED_PLACES.values()),
        *SHAPES.values(),
        *SECRET_KEYS[:12],
        *"\"'\\=&?#;:@<>[]{},./ \n-",
        *('\\"', "://", "%3D", "%40", "Bearer ", "Basic ", "Cookie: ", "\r\n", "12", "[redac"),
        *("password=", "token: ", '"token":', "-----BEGIN PRIVATE KEY-----", "form-data; name="),
        *(MASK, "ed]", "%5Bredacted%5D"),
        *("state=", '"state":"', "1a2b3c4d", "code%3D", "&error=", " "),
        *("?code=", "&state=", "code=", "&a=1", "?a=b&", "\\u0026a="),
    ]
)  # fmt: skip
_TEXTS = st.lists(_FRAGMENTS | st.text(max_size=4), max_size=12).map("".join)


@given(_TEXTS)
@example("token=[redacted]x&token=[redacted]")
@settings(max_examples=examples(400))
def test_masking_twice_changes_nothing(text: str) -> None:
    for redactor in (REDACTOR, REDACTOR.learn("acted] ").learn("ab")):
        for mask in (
            redactor.text,
            redactor.url,
            lambda t, r=redactor: r.text(t, FORM),
            lambda t, r=redactor: r.header("Cookie", t),
            lambda t, r=redactor: r.header("Set-Cookie", t),
            lambda t, r=redactor: r.header("Authorization", t),
            lambda t, r=redactor: r.header("X-Other", t),
        ):
            once = mask(text)
            assert mask(once) == once


class Thorough(Redactor):
    """A redactor that reads every pair, without asking first whether one might be secret."""

    def _may_hold_pairs(self, text: str) -> bool:
        return PAIR_MARK.search(text) is not None


_PAIRS = st.sampled_from(
    [
        *("?", "&", "=", "#", "'", '"', "\\", " ", "/", ":", ";", ".", "[", "]", "%", "\\u0026"),
        *("\n", "\t", "\r", "\f", "\b", "\\n", "\\b"),
        *("code", "state", "client_id", "token", "x-sig", "Key", "a", "%74oken", "to", "ken", "1"),
        *("?q=1&", "&code=", "state=", "?next=%2Fa%3Ftoken%3Db", "it's", "\\u0074oken"),
    ]
)


@given(st.lists(_PAIRS, max_size=16).map("".join) | _TEXTS)
@example("a=1&code'=2")
@example("see x'code=1&a=2")
@example("?client_id=1&state=2")
@example("hello\ncode=1&x=1")
@example("hello\bcode=1&x=1")
@settings(max_examples=examples(2_000))
def test_asking_first_whether_a_pair_might_be_secret_misses_none(text: str) -> None:
    for shown in (text, json.dumps([text, text]), json.dumps({"a": text}, ensure_ascii=False)):
        assert REDACTOR.text(shown) == Thorough().text(shown)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | _FRAGMENTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from("a token tokens auth name x.y code state".split()), inner)
    ),
    max_leaves=12,
)


@given(_JSON, st.sampled_from([None, 2]))
@settings(max_examples=examples(200))
def test_masked_json_is_still_json_of_the_same_structure(value: object, indent: int | None) -> None:
    masked = json.loads(REDACTOR.text(json.dumps(value, indent=indent)))
    assert _outline(masked) == _outline(value)


def _outline(value: object) -> object:
    match value:
        case dict():
            return {key: _outline(item) for key, item in value.items()}
        case list():
            return [_outline(item) for item in value]
        case _:
            return None


LONG_TEXT = 1_000_000 if IS_SOAK else 200_000
HOSTILE = [
    "eyJ", "eyJa.", "-----BEGIN PRIVATE KEY-----", '\\"', "\\", '"\\"', '"password":"',
    '"token":\\"', '"tokens":[', "token:token:", ";sid=a?", "?a=1", "&a=%3D", "Bearer+", "Basic+",
    "<input ",
    "<password>", 'form-data; name="password"\r\n', "\nX-Api-Key: ", "://a:b@", "sk-", "SG.", "a-",
    "?code=", "?a=1&", "a=1&b=2 ", "a=&", "&code=", "(a=", "?", "&", "code=1&state=2 ", "a=b;&c=",
    "\\u0026a=1",
    'code="state=', "state=code:\\", "code%3Dstate%3D", "code=a1 state=1a2b3c4d\n",
    '"name":"token","value":', MASK, "\u0130", " ", "set-cookie: a=b;",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """Less than a second, but many minutes with a pattern that backtracks."""
    text = unit * (LONG_TEXT // len(unit))
    redactor = REDACTOR.learn("hunter2").learn("ab")
    started = time.process_time()
    redactor.text(text)
    part = text[:100_000]
    redactor.text(json.dumps([part, *[unit] * 1000]))
    redactor.text(part, FORM)
    redactor.url(part)
    redactor.header("Set-Cookie", part)
    assert time.process_time() - started < 60


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_secret_keys_are_known_by_name(key: str) -> None:
    assert is_secret_key(key)

"""The quick look never waves through what the close look would mask."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.regex import compile_pattern
from pilothouse.core.secrets.prefilter import might_hold_secret
from pilothouse.core.secrets.redactor import Redactor

REDACTOR = Redactor()
NAMES = (
    "token password passwd pass pw apiKey API_KEY api-key sessionId SID auth au_th cookie jwt "
    "clientSecret access_to_ken csrf-token otp cvv X-Amz-Signature code hmac ticket name id"
).split()
VALUES = (
    "hunter22",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefgh",
    "ghp_abcdefghijklmnopqrstuvwxyz0123",
    "Bearer abcdefghijklmnopqrstuvwxyz",
    "https://user:pw@example.test/",
    "https://example.test/?code=abcdef&state=1",
    "GET /?code=abcdef&state=1",
    "code=abcdef&page=1",
    "line 12 {a: 12}",
    "something happened to the cart",
)


def packed(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


@settings(deadline=None)
@given(
    st.recursive(
        st.sampled_from(VALUES) | st.text(max_size=12) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_what_passes_is_what_the_close_look_leaves_alone(value: object) -> None:
    if REDACTOR.suspects([packed(value)]) == [False]:
        assert REDACTOR.value(value) == value


@given(st.sampled_from(NAMES[:-2]), st.sampled_from((": ", "=", '": "')))
def test_a_named_secret_in_a_line_is_never_waved_through(name: str, sign: str) -> None:
    line = f"request failed {name}{sign}hunter2222"
    if REDACTOR.text(line) != line:
        assert might_hold_secret(packed([line]))


@pytest.mark.parametrize(
    "plain",
    [["line", 12, {"a": 12}], "round 7 of the mix", "at http://127.0.0.1:5173/src/app.js:10:4"],
)
def test_plain_lines_need_no_close_look(plain: object) -> None:
    assert not might_hold_secret(packed(plain))


def test_own_patterns_and_learned_secrets_always_ask_for_the_close_look() -> None:
    plain = packed("round 7")
    assert REDACTOR.suspects([plain]) == [False]
    assert Redactor(patterns=(compile_pattern("round"),)).suspects([plain]) == [True]
    assert REDACTOR.learn("round 7").suspects([plain]) == [True]
    assert REDACTOR.learn("7").suspects([plain]) == [True]


@pytest.mark.parametrize("space", ["", " ", "\t"])
def test_oauth_fields_that_are_set_apart_by_white_space_are_not_waved_through(space: str) -> None:
    line = f"code{space}=4a0AbCd3fGh1\tstate{space}=9fk2LmN4pQ7"
    assert REDACTOR.text(line) != line
    assert REDACTOR.suspects([packed([line])]) != [False]

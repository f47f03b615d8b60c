"""Page sizes and cursors: clamping is told, and only our own cursors come back."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.paging import Limit, decode_cursor, encode_cursor, estimated_tokens
from tests.support.rounds import examples


@pytest.mark.parametrize(
    ("asked", "used"), [(1, 1), (200, 200), (1_000, 1_000), (1_001, 1_000), (0, 1), (-5, 1)]
)
def test_a_limit_is_clamped_and_says_so(asked: int, used: int) -> None:
    limit = Limit(asked, 1_000)
    assert limit.used == used
    if asked == used:
        assert limit.note == ""
    else:
        assert f"limit {asked} was clamped to {used}" in limit.note


@settings(max_examples=examples(100))
@given(st.dictionaries(st.text(max_size=8), st.integers(0, 2**63), max_size=6))
def test_a_cursor_comes_back_as_it_was(position: dict[str, int]) -> None:
    cursor = encode_cursor(position)
    assert decode_cursor(cursor) == position
    assert cursor.isascii()
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), (
        "safe in a URL and in JSON"
    )


def forged(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "!!!",
        "ü",
        "null",
        forged(None),
        forged([]),
        forged(7),
        forged({"console": -1}),
        forged({"console": "1"}),
        forged({"console": 1.5}),
        forged({"console": True}),
        forged({"console": None}),
        forged({"console": {"network": 1}}),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        base64.urlsafe_b64encode(b'{"a":' + b"9" * 5_000 + b"}").decode(),
    ],
    ids=lambda text: text[:20] or "empty",
)
def test_what_is_no_cursor_of_ours_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        decode_cursor(text)
    assert caught.value.details["field"] == "cursor"
    assert "leave cursor out" in caught.value.hint


@settings(max_examples=examples(200))
@given(st.text(max_size=40))
@example("e30")
def test_any_text_is_a_position_or_a_clear_refusal(text: str) -> None:
    try:
        numbers = list(decode_cursor(text).values())
    except InvalidInput as fault:
        numbers = [80 - len(str(fault.details["received"]))]
    assert all(isinstance(number, int) and number >= 0 for number in numbers)


def test_four_characters_are_a_token() -> None:
    assert [estimated_tokens("x" * n) for n in (0, 1, 4, 5, 400)] == [0, 1, 1, 2, 100]

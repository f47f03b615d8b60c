"""Patterns that may be slow: the same matches as ever, or none in time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.regex import compile_pattern
from pilothouse.intercept.replay.bounded_regex import MOST_GROWN, TooCostly, check_growth, matches
from tests.support.rounds import examples

QUADRATIC = "(a.*!)|a"
"""Each of its matches looks at all that is left of the line."""


@settings(max_examples=examples(50))
@given(
    pattern=st.sampled_from(["a", "a*", "(a)|b", "^.", "(?m)$", "nothing"]),
    text=st.text("ab\n").map(lambda text: (text * 3_000)[:6_000].encode()),
)
def test_the_matches_are_those_of_the_pattern(pattern: str, text: bytes) -> None:
    compiled = compile_pattern(pattern)
    found = [match.span() for match in matches(compiled, text)]
    assert found == [match.span() for match in compiled.finditer(text)]


def test_matches_that_each_look_at_everything_are_given_up() -> None:
    with pytest.raises(TooCostly):
        list(matches(compile_pattern(QUADRATIC), b"a" * 1_000_000))


def test_many_matches_are_no_reason_to_give_up() -> None:
    assert sum(1 for _ in matches(compile_pattern("a"), b"a" * 200_000)) == 200_000


def test_a_text_may_not_grow_beyond_all_bounds() -> None:
    check_growth(10, MOST_GROWN)
    check_growth(2 * MOST_GROWN, 2 * MOST_GROWN)
    with pytest.raises(TooCostly, match="would grow from 10"):
        check_growth(10, MOST_GROWN + 1)

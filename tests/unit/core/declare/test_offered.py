"""What is said to a model: only what it can do."""

from __future__ import annotations

import pytest

from pilothouse.core.declare.offered import Words, calls_in, is_offered, offered_text


def test_a_line_that_names_a_tool_which_is_not_served_is_left_out() -> None:
    lines = ["Begin.", "Use `find`.", "Use `find`, then `click`.", "End."]
    assert offered_text(lines, {"find"}) == "Begin.\nUse `find`.\nEnd."


def test_of_several_lines_the_first_that_can_be_said_is() -> None:
    lines = [("Both `a` and `b`.", "Only `a`.", "Neither."), ("Only `b`.",)]
    assert offered_text(lines, {"a", "b"}) == "Both `a` and `b`.\nOnly `b`."
    assert offered_text(lines, {"a"}) == "Only `a`."
    assert offered_text(lines, ()) == "Neither."


def test_lists_from_a_file_are_read_like_tuples() -> None:
    assert offered_text([["Use `a`.", "Nothing."]], {"b"}) == "Nothing."


def test_steps_are_numbered_without_a_gap() -> None:
    lines = ["Do this:", "1. one", "1. `gone`", "   more", "1. two"]
    assert offered_text(lines, ()) == "Do this:\n1. one\n   more\n2. two"


@pytest.mark.parametrize("typed", ["`rm`", "1. `x`", "`find {}`", "a ` b"])
def test_what_a_user_typed_is_never_left_out(typed: str) -> None:
    assert offered_text([Words(f"Look at: {typed}")], ()) == f"Look at: {typed}"


def test_calls_are_found_with_their_arguments() -> None:
    text = 'First `a`, then `b {"x": {"y": 1}}`, and `c {}`; `no-name` and `two words` are none.'
    assert calls_in(text) == [("a", ""), ("b", '{"x": {"y": 1}}'), ("c", "{}")]


def test_a_prompt_is_offered_where_one_of_its_tools_is() -> None:
    assert is_offered(("a", "b"), {"b", "c"})
    assert not is_offered(("a", "b"), {"c"})

"""Cutting bytes into lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.ipc.lines import Splitter


@given(st.lists(st.binary(max_size=20).map(lambda part: part.replace(b"x", b"\n"))))
def test_lines_are_the_same_however_the_bytes_came(pieces: list[bytes]) -> None:
    splitter = Splitter()
    lines = [line for piece in pieces for line in splitter.take(piece)]
    assert [*lines, splitter.rest()] == b"".join(pieces).split(b"\n")


def test_of_a_line_that_is_too_long_no_more_than_the_limit_is_kept() -> None:
    splitter = Splitter(4)
    assert splitter.take(b"123") == []
    assert splitter.take(b"456789") == []
    assert splitter.take(b"\nabcdefg\nhi") == [b"1234", b"abcd"]
    assert splitter.take(b"") == []
    assert splitter.rest() == b"hi"

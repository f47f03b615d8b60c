"""Bookmarks files of any shape."""

from __future__ import annotations

from hypothesis import strategies as st

from pilothouse.bookmarks.files.node import Saved

TITLES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=20).map(
    str.strip
)
TIMES = st.one_of(st.none(), st.integers(1, 99_999_999_999).map(lambda s: s * 1000.0))
MARKS = st.builds(
    Saved, TITLES, st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])), TIMES
)
TREES = st.lists(
    st.recursive(
        MARKS,
        lambda inner: st.builds(
            Saved,
            TITLES,
            added=TIMES,
            modified=TIMES,
            kind=st.sampled_from(["", "", "bookmarks-bar", "other"]),
            children=st.lists(inner, max_size=3),
        ),
        max_leaves=15,
    ),
    max_size=4,
)

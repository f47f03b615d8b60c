"""Names of the tables of the text index."""

from __future__ import annotations

from pilothouse.intercept.history.segments import segments, tables


def test_segments_are_known_by_their_tables_alone() -> None:
    names = ["packets", "url_1", "text_1", "text_1_data", "gone_url_1", "url_900", "text_900"]
    assert segments([*names, "url_50", "text_50", "text_x", "xtext_7"]) == [1, 50, 900]
    assert segments([]) == []
    assert segments(tables(7)) == [7]
    assert tables(7) == ["url_7", "text_7"]

"""Bookmarks files of browsers, as they really are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.bookmarks.files.netscape import is_netscape, read_netscape, write_netscape
from pilothouse.bookmarks.files.node import DEEPEST, Saved, every
from pilothouse.core.declare.faults import InvalidInput
from tests.unit.bookmarks.saved_trees import TREES

if TYPE_CHECKING:
    from collections.abc import Sequence

CHROME = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<!-- This is an automatically generated file.
     It will be read and overwritten.
     DO NOT EDIT! -->
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks</H1>
<DL><p>
    <DT><H3 ADD_DATE="1700000000" LAST_MODIFIED="1700000100"
        PERSONAL_TOOLBAR_FOLDER="true">ブックマーク バー</H3>
    <DL><p>
        <DT><A HREF="https://example.com/?a=1&amp;b=2" ADD_DATE="1700000001"
            ICON="data:image/png;base64,iVBORw0KGgo=">Q&amp;A &lt;here&gt;</A>
        <DT><H3 ADD_DATE="1700000002" LAST_MODIFIED="0">空のフォルダ</H3>
        <DL><p>
        </DL><p>
        <DT><H3 ADD_DATE="1700000003" LAST_MODIFIED="1700000004">読み物</H3>
        <DL><p>
            <DT><A HREF="https://ja.wikipedia.org/wiki/%E6%9C%AC" ADD_DATE="1700000005"
                >本 - Wikipedia</A>
        </DL><p>
    </DL><p>
    <DT><A HREF="https://other.example/" ADD_DATE="1700000006">Other</A>
</DL><p>
"""

FIREFOX = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'self'; script-src 'none'; img-src data: *; object-src 'none'"></meta>
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks Menu</H1>

<DL><p>
    <DT><A HREF="https://www.mozilla.org/" ADD_DATE="1700000000" LAST_MODIFIED="1700000001"
        ICON_URI="https://x/f.ico" ICON="data:," SHORTCUTURL="moz" TAGS="a,b">Mozilla</A>
    <DD>A description that is
    no title
    <HR>
    <DT><H3 ADD_DATE="1700000002" PERSONAL_TOOLBAR_FOLDER="true">Bookmarks Toolbar</H3>
    <DD>Add bookmarks to this folder
    <DL><p>
        <DT><A HREF="place:sort=8&maxResults=10">Most Visited</A>
        <DT><A HREF="https://en.example/?x=1&y=2">Caf&eacute; &#12450; &amp; bar</A>
    </DL><p>
    <DT><H3 UNFILED_BOOKMARKS_FOLDER="true">Other Bookmarks</H3>
    <DL><p>
        <DT><A HREF="https://last.example/">Last</A>
    </DL>
</DL>
"""


def outline(saved: Sequence[Saved]) -> list[object]:
    return [
        one.title if one.url is not None else (one.title, outline(one.children)) for one in saved
    ]


def test_an_export_of_chrome_is_read_with_folders_entities_and_dates() -> None:
    assert is_netscape(CHROME)
    saved = read_netscape(CHROME)
    assert outline(saved) == [
        ("ブックマーク バー", ["Q&A <here>", ("空のフォルダ", []), ("読み物", ["本 - Wikipedia"])]),
        "Other",
    ]
    bar = saved[0]
    assert (bar.kind, bar.added, bar.modified) == (
        "bookmarks-bar",
        1_700_000_000_000,
        1_700_000_100_000,
    )
    assert bar.children[0].url == "https://example.com/?a=1&b=2"
    assert bar.children[1].modified is None


def test_an_export_of_firefox_is_read_without_descriptions_and_separators() -> None:
    saved = read_netscape(FIREFOX)
    assert outline(saved) == [
        "Mozilla",
        ("Bookmarks Toolbar", ["Most Visited", "Café ア & bar"]),
        ("Other Bookmarks", ["Last"]),
    ]
    assert [one.kind for one in saved] == ["", "bookmarks-bar", "other"]
    assert saved[1].children[1].url == "https://en.example/?x=1&y=2"


def test_links_and_lists_that_are_not_closed_are_read_all_the_same() -> None:
    text = "<DL><DT><H3>F</H3><DL><DT><A HREF=https://a.example>A<DT><A HREF='https://b.example'>B"
    assert outline(read_netscape(text)) == [("F", ["A", "B"])]


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("1700000000", 1_700_000_000_000),
        ("1700000000000", 1_700_000_000_000),
        ("1700000000000000", 1_700_000_000_000),
        ("0", None),
        ("", None),
        ("-5", None),
        ("yesterday", None),
        ("9" * 40, None),
    ],
)
def test_dates_in_seconds_milli_and_microseconds(date: str, expected: float | None) -> None:
    (one,) = read_netscape(f'<DL><DT><A HREF="https://a.example" ADD_DATE="{date}">A</A></DL>')
    assert one.added == expected


def test_no_file_makes_the_reader_run_out_of_stack() -> None:
    with pytest.raises(InvalidInput, match="nested deeper"):
        read_netscape("<DL><DT><H3>x</H3>" * (DEEPEST + 1))


def test_other_html_is_not_taken_for_bookmarks() -> None:
    assert not is_netscape("<html><body><p>Hello</p></body></html>")
    assert read_netscape("<html><body><p>Hello</p></body></html>") == []


@given(TREES)
def test_what_is_written_is_read_as_it_was(saved: list[Saved]) -> None:
    assert read_netscape(write_netscape(saved)) == saved


@given(st.text("<>/&\"' =adlhtpr3#;x\n", max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    for one in every(read_netscape(text)):
        assert one.url is None or not one.children


def test_a_written_file_is_one_that_browsers_know() -> None:
    text = write_netscape([Saved("F", children=[Saved('a"<b', 'https://x.example/?"', 1e12)])])
    assert text.startswith("<!DOCTYPE NETSCAPE-Bookmark-file-1>\n")
    assert '<DT><A HREF="https://x.example/?&quot;" ADD_DATE="1000000000">a"&lt;b</A>' in text

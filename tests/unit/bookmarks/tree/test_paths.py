"""Paths as addresses: how they are written and read, and what they lead to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.bookmarks.model import AmbiguousPath, BookmarkNotFound
from pilothouse.bookmarks.tree.paths import (
    DEEPEST,
    find,
    format_path,
    is_id,
    locate,
    parse_path,
    root_name,
)
from pilothouse.core.declare.faults import InvalidInput
from tests.support.chrome_bookmarks import BAR, OTHER, ChromeBookmarks

SITE = "https://example.com/"
TITLES = st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=1, max_size=5)


def chrome() -> ChromeBookmarks:
    return ChromeBookmarks(
        [
            {"title": "Tech", "children": [{"title": "AI", "children": []}]},
            {"title": "Twice", "children": []},
            {"title": "Twice", "children": []},
            {"title": "a > b", "children": [{"title": "Page", "url": SITE}]},
            {"title": "Page", "url": SITE},
        ]
    )


@given(TITLES)
def test_a_path_is_read_as_it_was_written(titles: list[str]) -> None:
    assert parse_path(format_path(titles)) == titles


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("Bar > Tech > AI", ["Bar", "Tech", "AI"]),
        ("Bar>Tech", ["Bar", "Tech"]),
        ("  Bar  >  Two words  ", ["Bar", "Two words"]),
        ('Bar > "a > b"', ["Bar", "a > b"]),
        (r'Bar > "say \"hi\" \\ "', ["Bar", 'say "hi" \\ ']),
        ('Bar > 5" disks', ["Bar", '5" disks']),
        ('Bar > ""', ["Bar", ""]),
        ("Bar > 読み物", ["Bar", "読み物"]),
    ],
)
def test_blanks_around_titles_do_not_count_and_quotes_keep_everything(
    text: str, titles: list[str]
) -> None:
    assert parse_path(text) == titles


@pytest.mark.parametrize("text", ["", "  ", "Bar >", "> Tech", "Bar > > AI", 'Bar > "open', '"a"b'])
def test_a_path_with_a_hole_or_an_open_quote_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="character"):
        parse_path(text)


def test_only_digits_are_an_id() -> None:
    assert is_id("42")
    assert not any(map(is_id, ("", "Bar", "4 2", "-1", "\u0664\u0662", "Bar > 42")))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("address", "title"),
    [
        ("Bar > Tech", "Tech"),
        ("bookmarks bar > Tech > AI", "AI"),
        ('BAR > "a > b" > Page', "Page"),
    ],
)
async def test_a_path_leads_to_the_node_of_these_titles(address: str, title: str) -> None:
    peer = chrome()
    (node,) = peer.get({"ids": [await find(peer, address)]})
    assert node["title"] == title


@pytest.mark.anyio
async def test_the_roots_are_found_by_their_type_in_a_chrome_that_speaks_german() -> None:
    peer = chrome()
    assert await find(peer, "Bar") == BAR
    assert await find(peer, "Other") == OTHER
    with pytest.raises(BookmarkNotFound, match="none of Chrome's own") as failed:
        await find(peer, "Lesezeichenleiste > Tech")
    assert "Bar, Other" in failed.value.hint


def test_an_old_chrome_tells_its_folders_by_their_ids_alone() -> None:
    assert root_name({"id": "1", "title": "ブックマーク バー"}) == "Bar"
    assert root_name({"id": "3", "title": "モバイル"}) == "Mobile"
    assert root_name({"id": "7", "title": "Own"}) == "Own"


@pytest.mark.anyio
async def test_an_id_is_taken_without_asking_chrome() -> None:
    peer = chrome()
    assert await find(peer, "99999") == "99999"
    assert not [call for call in peer.calls if call[0].startswith("get")]


@pytest.mark.anyio
async def test_two_folders_of_one_path_are_told_with_their_ids() -> None:
    peer = chrome()
    with pytest.raises(AmbiguousPath) as failed:
        await find(peer, "Bar > Twice")
    ids: Any = failed.value.details["ids"]
    assert len(ids) == 2
    assert all(peer.get({"ids": [id]})[0]["title"] == "Twice" for id in ids)


@pytest.mark.anyio
async def test_a_bookmark_is_no_folder_on_the_way_nor_where_one_is_wanted() -> None:
    peer = chrome()
    with pytest.raises(BookmarkNotFound):
        await find(peer, "Bar > Page", folder=True)
    with pytest.raises(BookmarkNotFound):
        await find(peer, "Bar > Page > Below")


@pytest.mark.anyio
async def test_a_misspelt_title_is_told_with_the_nearest_one() -> None:
    with pytest.raises(BookmarkNotFound) as failed:
        await find(chrome(), "Bar > Tec > AI")
    assert failed.value.details["nearest"] == ["Tech"]
    assert failed.value.details["lastFound"] == BAR


@pytest.mark.anyio
async def test_a_place_says_what_is_missing_below_it() -> None:
    peer = chrome()
    place = await locate(peer, "Bar > Tech > New > Newer", field="parentId")
    assert place.id == await find(peer, "Bar > Tech")
    assert place.missing == ("New", "Newer")


@pytest.mark.anyio
async def test_a_path_deeper_than_chrome_can_show_is_refused() -> None:
    chrome = ChromeBookmarks()
    with pytest.raises(InvalidInput, match="more than 98 folders"):
        await locate(chrome, "Bar" + " > x" * (DEEPEST - 1), field="parentId")
    assert chrome.calls == []
    assert (
        len((await locate(chrome, "Bar" + " > x" * (DEEPEST - 2), field="parentId")).missing) == 96
    )

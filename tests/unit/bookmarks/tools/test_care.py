"""Duplicates and dead links, as a model reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.bookmarks.model import BookmarkNotFound
from pilothouse.bookmarks.tools.care import bookmark_check_links, bookmark_find_duplicates
from tests.support.bookmarking import Bookmarking
from tests.support.chrome_bookmarks import ChromeBookmarks

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def rig(tmp_path: Path) -> Bookmarking:
    tree: list[dict[str, Any]] = [
        {
            "title": "Tech",
            "children": [
                {"title": "One", "url": "https://a.example/?token=abc123"},
                {"title": "Two", "url": "https://a.example/?token=abc123&utm_source=x"},
                {"title": "Setting", "url": "chrome://settings/"},
            ],
        },
        {"title": "Three\u202e", "url": "http://www.a.example/?token=abc123"},
        {"title": "Blocked", "url": "http://10.1.2.3/"},
    ]
    return Bookmarking(ChromeBookmarks(tree).of_one_moment(), tmp_path)


async def test_duplicates_come_with_folders_and_what_could_go(rig: Bookmarking) -> None:
    answer = await rig.ask(bookmark_find_duplicates)
    (group,) = answer.structured["groups"]
    assert [one["folder"] for one in group["bookmarks"]] == ["Bar", "Bar > Tech", "Bar > Tech"]
    assert group["keep"] == rig.chrome.find("Three\u202e")
    assert len(group["remove"]) == answer.structured["extra"] == 2
    assert "1 pages are bookmarked more than once" in answer.text
    assert "utm_" in answer.structured["same"]


async def test_what_pages_wrote_stands_in_the_fence_and_masked(rig: Bookmarking) -> None:
    answer = await rig.ask(bookmark_find_duplicates)
    ours, fenced = answer.text.split("<data ", 1)
    assert "Three" not in ours
    assert "Three\\u202e" in fenced
    assert "abc123" not in answer.text + str(answer.structured)


async def test_a_folder_limits_the_search_and_keeps_whole_paths(rig: Bookmarking) -> None:
    shown = await rig.call(bookmark_find_duplicates, folderId="Bar > Tech")
    (group,) = shown["groups"]
    assert {one["folder"] for one in group["bookmarks"]} == {"Bar > Tech"}
    assert shown["extra"] == 1
    assert (await rig.call(bookmark_find_duplicates, strict=True))["total"] == 0


async def test_no_duplicates_is_said_without_a_quote(tmp_path: Path) -> None:
    answer = await Bookmarking(ChromeBookmarks(), tmp_path).ask(bookmark_find_duplicates)
    assert answer.text.startswith("0 pages")
    assert "<data" not in answer.text


async def test_an_unknown_folder_is_told(rig: Bookmarking) -> None:
    with pytest.raises(BookmarkNotFound):
        await rig.call(bookmark_find_duplicates, folderId="999")


async def test_links_that_nobody_is_asked_about_are_told_with_why(rig: Bookmarking) -> None:
    ids = [rig.chrome.find("Setting"), rig.chrome.find("Blocked")]
    answer = await rig.ask(bookmark_check_links, ids=ids)
    shown = answer.structured
    assert shown["counts"] == {"skipped": 1, "blocked": 1}
    assert [one["kind"] for one in shown["problems"]] == ["skipped", "blocked"]
    assert "private address" in shown["problems"][1]["reason"]
    assert shown["problems"][0]["folder"] == "Bar > Tech"
    assert (shown["notReached"], shown["total"]) == ([], 2)
    assert "Checked 2 of 2 bookmarks: 1 blocked, 1 skipped." in answer.text
    assert sorted(rig.progress) == [(1, 2), (2, 2)]


async def test_a_part_says_where_to_go_on(rig: Bookmarking) -> None:
    rig.redactor.teach("unrelated")
    first = await rig.call(bookmark_check_links, folderId="Bar > Tech", offset=2, limit=1)
    assert (first["counts"], first.get("nextOffset")) == ({"skipped": 1}, None)
    none = await rig.call(bookmark_check_links, offset=100)
    assert (none["counts"], none["problems"]) == ({}, [])


async def test_ids_that_are_no_bookmarks_are_told(rig: Bookmarking) -> None:
    ids = ["999", rig.chrome.find("Setting"), rig.chrome.find("Tech")]
    answer = await rig.ask(bookmark_check_links, ids=ids)
    assert answer.structured["unknown"] == [ids[0], ids[2]]
    assert (answer.structured["total"], answer.structured["counts"]) == (1, {"skipped": 1})
    assert "2 of the ids are no bookmarks there" in answer.text

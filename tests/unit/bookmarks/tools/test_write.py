"""The spec's tools that change bookmarks: shapes, paths, batches, and that all can be undone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.bookmarks.changes.apply import undo
from pilothouse.bookmarks.model import (
    AmbiguousPath,
    BookmarkNotFound,
    ChromeRefused,
    FolderNotEmpty,
    InvalidUrl,
    RootFolder,
)
from pilothouse.bookmarks.tools.write import (
    bookmark_add,
    bookmark_batch,
    bookmark_create_folder,
    bookmark_move,
    bookmark_remove,
    bookmark_remove_tree,
    bookmark_update,
)
from pilothouse.core.declare.faults import InvalidInput
from tests.support.bookmarking import Bookmarking
from tests.support.chrome_bookmarks import BAR, OTHER, ChromeBookmarks

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.core.declare.tool import Tool

pytestmark = pytest.mark.anyio

SITE = "https://example.com/"


@pytest.fixture
def house(tmp_path: Path) -> Bookmarking:
    tree: list[dict[str, Any]] = [
        {"title": "Tech", "children": [{"title": "Page", "url": SITE}]},
        {"title": "Empty", "children": []},
        {"title": "Loose", "url": "https://loose.example/"},
    ]
    return Bookmarking(ChromeBookmarks(tree), tmp_path)


async def undone(house: Bookmarking) -> Any:
    await undo(house.shelf(None), session=house.session)
    return house.chrome.shape()


# Shapes


async def test_add_answers_the_node_that_chrome_made(house: Bookmarking) -> None:
    answer = await house.ask(bookmark_add, parentId=BAR, title="New", url=SITE, index=0)
    node = answer.structured
    assert json.loads(answer.text) == node
    assert (node["parentId"], node["index"], node["title"], node["url"]) == (BAR, 0, "New", SITE)
    assert isinstance(node["dateAdded"], int)
    assert "results" not in node


async def test_add_without_a_folder_goes_to_other_bookmarks(house: Bookmarking) -> None:
    assert (await house.call(bookmark_add, title="New", url=SITE))["parentId"] == OTHER


async def test_a_folder_has_no_url(house: Bookmarking) -> None:
    node = await house.call(bookmark_create_folder, parentId="Bar > Tech", title="AI")
    assert "url" not in node
    assert node["parentId"] == house.chrome.find("Tech")


async def test_update_move_and_remove_answer_as_the_spec_has_it(house: Bookmarking) -> None:
    id = house.chrome.find("Page")
    assert (await house.call(bookmark_update, id=id, title="Better"))["title"] == "Better"
    moved = await house.call(bookmark_move, id=id, parentId=OTHER, index=0)
    assert (moved["parentId"], moved["index"]) == (OTHER, 0)
    answer = await house.ask(bookmark_remove, id=id)
    assert answer.text == '{"success":true}'
    assert await house.call(bookmark_remove_tree, id="Bar > Tech") == {"success": True}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (bookmark_add, {"parentId": "Bar > A", "title": "x", "url": SITE, "createFolders": True}),
        (bookmark_create_folder, {"parentId": "Bar", "title": "x"}),
        (bookmark_update, {"id": "Bar > Loose", "title": "x", "url": "https://y.example/"}),
        (bookmark_move, {"id": "Bar > Loose", "parentId": "Bar > New", "createFolders": True}),
        (bookmark_remove, {"id": "Bar > Loose"}),
        (bookmark_remove_tree, {"id": "Bar > Tech"}),
        (bookmark_batch, {"do": "remove", "items": [{"id": "Bar > Loose"}, {"id": "Bar > Empty"}]}),
        (bookmark_batch, {"do": "add", "items": [{"title": "a", "url": SITE}] * 2}),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)  # fmt: skip
async def test_one_undo_takes_all_of_a_call_back(
    house: Bookmarking, tool: Tool, arguments: dict[str, Any]
) -> None:
    before = house.chrome.shape()
    await house.call(tool, **arguments)
    assert house.chrome.shape() != before
    assert await undone(house) == before


# Paths


async def test_missing_folders_are_made_on_the_way_if_asked(house: Bookmarking) -> None:
    asked = {"parentId": "Bar > Tech > AI > Papers", "title": "x", "url": SITE}
    with pytest.raises(BookmarkNotFound, match="AI"):
        await house.call(bookmark_add, **asked)
    assert house.chrome.writes() == []
    node = await house.call(bookmark_add, **asked, createFolders=True)
    assert node["parentId"] == house.chrome.find("Papers")
    again = await house.call(bookmark_add, **asked, createFolders=True)
    assert again["parentId"] == node["parentId"]


async def test_a_folder_is_created_with_the_folders_above_it(house: Bookmarking) -> None:
    await house.call(bookmark_create_folder, parentId="Other > A > B", title="C")
    assert house.chrome.shape(OTHER)[1] == [["A", [["B", [["C", []]]]]]]


async def test_an_ambiguous_path_changes_nothing(house: Bookmarking) -> None:
    await house.call(bookmark_create_folder, parentId="Bar", title="Tech")
    before = house.chrome.shape()
    with pytest.raises(AmbiguousPath):
        await house.call(bookmark_remove_tree, id="Bar > Tech")
    assert house.chrome.shape() == before


# Refusals


@pytest.mark.parametrize("url", ["javascript:alert(1)", " JaVa\tScript:1", "data:text/html,x"])
async def test_scripts_are_refused_before_chrome_hears_of_them(
    house: Bookmarking, url: str
) -> None:
    calls = len(house.chrome.calls)
    with pytest.raises(InvalidUrl):
        await house.call(bookmark_add, title="x", url=url)
    with pytest.raises(InvalidUrl):
        await house.call(bookmark_update, id="Bar > Loose", url=url)
    assert len(house.chrome.calls) == calls


async def test_what_was_shown_masked_is_not_written_back(house: Bookmarking) -> None:
    made = await house.call(bookmark_add, title="token=abc123def", url=f"{SITE}?token=abc123def")
    assert "abc123def" not in str(made)
    with pytest.raises(InvalidUrl, match="mask"):
        await house.call(bookmark_update, id=made["id"], title="t", url=made["url"])
    with pytest.raises(InvalidInput, match="mask"):
        await house.call(bookmark_update, id=made["id"], title=made["title"])
    await house.call(bookmark_update, id=made["id"], title="renamed")
    (kept,) = house.chrome.get({"ids": [made["id"]]})
    assert kept["url"].endswith("abc123def")


@pytest.mark.parametrize(
    ("tool", "arguments", "fault", "words"),
    [
        (bookmark_remove, {"id": "999"}, BookmarkNotFound, "Can't find bookmark"),
        (bookmark_remove, {"id": BAR}, RootFolder, "root bookmark folders"),
        (bookmark_remove, {"id": "Bar > Tech"}, FolderNotEmpty, "non-empty"),
        (bookmark_add, {"title": "x", "url": "ftp://[::1/"}, InvalidUrl, "Invalid URL"),
        (bookmark_add, {"title": "x", "url": SITE, "index": 99}, ChromeRefused, "out of bounds"),
        (bookmark_add, {"title": "x", "url": SITE, "parentId": "999"}, BookmarkNotFound, "parent"),
        (bookmark_move, {"id": "Bar > Tech", "parentId": "Bar > Tech"}, ChromeRefused, "itself"),
        (bookmark_update, {"id": BAR, "title": "x"}, RootFolder, "root"),
    ],
)
async def test_chromes_refusals_are_passed_on_with_a_hint(
    house: Bookmarking, tool: Tool, arguments: dict[str, Any], fault: type[Exception], words: str
) -> None:
    before = house.chrome.shape()
    with pytest.raises(fault, match=words) as failed:
        await house.call(tool, **arguments)
    assert failed.value.hint  # type: ignore[attr-defined]
    assert house.chrome.shape() == before


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        (bookmark_add, {"title": "x"}, "url"),
        (bookmark_add, {"url": SITE}, "title"),
        (bookmark_update, {"title": "x"}, "id"),
        (bookmark_update, {"id": "5"}, "title"),
        (bookmark_move, {"id": "5"}, "parentId"),
        (bookmark_remove, {}, "id"),
        (bookmark_add, {"items": [{"title": "x", "url": SITE}]}, "items"),
        (bookmark_batch, {"do": "add", "items": []}, "items"),
        (bookmark_batch, {"items": [{"id": "1"}]}, "do"),
        (bookmark_batch, {"do": "remove", "items": [{"id": "1"}] * 1_001}, "items"),
        (bookmark_add, {"title": "x", "url": SITE, "index": -1}, "index"),
        (bookmark_move, {"id": "5", "parentId": "1", "index": -1}, "index"),
    ],
)
async def test_a_missing_argument_is_named(
    house: Bookmarking, tool: Tool, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as failed:
        await house.call(tool, **arguments)
    assert failed.value.details["field"] == field


# Batches


async def test_a_batch_tells_what_came_of_each_item(house: Bookmarking) -> None:
    told = await house.call(
        bookmark_batch,
        do="add",
        items=[
            {"title": "One", "url": SITE, "parentId": "Bar > New"},
            {"title": "Bad", "url": "javascript:1"},
            {"title": "Hostless", "url": "http://"},
            {"title": "Lost", "url": SITE, "parentId": "9999"},
            {"titel": "misspelt", "url": SITE},
            {"title": "Two", "url": SITE, "parentId": "Bar > New"},
        ],
        createFolders=True,
    )
    codes = [one.get("error", {}).get("code") for one in told["results"]]
    refused = ["INVALID_URL", "INVALID_URL", "BOOKMARK_NOT_FOUND", "INVALID_INPUT"]
    assert codes == [None, *refused, None]
    assert (told["done"], told["failed"]) == (2, 4)
    one, two = (told["results"][place]["node"] for place in (0, 5))
    assert one["parentId"] == two["parentId"] == house.chrome.find("New")
    assert "titel" in told["results"][4]["error"]["message"]


async def test_a_folder_that_only_a_refused_item_needs_is_not_made(house: Bookmarking) -> None:
    told = await house.call(
        bookmark_batch,
        do="move",
        items=[
            {"id": BAR, "parentId": "Bar > Not made"},
            {"id": "Bar > Loose", "parentId": "Bar > Made"},
        ],
        createFolders=True,
    )
    assert (told["done"], told["failed"]) == (1, 1)
    titles = str(house.chrome.shape())
    assert "Not made" not in titles
    assert told["results"][1]["node"]["parentId"] == house.chrome.find("Made")


async def test_a_batch_of_removals_says_whether_all_went_well(house: Bookmarking) -> None:
    items = [{"id": "Bar > Loose"}, {"id": "Bar > Tech"}]
    told = await house.call(bookmark_batch, do="remove", items=items)
    assert (told["done"], told["failed"]) == (1, 1)
    assert told["results"][0] == {"success": True}
    assert told["results"][1]["error"]["code"] == "FOLDER_NOT_EMPTY"


async def test_one_node_is_not_removed_twice_in_a_batch(house: Bookmarking) -> None:
    told = await house.call(bookmark_batch, do="remove", items=[{"id": "Bar > Loose"}] * 2)
    assert ["error" in one for one in told["results"]] == [False, True]


async def test_a_batch_of_updates_answers_the_new_nodes(house: Bookmarking) -> None:
    told = await house.call(
        bookmark_batch,
        do="update",
        items=[{"id": "Bar > Loose", "title": "A"}, {"id": "Bar > Tech", "title": "B"}],
    )
    assert [one["node"]["title"] for one in told["results"]] == ["A", "B"]


async def test_when_chrome_refuses_one_after_all_nothing_of_the_batch_is_done(
    house: Bookmarking,
) -> None:
    before = house.chrome.shape()
    with pytest.raises(InvalidUrl, match="change 2 of 2"):
        await house.call(
            bookmark_batch,
            do="add",
            items=[{"title": "a", "url": SITE}, {"title": "b", "url": "ftp://[::1/"}],
        )
    assert house.chrome.shape() == before

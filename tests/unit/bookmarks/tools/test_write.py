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
def rig(tmp_path: Path) -> Bookmarking:
    tree: list[dict[str, Any]] = [
        {"title": "Tech", "children": [{"title": "Page", "url": SITE}]},
        {"title": "Empty", "children": []},
        {"title": "Loose", "url": "https://loose.example/"},
    ]
    return Bookmarking(ChromeBookmarks(tree), tmp_path)


async def undone(rig: Bookmarking) -> Any:
    await undo(rig.profile(None), session=rig.session)
    return rig.chrome.shape()


# Shapes


async def test_add_answers_the_node_that_chrome_made(rig: Bookmarking) -> None:
    answer = await rig.ask(bookmark_add, parentId=BAR, title="New", url=SITE, index=0)
    node = answer.structured
    assert json.loads(answer.text) == node
    assert (node["parentId"], node["index"], node["title"], node["url"]) == (BAR, 0, "New", SITE)
    assert isinstance(node["dateAdded"], int)
    assert "results" not in node


async def test_add_without_a_folder_goes_to_other_bookmarks(rig: Bookmarking) -> None:
    assert (await rig.call(bookmark_add, title="New", url=SITE))["parentId"] == OTHER


async def test_a_folder_has_no_url(rig: Bookmarking) -> None:
    node = await rig.call(bookmark_create_folder, parentId="Bar > Tech", title="AI")
    assert "url" not in node
    assert node["parentId"] == rig.chrome.find("Tech")


async def test_update_move_and_remove_answer_as_the_spec_has_it(rig: Bookmarking) -> None:
    id = rig.chrome.find("Page")
    assert (await rig.call(bookmark_update, id=id, title="Better"))["title"] == "Better"
    moved = await rig.call(bookmark_move, id=id, parentId=OTHER, index=0)
    assert (moved["parentId"], moved["index"]) == (OTHER, 0)
    answer = await rig.ask(bookmark_remove, id=id)
    assert answer.text == '{"success":true}'
    assert await rig.call(bookmark_remove_tree, id="Bar > Tech") == {"success": True}


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
    rig: Bookmarking, tool: Tool, arguments: dict[str, Any]
) -> None:
    before = rig.chrome.shape()
    await rig.call(tool, **arguments)
    assert rig.chrome.shape() != before
    assert await undone(rig) == before


# Paths


async def test_missing_folders_are_made_on_the_way_if_asked(rig: Bookmarking) -> None:
    asked = {"parentId": "Bar > Tech > AI > Papers", "title": "x", "url": SITE}
    with pytest.raises(BookmarkNotFound, match="AI"):
        await rig.call(bookmark_add, **asked)
    assert rig.chrome.writes() == []
    node = await rig.call(bookmark_add, **asked, createFolders=True)
    assert node["parentId"] == rig.chrome.find("Papers")
    again = await rig.call(bookmark_add, **asked, createFolders=True)
    assert again["parentId"] == node["parentId"]


async def test_a_folder_is_created_with_the_folders_above_it(rig: Bookmarking) -> None:
    await rig.call(bookmark_create_folder, parentId="Other > A > B", title="C")
    assert rig.chrome.shape(OTHER)[1] == [["A", [["B", [["C", []]]]]]]


async def test_an_ambiguous_path_changes_nothing(rig: Bookmarking) -> None:
    await rig.call(bookmark_create_folder, parentId="Bar", title="Tech")
    before = rig.chrome.shape()
    with pytest.raises(AmbiguousPath):
        await rig.call(bookmark_remove_tree, id="Bar > Tech")
    assert rig.chrome.shape() == before


# Refusals


@pytest.mark.parametrize("url", ["javascript:alert(1)", " JaVa\tScript:1", "data:text/html,x"])
async def test_scripts_are_refused_before_chrome_hears_of_them(rig: Bookmarking, url: str) -> None:
    calls = len(rig.chrome.calls)
    with pytest.raises(InvalidUrl):
        await rig.call(bookmark_add, title="x", url=url)
    with pytest.raises(InvalidUrl):
        await rig.call(bookmark_update, id="Bar > Loose", url=url)
    assert len(rig.chrome.calls) == calls


async def test_what_was_shown_masked_is_not_written_back(rig: Bookmarking) -> None:
    made = await rig.call(bookmark_add, title="token=abc123def", url=f"{SITE}?token=abc123def")
    assert "abc123def" not in str(made)
    with pytest.raises(InvalidUrl, match="mask"):
        await rig.call(bookmark_update, id=made["id"], title="t", url=made["url"])
    with pytest.raises(InvalidInput, match="mask"):
        await rig.call(bookmark_update, id=made["id"], title=made["title"])
    await rig.call(bookmark_update, id=made["id"], title="renamed")
    (kept,) = rig.chrome.get({"ids": [made["id"]]})
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
    rig: Bookmarking, tool: Tool, arguments: dict[str, Any], fault: type[Exception], words: str
) -> None:
    before = rig.chrome.shape()
    with pytest.raises(fault, match=words) as failed:
        await rig.call(tool, **arguments)
    assert failed.value.hint  # type: ignore[attr-defined]
    assert rig.chrome.shape() == before


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
    rig: Bookmarking, tool: Tool, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as failed:
        await rig.call(tool, **arguments)
    assert failed.value.details["field"] == field


# Batches


async def test_a_batch_tells_what_came_of_each_item(rig: Bookmarking) -> None:
    told = await rig.call(
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
    assert one["parentId"] == two["parentId"] == rig.chrome.find("New")
    assert "titel" in told["results"][4]["error"]["message"]


async def test_a_folder_that_only_a_refused_item_needs_is_not_made(rig: Bookmarking) -> None:
    told = await rig.call(
        bookmark_batch,
        do="move",
        items=[
            {"id": BAR, "parentId": "Bar > Not made"},
            {"id": "Bar > Loose", "parentId": "Bar > Made"},
        ],
        createFolders=True,
    )
    assert (told["done"], told["failed"]) == (1, 1)
    titles = str(rig.chrome.shape())
    assert "Not made" not in titles
    assert told["results"][1]["node"]["parentId"] == rig.chrome.find("Made")


async def test_a_batch_of_removals_says_whether_all_went_well(rig: Bookmarking) -> None:
    items = [{"id": "Bar > Loose"}, {"id": "Bar > Tech"}]
    told = await rig.call(bookmark_batch, do="remove", items=items)
    assert (told["done"], told["failed"]) == (1, 1)
    assert told["results"][0] == {"success": True}
    assert told["results"][1]["error"]["code"] == "FOLDER_NOT_EMPTY"


async def test_one_node_is_not_removed_twice_in_a_batch(rig: Bookmarking) -> None:
    told = await rig.call(bookmark_batch, do="remove", items=[{"id": "Bar > Loose"}] * 2)
    assert ["error" in one for one in told["results"]] == [False, True]


async def test_a_batch_of_updates_answers_the_new_nodes(rig: Bookmarking) -> None:
    told = await rig.call(
        bookmark_batch,
        do="update",
        items=[{"id": "Bar > Loose", "title": "A"}, {"id": "Bar > Tech", "title": "B"}],
    )
    assert [one["node"]["title"] for one in told["results"]] == ["A", "B"]


async def test_when_chrome_refuses_one_after_all_nothing_of_the_batch_is_done(
    rig: Bookmarking,
) -> None:
    before = rig.chrome.shape()
    with pytest.raises(InvalidUrl, match="change 2 of 2"):
        await rig.call(
            bookmark_batch,
            do="add",
            items=[{"title": "a", "url": SITE}, {"title": "b", "url": "ftp://[::1/"}],
        )
    assert rig.chrome.shape() == before

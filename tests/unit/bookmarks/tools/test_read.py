"""The spec's tools that show bookmarks: their shapes, their text, what they leave out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.bookmarks.model import BookmarkNotFound, ExtensionNotConnected
from pilothouse.bookmarks.tools.read import (
    bookmark_get,
    bookmark_get_tree,
    bookmark_search,
    bookmark_tree,
)
from pilothouse.bookmarks.tree.tree import flat
from tests.support.bookmarking import Bookmarking
from tests.support.chrome_bookmarks import ChromeBookmarks

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

SECRET = "https://example.com/?access_token=abcdef123"


@pytest.fixture
def rig(tmp_path: Path) -> Bookmarking:
    tree: list[dict[str, Any]] = [
        {
            "title": "Tech",
            "children": [
                {"title": "Python", "url": "https://python.example/"},
                {"title": "Signed", "url": SECRET},
            ],
        },
        {"title": "\u202eevil", "url": "https://evil.example/"},
    ]
    return Bookmarking(ChromeBookmarks(tree), tmp_path)


async def test_get_answers_an_array_in_the_text_and_nodes_in_the_content(
    rig: Bookmarking,
) -> None:
    id = rig.chrome.find("Python")
    answer = await rig.ask(bookmark_get, id=id)
    assert json.loads(answer.text) == answer.structured["nodes"]
    (node,) = answer.structured["nodes"]
    assert node["url"] == "https://python.example/"
    assert node.keys() >= {"id", "parentId", "index", "title", "dateAdded"}


async def test_get_takes_a_path(rig: Bookmarking) -> None:
    (node,) = (await rig.call(bookmark_get, id="Bar > Tech > Python"))["nodes"]
    assert node["title"] == "Python"


async def test_get_of_an_unknown_id_passes_chromes_words_on_with_a_hint(
    rig: Bookmarking,
) -> None:
    with pytest.raises(BookmarkNotFound, match="Can't find bookmark for id") as failed:
        await rig.call(bookmark_get, id="99999")
    assert "bookmark_search" in failed.value.hint


async def test_the_tree_is_chromes_own(rig: Bookmarking) -> None:
    rig.redactor.teach("nothing of this")
    nodes = (await rig.call(bookmark_get_tree))["nodes"]
    (whole,) = rig.chrome.get_tree({})
    assert [node["id"] for node in flat(nodes)] == [node["id"] for node in flat([whole])]
    assert nodes[0]["id"] == "0"


async def test_a_folder_can_be_asked_for_to_a_depth(rig: Bookmarking) -> None:
    (bar,) = (await rig.call(bookmark_get_tree, folderId="Bar", depth=1))["nodes"]
    assert bar["children"][0]["leftOut"] == {"bookmarks": 2, "folders": 0}
    assert "folderId" in bar["readOn"]


async def test_a_large_tree_is_cut_and_read_whole_when_asked(tmp_path: Path) -> None:
    many = [{"title": f"{n}", "url": f"https://example.com/{n}"} for n in range(1_200)]
    rig = Bookmarking(ChromeBookmarks([{"title": "Many", "children": many}]), tmp_path)
    cut = flat((await rig.call(bookmark_get_tree))["nodes"])
    assert len(cut) < 10
    assert [n["leftOut"] for n in cut if "leftOut" in n] == [{"bookmarks": 1_200, "folders": 0}]
    whole = flat((await rig.call(bookmark_get_tree, all=True))["nodes"])
    assert len(whole) == 1_200 + 4
    assert not [node for node in whole if "leftOut" in node]


async def test_secrets_and_invisible_characters_are_not_shown(rig: Bookmarking) -> None:
    answer = await rig.ask(bookmark_get_tree)
    assert "abcdef123" not in answer.text + json.dumps(answer.structured)
    assert "\u202e" not in answer.text
    assert "\\u202e" in answer.text


async def test_search_finds_words(rig: Bookmarking) -> None:
    found = (await rig.call(bookmark_search, query="python"))["nodes"]
    assert [node["title"] for node in found] == ["Python"]


async def test_search_says_what_it_leaves_out(tmp_path: Path) -> None:
    many = [{"title": f"{n}", "url": f"https://example.com/{n}"} for n in range(1_200)]
    rig = Bookmarking(ChromeBookmarks(many), tmp_path)
    found = (await rig.call(bookmark_search, query="example"))["nodes"]
    assert len(found) == 1_000
    assert found[-1]["readOn"].startswith("1200 were found")


async def test_the_resource_has_the_tree_of_every_profile(rig: Bookmarking) -> None:
    read = json.loads(await bookmark_tree.reader(bookmarks=rig))
    (profile,) = read["profiles"]
    assert profile["profile"] == "Test"
    assert "Python" in json.dumps(profile["nodes"])
    assert "abcdef123" not in json.dumps(profile)


async def test_without_a_chrome_the_resource_says_how_to_connect_one(rig: Bookmarking) -> None:
    rig.is_connected = False
    with pytest.raises(ExtensionNotConnected):
        await bookmark_tree.reader(bookmarks=rig)

"""The nine tools of the spec, over the wire, against a real Chromium: what they do and refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.bookmark_chrome import BAR, OTHER, BookmarkChrome, Desk

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.browser

URL = "https://example.com/"
GONE = "424242"


def test_a_bookmark_is_added_where_it_was_asked_for(desk: Desk, chrome: BookmarkChrome) -> None:
    result = desk.ask("bookmark_add", parentId=BAR, title="One", url=URL, index=0)
    node = result["structuredContent"]
    assert json.loads(result["content"][0]["text"]) == node
    assert {name: node[name] for name in ("parentId", "index", "title", "url")} == {
        "parentId": BAR,
        "index": 0,
        "title": "One",
        "url": URL,
    }
    assert chrome.by_hand("get", node["id"]) == [node]


def test_without_a_folder_it_goes_where_chrome_puts_it(desk: Desk, chrome: BookmarkChrome) -> None:
    assert desk.call("bookmark_add", title="One", url=URL)["parentId"] == OTHER
    assert desk.call("bookmark_create_folder", title="Folder")["parentId"] == OTHER
    assert chrome.titles(OTHER) == ["One", "Folder"]


def test_get_gives_the_nodes_that_chrome_gives(desk: Desk, chrome: BookmarkChrome) -> None:
    made = chrome.by_hand("create", {"parentId": BAR, "title": "日本 <b>&", "url": URL})
    result = desk.ask("bookmark_get", id=made["id"])
    assert result["structuredContent"] == {"nodes": [made]}
    assert json.loads(result["content"][0]["text"]) == [made]


def test_the_tree_is_the_one_that_chrome_has(desk: Desk, chrome: BookmarkChrome) -> None:
    folder = chrome.by_hand("create", {"parentId": BAR, "title": "Folder"})
    chrome.by_hand("create", {"parentId": folder["id"], "title": "In it", "url": URL})
    nodes = desk.call("bookmark_get_tree")["nodes"]
    assert nodes == chrome.by_hand("getTree")
    assert [root["folderType"] for root in nodes[0]["children"]][:2] == ["bookmarks-bar", "other"]


def test_search_finds_words_of_titles_and_addresses(desk: Desk, chrome: BookmarkChrome) -> None:
    for title, url in (("Asyncio", URL), ("Other", "https://asyncio.example/"), ("No", URL + "x")):
        chrome.by_hand("create", {"title": title, "url": url})
    found = desk.call("bookmark_search", query="asyncio")["nodes"]
    assert {node["title"] for node in found} == {"Asyncio", "Other"}
    assert desk.call("bookmark_search", query="nothing like it")["nodes"] == []


def test_update_changes_only_what_is_given(desk: Desk, chrome: BookmarkChrome) -> None:
    made = chrome.by_hand("create", {"title": "Old", "url": URL})
    renamed = desk.call("bookmark_update", id=made["id"], title="New")
    assert (renamed["title"], renamed["url"]) == ("New", URL)
    moved = desk.call("bookmark_update", id=made["id"], url=URL + "elsewhere")
    assert (moved["title"], moved["url"]) == ("New", URL + "elsewhere")
    assert chrome.by_hand("get", made["id"])[0]["title"] == "New"


def test_move_takes_a_node_to_its_place(desk: Desk, chrome: BookmarkChrome) -> None:
    ids = [chrome.by_hand("create", {"title": t, "url": URL})["id"] for t in "abc"]
    moved = desk.call("bookmark_move", id=ids[2], parentId=OTHER, index=0)
    assert (moved["parentId"], moved["index"]) == (OTHER, 0)
    assert chrome.titles(OTHER) == ["c", "a", "b"]
    assert desk.call("bookmark_move", id=ids[0], parentId=BAR)["parentId"] == BAR
    assert (chrome.titles(BAR), chrome.titles(OTHER)) == (["a"], ["c", "b"])


def test_remove_takes_bookmarks_and_empty_folders(desk: Desk, chrome: BookmarkChrome) -> None:
    bookmark = chrome.by_hand("create", {"title": "One", "url": URL})
    folder = chrome.by_hand("create", {"title": "Empty"})
    for node in (bookmark, folder):
        result = desk.ask("bookmark_remove", id=node["id"])
        assert json.loads(result["content"][0]["text"]) == {"success": True}
    assert chrome.children(OTHER) == []


def test_remove_tree_takes_a_folder_with_all_that_is_in_it(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    folder = chrome.by_hand("create", {"title": "Full"})
    inner = chrome.by_hand("create", {"parentId": folder["id"], "title": "Inner"})
    chrome.by_hand("create", {"parentId": inner["id"], "title": "One", "url": URL})
    refused = desk.fault("bookmark_remove", id=folder["id"])
    assert (refused["code"], chrome.titles(OTHER)) == ("FOLDER_NOT_EMPTY", ["Full"])
    assert "bookmark_remove_tree" in refused["details"]["hint"]
    assert desk.call("bookmark_remove_tree", id=folder["id"]) == {"success": True}
    assert chrome.children(OTHER) == []


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "says"),
    [
        ("bookmark_get", {"id": GONE}, "BOOKMARK_NOT_FOUND", "Can't find bookmark for id."),
        ("bookmark_update", {"id": GONE, "title": "x"}, "BOOKMARK_NOT_FOUND", "Can't find"),
        ("bookmark_remove", {"id": GONE}, "BOOKMARK_NOT_FOUND", "Can't find"),
        ("bookmark_remove_tree", {"id": GONE}, "BOOKMARK_NOT_FOUND", "Can't find"),
        ("bookmark_move", {"id": GONE, "parentId": BAR}, "BOOKMARK_NOT_FOUND", "Can't find"),
        ("bookmark_get_tree", {"folderId": GONE}, "BOOKMARK_NOT_FOUND", "Can't find"),
        ("bookmark_get", {"id": "99999999999999999999999"}, "BOOKMARK_NOT_FOUND", ""),
        ("bookmark_get", {"id": "Bar > Nowhere"}, "BOOKMARK_NOT_FOUND", "Nowhere"),
        ("bookmark_get", {"id": "Lesezeichenleiste"}, "BOOKMARK_NOT_FOUND", "own folders"),
        ("bookmark_get", {"id": "Bar > "}, "INVALID_INPUT", "path"),
        (
            "bookmark_add",
            {"parentId": GONE, "title": "x", "url": URL},
            "BOOKMARK_NOT_FOUND",
            "parent",
        ),
        ("bookmark_create_folder", {"parentId": GONE, "title": "x"}, "BOOKMARK_NOT_FOUND", ""),
        ("bookmark_add", {"title": "x", "url": "ftp://[::1/"}, "INVALID_URL", "Invalid URL"),
        ("bookmark_add", {"title": "x", "url": "example.com"}, "INVALID_URL", ""),
        ("bookmark_add", {"title": "x", "url": "javascript:alert(1)"}, "INVALID_URL", "javascript"),
        ("bookmark_add", {"title": "x", "url": " JaVa\tScript:alert(1)"}, "INVALID_URL", ""),
        ("bookmark_add", {"title": "x", "url": "data:text/html,x"}, "INVALID_URL", "data"),
        ("bookmark_add", {"title": "x"}, "INVALID_INPUT", "url"),
        ("bookmark_add", {"url": URL}, "INVALID_INPUT", "title"),
        ("bookmark_create_folder", {"parentId": "0", "title": "x"}, "ROOT_FOLDER", "root bookmark"),
        ("bookmark_update", {"id": BAR, "title": "x"}, "ROOT_FOLDER", "root bookmark folders"),
        ("bookmark_remove", {"id": BAR}, "ROOT_FOLDER", "root bookmark folders"),
        ("bookmark_remove_tree", {"id": OTHER}, "ROOT_FOLDER", "root bookmark folders"),
        ("bookmark_move", {"id": BAR, "parentId": OTHER}, "ROOT_FOLDER", "root bookmark folders"),
        (
            "bookmark_add",
            {"parentId": BAR, "title": "x", "url": URL, "index": 9},
            "CHROME_ERROR",
            "Index out of bounds",
        ),
        ("bookmark_get", {"id": BAR, "profile": "Nobody"}, "PROFILE_NOT_FOUND", "Nobody"),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_what_chrome_or_we_refuse_leaves_everything_as_it_was(
    desk: Desk,
    chrome: BookmarkChrome,
    tool: str,
    arguments: Mapping[str, Any],
    code: str,
    says: str,
) -> None:
    chrome.by_hand("create", {"title": "Mine", "url": URL})
    before = chrome.by_hand("getTree")
    fault = desk.fault(tool, **arguments)
    assert fault["code"] == code, fault
    assert says in fault["message"]
    assert fault["details"]["hint"]
    assert chrome.by_hand("getTree") == before


def test_an_address_that_runs_is_refused_in_an_update_too(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    made = chrome.by_hand("create", {"title": "One", "url": URL})
    for url in ("javascript:alert(1)", "data:text/html,x", "vbscript:x", "no address"):
        assert desk.fault("bookmark_update", id=made["id"], url=url)["code"] == "INVALID_URL"
    assert chrome.by_hand("get", made["id"])[0]["url"] == URL


def test_a_folder_goes_neither_into_itself_nor_gets_an_address(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    outer = chrome.by_hand("create", {"title": "Outer"})["id"]
    inner = chrome.by_hand("create", {"parentId": outer, "title": "Inner"})["id"]
    bookmark = chrome.by_hand("create", {"title": "One", "url": URL})["id"]
    for parent in (outer, inner):
        fault = desk.fault("bookmark_move", id=outer, parentId=parent)
        assert "itself or its descendant" in fault["message"], fault
    assert "folder" in desk.fault("bookmark_move", id=outer, parentId=bookmark)["message"]
    assert "URL" in desk.fault("bookmark_update", id=outer, url=URL)["message"]
    assert chrome.titles(OTHER) == ["Outer", "One"]

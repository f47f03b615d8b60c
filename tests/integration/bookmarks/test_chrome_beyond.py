"""What goes beyond the spec, against a real Chromium: paths, batches, large trees, care, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pilothouse.bookmarks.tree.paths import DEEPEST
from tests.support.bookmark_chrome import BAR, OTHER, BookmarkChrome, Desk
from tests.support.intercepting import app

pytestmark = pytest.mark.browser

URL = "https://example.com/"
SECRET = "token=abcdefghijklmnopqrstuvwxyz0123456789"


# Paths


def test_a_path_leads_to_what_a_person_made(desk: Desk, chrome: BookmarkChrome) -> None:
    tech = chrome.by_hand("create", {"parentId": BAR, "title": "Tech"})
    odd = chrome.by_hand("create", {"parentId": tech["id"], "title": "a > b"})
    page = chrome.by_hand("create", {"parentId": odd["id"], "title": "Page", "url": URL})
    (node,) = desk.call("bookmark_get", id='Bar > Tech > "a > b" > Page')["nodes"]
    assert node["id"] == page["id"]
    (same,) = desk.call("bookmark_get", id="bookmarks bar > Tech")["nodes"]
    assert same["id"] == tech["id"]


def test_folders_are_made_on_the_way_if_asked(desk: Desk, chrome: BookmarkChrome) -> None:
    where = {"parentId": "Bar > Tech > AI", "title": "One", "url": URL}
    missing = desk.fault("bookmark_add", **where)
    assert (missing["code"], chrome.titles(BAR)) == ("BOOKMARK_NOT_FOUND", [])
    desk.call("bookmark_add", **where, createFolders=True)
    desk.call("bookmark_add", **{**where, "title": "Two"}, createFolders=True)
    assert chrome.titles(BAR) == ["Tech"]
    (ai,) = chrome.children(chrome.children(BAR)[0]["id"])
    assert (ai["title"], chrome.titles(ai["id"])) == ("AI", ["One", "Two"])


def test_a_path_that_two_folders_have_is_not_guessed(desk: Desk, chrome: BookmarkChrome) -> None:
    ids = [chrome.by_hand("create", {"parentId": BAR, "title": "Twice"})["id"] for _ in range(2)]
    fault = desk.fault("bookmark_remove", id="Bar > Twice")
    assert (fault["code"], fault["details"]["ids"]) == ("AMBIGUOUS_PATH", ids)
    assert chrome.titles(BAR) == ["Twice", "Twice"]


def test_a_bookmark_where_a_folder_is_wanted_is_not_told_to_be_missing(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    page = chrome.by_hand("create", {"parentId": BAR, "title": "Page", "url": URL})["id"]
    for where in ("Bar > Page", "Bar > Page > Inside"):
        fault = desk.fault("bookmark_add", parentId=where, title="One", url=URL)
        assert "is a bookmark, not a folder" in fault["message"]
        assert (fault["details"]["field"], fault["details"]["id"]) == ("parentId", page)


def test_an_address_that_is_wrong_is_told_with_the_argument_that_it_came_in(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    create = {"do": "create", "title": "One", "parentId": ""}
    for tool, field, arguments in (
        ("bookmark_get", "id", {"id": "Bar >"}),
        ("bookmark_get_tree", "folderId", {"folderId": "Nowhere"}),
        ("bookmark_get_tree", "folderId", {"folderId": "Bar > Nowhere"}),
        ("bookmark_add", "parentId", {"parentId": "", "title": "One", "url": URL}),
        ("bookmark_plan", "parentId", {"changes": [create]}),
    ):
        assert desk.fault(tool, **arguments)["details"]["field"] == field, tool


def test_what_was_done_to_an_id_with_zeros_before_it_is_undone(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    page = chrome.by_hand("create", {"parentId": BAR, "title": "Page", "url": URL})["id"]
    desk.call("bookmark_update", id=f"0{page}", title="Renamed")
    desk.call("bookmark_undo")
    desk.call("bookmark_move", id=f"00{page}", parentId=f"0{OTHER}")
    desk.call("bookmark_undo")
    assert chrome.titles(BAR) == ["Page"]
    (root,) = desk.call("bookmark_get", id="00")["nodes"]
    assert root["id"] == "0"


def test_paths_do_not_depend_on_the_language() -> None:
    with Desk() as desk, BookmarkChrome("--lang=ja") as chrome:
        chrome.connect(desk.open())
        where = {"parentId": "Bar > Tech", "title": "One", "url": URL}
        desk.call("bookmark_add", **where, createFolders=True)
        desk.call("bookmark_add", **{**where, "parentId": "Other bookmarks"})
        assert (chrome.titles(BAR), chrome.titles(OTHER)) == (["Tech"], ["One"])


def test_what_lies_as_deep_as_it_may_is_shown_removed_and_brought_back(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    path = "Bar" + " > Deep" * (DEEPEST - 2)
    desk.call("bookmark_create_folder", parentId=path, title="Last")
    desk.call("bookmark_remove_tree", id="Bar > Deep")
    desk.call("bookmark_undo")
    nodes, titles = desk.call("bookmark_get_tree", all=True)["nodes"], []
    while nodes:
        titles.append(nodes[0]["title"])
        nodes = nodes[0]["children"]
    assert (len(titles), titles[-1]) == (DEEPEST + 1, "Last")
    fault = desk.fault("bookmark_create_folder", parentId=f"{path} > Deep", title="Too deep")
    assert (fault["code"], fault["details"]["field"]) == ("INVALID_INPUT", "parentId")


# Batches


def test_a_batch_tells_of_each_item_what_came_of_it(desk: Desk, chrome: BookmarkChrome) -> None:
    told = desk.call(
        "bookmark_batch",
        do="add",
        items=[
            {"title": "One", "url": URL},
            {"title": "Runs", "url": "javascript:alert(1)"},
            {"title": "Two", "url": URL, "parentId": "Bar"},
            {"title": "Nowhere", "url": URL, "parentId": "424242"},
        ],
    )
    assert (told["done"], told["failed"]) == (2, 2)
    codes = [one.get("error", {}).get("code") for one in told["results"]]
    assert codes == [None, "INVALID_URL", None, "BOOKMARK_NOT_FOUND"]
    assert (chrome.titles(OTHER), chrome.titles(BAR)) == (["One"], ["Two"])


def test_many_are_changed_moved_and_removed_in_one_call_each(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    items = [{"title": f"b{n}", "url": f"{URL}{n}"} for n in range(100)]
    told = desk.call("bookmark_batch", do="add", items=items)
    made = [one["node"]["id"] for one in told["results"]]
    renamed = [{"id": id, "title": f"c{id}"} for id in made]
    desk.call("bookmark_batch", do="update", items=renamed)
    assert chrome.titles(OTHER) == [f"c{id}" for id in made]
    desk.call("bookmark_batch", do="move", items=[{"id": id, "parentId": BAR} for id in made])
    assert chrome.titles(BAR) == [f"c{id}" for id in made]
    gone = desk.call("bookmark_batch", do="remove", items=[{"id": id} for id in made])
    assert (gone["failed"], gone["done"], chrome.titles(BAR)) == (0, 100, [])
    desk.call("bookmark_undo")
    assert chrome.titles(BAR) == [f"c{id}" for id in made]


# Large trees


def test_a_large_tree_is_cut_by_depth_and_says_what_is_left_out(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    chrome.person.evaluate(
        """(async () => {
          for (let f = 0; f < 4; f++) {
            const folder = await chrome.bookmarks.create({ parentId: "1", title: `f${f}` });
            const details = { parentId: folder.id, title: "x", url: "https://a.example/" };
            for (let n = 0; n < 300; n++) await chrome.bookmarks.create(details);
          }
        })()"""
    )
    (root,) = desk.call("bookmark_get_tree")["nodes"]
    (bar,) = (child for child in root["children"] if child["id"] == BAR)
    assert [folder["leftOut"] for folder in bar["children"]] == [
        {"bookmarks": 300, "folders": 0}
    ] * 4
    assert "all: true" in root["readOn"]
    (folder,) = desk.call("bookmark_get_tree", folderId=bar["children"][0]["id"])["nodes"]
    assert len(folder["children"]) == 300
    (shallow,) = desk.call("bookmark_get_tree", folderId="Bar", depth=1)["nodes"]
    assert [child["title"] for child in shallow["children"]] == ["f0", "f1", "f2", "f3"]
    assert desk.call("bookmark_get_tree", all=True)["nodes"] == chrome.by_hand("getTree")


# Care


def test_duplicates_are_found_across_folders(desk: Desk, chrome: BookmarkChrome) -> None:
    first = chrome.by_hand("create", {"parentId": BAR, "title": "First", "url": URL})
    again = chrome.by_hand("create", {"title": "Again", "url": URL})
    chrome.by_hand("create", {"title": "Else", "url": URL + "else"})
    told = desk.call("bookmark_find_duplicates")
    (group,) = told["groups"]
    assert (group["keep"], group["remove"]) == (first["id"], [again["id"]])
    assert [one["folder"] for one in group["bookmarks"]] == ["Bar", "Other"]
    assert (told["total"], told["extra"]) == (1, 1)


def test_links_are_checked_and_the_broken_ones_told(desk: Desk, chrome: BookmarkChrome) -> None:
    with app() as site:
        for title, url in (
            ("there", f"http://localhost:{site.port}/"),
            ("gone", f"http://localhost:{site.port}/?status=404"),
            ("private", "http://10.0.0.1/"),
        ):
            chrome.by_hand("create", {"parentId": BAR, "title": title, "url": url})
        told = desk.call("bookmark_check_links", folderId="Bar", maxSeconds=30)
    problems = {one["title"]: one["kind"] for one in told["problems"]}
    assert problems == {"gone": "broken", "private": "blocked"}
    assert told["counts"] == {"ok": 1, "broken": 1, "blocked": 1}
    assert (told["total"], told["notReached"]) == (3, [])
    assert sorted((one["method"], one["path"]) for one in site.seen) == [
        ("GET", "/?status=404"),
        ("HEAD", "/"),
        ("HEAD", "/?status=404"),
    ]


# Files


@pytest.mark.parametrize("format", ["html", "json"])
def test_what_is_exported_is_imported_the_same(
    desk: Desk, chrome: BookmarkChrome, format: str
) -> None:
    folder = chrome.by_hand("create", {"parentId": BAR, "title": "F <&> 日本"})
    chrome.by_hand("create", {"parentId": folder["id"], "title": 'One "1"', "url": URL + "?a=1&b"})
    chrome.by_hand("create", {"parentId": BAR, "title": "Two", "url": URL})
    written = desk.call("bookmark_export", folderId=folder["id"], format=format)
    assert (written["bookmarks"], written["folders"]) == (1, 1)
    assert Path(written["path"]).stat().st_mode & 0o077 == 0
    made = desk.call("bookmark_import", path=written["path"])
    assert (made["bookmarks"], made["folders"]) == (1, 2)
    (imported,) = (child for child in chrome.children(OTHER) if child["title"] == "Imported")
    (again,) = chrome.children(imported["id"])
    (one,) = chrome.children(again["id"])
    assert (again["title"], one["title"], one["url"]) == (
        "F <&> 日本",
        'One "1"',
        URL + "?a=1&b",
    )
    desk.call("bookmark_undo", entry=made["entry"])
    assert chrome.titles(OTHER) == []


def test_an_import_leaves_out_what_runs_and_what_is_there(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    chrome.by_hand("create", {"title": "There", "url": URL})
    content = (
        "<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><p>"
        f'<DT><A HREF="{URL}">There</A><DT><A HREF="javascript:alert(1)">Runs</A>'
        f'<DT><A HREF="{URL}new">New</A></DL>'
    )
    told = desk.call("bookmark_import", content=content, parentId="Bar", skipExisting=True)
    assert (told["bookmarks"], told["skipped"]) == (1, 2)
    assert chrome.titles(BAR) == ["New"]
    assert desk.fault("bookmark_import", path="/etc/passwd")["code"] == "PERMISSION_DENIED"


# Secrets and strangers' text


def test_a_secret_in_an_address_is_masked_everywhere(desk: Desk, chrome: BookmarkChrome) -> None:
    made = chrome.by_hand("create", {"title": "Page", "url": f"{URL}?{SECRET}"})
    shown = json.dumps(
        [
            desk.ask("bookmark_get", id=made["id"]),
            desk.ask("bookmark_get_tree"),
            desk.ask("bookmark_search", query="Page"),
            desk.resource("bookmarks://tree").decode(),
            desk.resource("pilothouse://timeline").decode(),
            desk.ask("bookmark_find_duplicates"),
        ]
    )
    assert URL in shown
    assert "abcdefghijklmnopqrstuvwxyz0123456789" not in shown
    # Renamed by a tool, it keeps the address that no answer shows.
    desk.call("bookmark_update", id=made["id"], title="Renamed")
    assert chrome.by_hand("get", made["id"])[0]["url"] == f"{URL}?{SECRET}"

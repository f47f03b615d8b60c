"""The bookmark tools over the MCP wire: the product on stdio, an extension of the test's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.integration.bookmarks.web import answer, web
from tests.integration.bookmarks.wire import GUARD_S, Rig, connected, opened
from tests.support.chrome_bookmarks import BAR, ChromeBookmarks
from tests.support.servers import ERAS

pytestmark = pytest.mark.anyio

SITE = "https://example.com/"
TREE: list[dict[str, Any]] = [
    {"title": "Tech", "children": [{"title": "Page", "url": SITE}]},
    {"title": "Signed", "url": f"{SITE}?access_token=abcdef123"},
]


def chrome() -> ChromeBookmarks:
    return ChromeBookmarks(TREE)


@pytest.mark.parametrize("mode", ERAS)
async def test_the_nine_tools_answer_as_the_spec_has_it(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, chrome(), mode) as rig:
        added = await rig.call("bookmark_add", title="New", url=SITE, parentId=BAR, index=0)
        assert (added["title"], added["url"], added["index"]) == ("New", SITE, 0)
        result = await rig.ask("bookmark_get", id=added["id"])
        (got,) = json.loads(result.content[0].text)
        assert got == result.structured_content["nodes"][0]
        assert got["id"] == added["id"]
        tree = json.loads((await rig.ask("bookmark_get_tree")).content[0].text)
        assert [node["id"] for node in tree] == ["0"]
        found = json.loads((await rig.ask("bookmark_search", query="new")).content[0].text)
        assert [node["id"] for node in found] == [added["id"]]
        updated = await rig.call("bookmark_update", id=added["id"], title="Newer")
        assert updated["title"] == "Newer"
        folder = await rig.call("bookmark_create_folder", title="F", parentId=BAR)
        moved = await rig.call("bookmark_move", id=added["id"], parentId=folder["id"])
        assert moved["parentId"] == folder["id"]
        refused = await rig.fault("bookmark_remove", id=folder["id"])
        assert refused["code"] == "FOLDER_NOT_EMPTY"
        removed = await rig.ask("bookmark_remove", id=added["id"])
        assert json.loads(removed.content[0].text) == {"success": True}
        assert await rig.call("bookmark_remove_tree", id=folder["id"]) == {"success": True}
        assert rig.chrome.shape() == chrome().shape()


async def test_without_an_extension_every_tool_says_how_to_connect_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as (client, _, _code):
        rig = Rig(client, chrome())
        for tool, arguments in (
            ("bookmark_get_tree", {}),
            ("bookmark_add", {"title": "x", "url": SITE}),
            ("bookmark_find_duplicates", {}),
            ("bookmark_check_links", {}),
            ("bookmark_export", {}),
            ("bookmark_import", {"content": "[]"}),
        ):
            error = await rig.fault(tool, **arguments)
            assert error["code"] == "EXTENSION_NOT_CONNECTED"
            assert "chrome://extensions" in error["details"]["hint"]


async def test_errors_have_the_specs_form_and_a_way_on(tmp_path: Path) -> None:
    async with connected(tmp_path, chrome()) as rig:
        for tool, arguments, code in (
            ("bookmark_get", {"id": "999"}, "BOOKMARK_NOT_FOUND"),
            ("bookmark_get", {"id": "Nowhere > x"}, "BOOKMARK_NOT_FOUND"),
            ("bookmark_add", {"title": "x", "url": " Java\tScript:1"}, "INVALID_URL"),
            ("bookmark_add", {"title": "x", "url": "http://"}, "INVALID_URL"),
            ("bookmark_update", {"id": BAR, "title": "x"}, "ROOT_FOLDER"),
            ("bookmark_move", {"id": "Bar > Tech", "parentId": "Bar > Tech"}, "CHROME_ERROR"),
            ("bookmark_add", {"title": "x"}, "INVALID_INPUT"),
            ("bookmark_search", {"query": "x", "profile": "Nobody"}, "PROFILE_NOT_FOUND"),
        ):
            error = await rig.fault(tool, **arguments)
            assert error["code"] == code, error
            assert error["message"]
            assert error["details"]["hint"]
        assert rig.chrome.shape() == chrome().shape()


async def test_paths_batches_and_undo_work_together(tmp_path: Path) -> None:
    async with connected(tmp_path, chrome()) as rig:
        before = rig.chrome.shape()
        items = [{"title": f"{n}", "url": f"{SITE}{n}", "parentId": "Bar > New"} for n in range(5)]
        told = await rig.call("bookmark_batch", do="add", items=items, createFolders=True)
        assert (told["done"], told["failed"]) == (5, 0)
        assert len(rig.chrome.get_sub_tree({"id": rig.chrome.find("New")})[0]["children"]) == 5
        await rig.call("bookmark_undo")
        assert rig.chrome.shape() == before


async def test_no_secret_of_a_bookmark_is_told_and_none_is_overwritten(tmp_path: Path) -> None:
    async with connected(tmp_path, chrome()) as rig:
        for tool, arguments in (
            ("bookmark_get_tree", {}),
            ("bookmark_search", {"query": "signed"}),
            ("bookmark_get", {"id": "Bar > Signed"}),
            ("bookmark_export", {"inline": True}),
            ("bookmark_update", {"id": "Bar > Signed", "title": "Signed"}),
        ):
            result = await rig.ask(tool, **arguments)
            assert not result.is_error
            shown = result.content[0].text + json.dumps(result.structured_content)
            assert "abcdef123" not in shown, tool
        (node,) = (await rig.call("bookmark_get", id="Bar > Signed"))["nodes"]
        error = await rig.fault("bookmark_update", id=node["id"], url=node["url"])
        assert (error["code"], "leave url out" in error["details"]["hint"]) == ("INVALID_URL", True)
        kept = rig.chrome.get({"ids": [node["id"]]})[0]["url"]
        assert kept.endswith("abcdef123")


async def test_an_export_is_a_file_that_can_be_imported(tmp_path: Path) -> None:
    async with connected(tmp_path, chrome()) as rig:
        exported = await rig.call("bookmark_export", folderId="Bar > Tech")
        assert Path(exported["path"]).is_relative_to(tmp_path)
        imported = await rig.call("bookmark_import", path=exported["path"], parentId="Other")
        assert (imported["bookmarks"], imported["folders"]) == (1, 1)
        found = await rig.call("bookmark_find_duplicates")
        assert (found["total"], found["extra"]) == (1, 1)


async def test_links_are_checked_with_progress(tmp_path: Path) -> None:
    all_told = anyio.Event()

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        if (progress, total) == (4, 4):
            all_told.set()

    async with (
        connected(tmp_path, chrome()) as rig,
        web({"/": answer(200), "/old": answer(301, "/")}) as site,
    ):
        items = [
            {"title": "Fine", "url": site.url(), "parentId": "Bar > Links"},
            {"title": "Moved", "url": site.url("/old"), "parentId": "Bar > Links"},
            {"title": "Gone", "url": site.url("/gone"), "parentId": "Bar > Links"},
            {"title": "Inner", "url": "http://10.255.255.1/", "parentId": "Bar > Links"},
        ]
        await rig.call("bookmark_batch", do="add", items=items, createFolders=True)
        result = await rig.client.call_tool(
            "bookmark_check_links", {"folderId": "Bar > Links"}, progress_callback=heard
        )
        checked = result.structured_content
        assert checked["counts"] == {"ok": 1, "moved": 1, "broken": 1, "blocked": 1}
        kinds = {one["title"]: one["kind"] for one in checked["problems"]}
        assert kinds == {"Moved": "moved", "Gone": "broken", "Inner": "blocked"}
        with anyio.fail_after(GUARD_S):
            await all_told.wait()


async def test_the_tree_is_a_resource(tmp_path: Path) -> None:
    async with connected(tmp_path, chrome()) as rig:
        read = await rig.client.read_resource("bookmarks://tree")
        (profile,) = json.loads(read.contents[0].text)["profiles"]  # type: ignore[union-attr]
        assert profile["profile"] == "Work"
        assert "Tech" in json.dumps(profile["nodes"])

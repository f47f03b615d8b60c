"""Answers about many bookmarks stay within bounds, and say how many there are, over the wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.bookmarks.wire import Rig, connected, opened
from tests.support.bookmarking import carried_out_by
from tests.support.chrome_bookmarks import ChromeBookmarks
from tests.support.extension_peer import extension

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

SITE = "https://example.com/"
MANY = 1_000


def many(number: int) -> ChromeBookmarks:
    return ChromeBookmarks([{"title": f"n{n}", "url": f"{SITE}{n}"} for n in range(number)])


async def test_a_thousand_failures_of_one_kind_are_one_error(tmp_path: Path) -> None:
    async with connected(tmp_path, many(2)) as rig:
        items: list[dict[str, Any]] = [{"id": f"{50_000 + n}"} for n in range(MANY)]
        refused = await rig.ask("bookmark_batch", do="remove", items=items)
        error = refused.structured_content["error"]
        assert refused.is_error
        assert (error["code"], error["details"]["failed"]) == ("BATCH_FAILED", MANY)
        (one,) = error["details"]["errors"]
        assert one["code"] == "BOOKMARK_NOT_FOUND"
        assert one["ids"] == [item["id"] for item in items]
        assert len(json.dumps(refused.structured_content)) < 30_000
        # One that can be done makes it an answer, in which the rest still is told once.
        mixed = [{"id": "Bar > n0"}, *items[1:]]
        told = await rig.call("bookmark_batch", do="remove", items=mixed)
        assert (told["done"], told["failed"]) == (1, MANY - 1)
        assert told["results"][0] == {"success": True}
        assert told["results"][1]["error"]["items"] == list(range(1, MANY))
        assert told["results"][2]["error"] == {"code": "BOOKMARK_NOT_FOUND", "sameAs": 1}
        assert len(json.dumps(told)) < 80_000


async def test_different_failures_are_told_apart(tmp_path: Path) -> None:
    async with connected(tmp_path, many(1)) as rig:
        items = [{"title": "a", "url": "javascript:1"}, {"titel": "b"}, {"url": SITE}]
        error = await rig.fault("bookmark_batch", do="add", items=items)
        errors = error["details"]["errors"]
        assert [one["items"] for one in errors] == [[0], [1], [2]]
        assert "titel" in errors[1]["message"]


async def test_a_thousand_new_bookmarks_are_told_by_their_ids(tmp_path: Path) -> None:
    async with connected(tmp_path, many(0)) as rig:
        title = "a long title " * 10
        items = [{"title": title, "url": f"{SITE}{n}"} for n in range(MANY)]
        told = await rig.call("bookmark_batch", do="add", items=items)
        assert told["results"][0]["node"]["title"] == title
        assert list(told["results"][-1]["node"]) == ["id"]
        assert len(json.dumps(told)) < 100_000


async def test_folders_are_made_for_the_items_that_ask_for_it(tmp_path: Path) -> None:
    async with connected(tmp_path, many(1)) as rig:
        told = await rig.call(
            "bookmark_batch",
            do="add",
            items=[
                {"title": "a", "url": SITE, "parentId": "Bar > New", "createFolders": True},
                {"title": "b", "url": SITE, "parentId": "Bar > Other new"},
            ],
        )
        assert (told["done"], told["failed"]) == (1, 1)
        assert told["results"][0]["node"]["parentId"] == rig.chrome.find("New")
        assert told["results"][1]["error"]["code"] == "BOOKMARK_NOT_FOUND"


async def test_a_search_has_the_bare_array_in_the_text_and_the_total_beside_it(
    tmp_path: Path,
) -> None:
    async with connected(tmp_path, many(1_200)) as rig:
        first = await rig.ask("bookmark_search", query="example")
        nodes = json.loads(first.content[0].text)
        structured = first.structured_content
        assert (len(nodes), structured["total"], structured["next"]) == (1_000, 1_200, 1_000)
        rest = await rig.call("bookmark_search", query="example", offset=structured["next"])
        assert (len(rest["nodes"]), rest["total"], "next" in rest) == (200, 1_200, False)
        few = await rig.call("bookmark_search", query="example", limit=3)
        assert (len(few["nodes"]), few["next"]) == (3, 3)


async def test_an_undo_takes_the_last_change_of_whichever_profile(tmp_path: Path) -> None:
    home, work = many(1), many(1)
    async with opened(tmp_path) as (client, port, code):
        rig = Rig(client, home)
        await client.call_tool("bookmark_search", {"query": "x"})  # the port opens on first use
        async with (
            extension(port, code, profile="p-home", name="Home", carry_out=carried_out_by(home)),
            extension(port, code, profile="p-work", name="Work", carry_out=carried_out_by(work)),
        ):
            before = home.shape(), work.shape()
            for profile in ("Home", "Work", "Home"):
                await rig.call("bookmark_add", profile=profile, title=profile, url=SITE)
            twice = home.shape()
            await rig.call("bookmark_undo")
            assert home.shape() != twice
            assert work.shape() != before[1]
            await rig.call("bookmark_undo")
            assert work.shape() == before[1]
            assert home.shape() != before[0]
            await rig.call("bookmark_undo")
            assert (home.shape(), work.shape()) == before
            assert (await rig.fault("bookmark_undo"))["code"] == "NOTHING_TO_UNDO"

"""docs/guides/bookmarks.md, done as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.bookmarks.wire import connected
from tests.support.chrome_bookmarks import ChromeBookmarks

pytestmark = pytest.mark.anyio

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "bookmarks.md").read_text()


def section(number: int) -> str:
    return re.split(r"^## \d\. .*$", GUIDE, flags=re.M)[number]


def blocks(number: int) -> list[dict[str, Any]]:
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", section(number), re.S)]


def calls() -> list[tuple[str, dict[str, Any]]]:
    """The tool calls of the table."""
    found = re.findall(r"\| `(\w+) (\{.*?\})` \|", section(2))
    return [(name, json.loads(arguments)) for name, arguments in found]


def test_the_guide_has_what_is_tested_here() -> None:
    assert len(calls()) == 8
    assert [len(blocks(number)) for number in (4, 5)] == [2, 1]


async def test_a_newcomer_gets_from_the_first_search_to_an_undo(tmp_path: Path) -> None:
    chrome = ChromeBookmarks([{"title": "Tech", "children": []}])
    async with connected(tmp_path, chrome) as rig:
        before = chrome.shape()
        for name, arguments in calls():  # first: a link that is there would be asked for
            assert await rig.call(name, **arguments), name
        add, batch = blocks(4)
        assert (await rig.call("bookmark_add", **add))["parentId"] == chrome.find("AI")
        told = await rig.call("bookmark_batch", **batch)
        assert ["error" in one for one in told["results"]] == [False, True]
        (plan,) = blocks(5)
        planned = await rig.call("bookmark_plan", **plan)
        await rig.call("bookmark_apply", planId=planned["planId"])
        assert "Read later" in str(chrome.shape())
        for _ in range(3):
            await rig.call("bookmark_undo")
        assert chrome.shape() == before
        assert len((await rig.call("bookmark_journal"))["entries"]) == 6

"""Import and export: what gets into a file and out of it, and what does not."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.bookmarks.changes.apply import undo
from pilothouse.bookmarks.model import BookmarkNotFound, InvalidUrl
from pilothouse.bookmarks.tools.file import MOST_INLINE, bookmark_export, bookmark_import
from pilothouse.core.declare.faults import InvalidInput, PermissionDenied
from tests.support.bookmarking import Bookmarking
from tests.support.chrome_bookmarks import BAD_URL, BAR, OTHER, ChromeBookmarks, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.anyio

TREE: list[dict[str, Any]] = [
    {
        "title": "技術 & more",
        "children": [
            {"title": "One", "url": "https://one.example/"},
            {
                "title": "Deep",
                "children": [{"title": "Two", "url": "https://two.example/?a=1&b=2"}],
            },
            {"title": "Empty", "children": []},
        ],
    },
    {"title": "Three", "url": "https://three.example/"},
]


@pytest.fixture
def rig(tmp_path: Path) -> Bookmarking:
    return Bookmarking(ChromeBookmarks(TREE), tmp_path)


def text_of(exported: dict[str, Any]) -> str:
    return Path(exported["path"]).read_text()


@pytest.mark.parametrize("form", ["html", "json"])
async def test_what_one_chrome_exports_another_imports(
    rig: Bookmarking, tmp_path: Path, form: str
) -> None:
    exported = await rig.call(bookmark_export, folderId="Bar", format=form)
    assert (exported["bookmarks"], exported["folders"]) == (3, 4)
    about = os.stat(exported["path"])
    assert about.st_size == exported["bytes"]
    assert stat.S_IMODE(about.st_mode) == 0o600
    (tmp_path / "other").mkdir()
    other = Bookmarking(ChromeBookmarks(), tmp_path / "other")
    content = text_of(exported)
    imported = await other.call(bookmark_import, content=content, parentId="Other")
    assert (imported["bookmarks"], imported["folders"], imported["skipped"]) == (3, 4, 0)
    assert imported["folderId"] == OTHER
    assert other.chrome.shape(OTHER)[1] == [rig.chrome.shape("1")]


async def test_all_is_exported_without_the_root_and_with_the_kinds_of_chromes_folders(
    rig: Bookmarking,
) -> None:
    text = (await rig.call(bookmark_export, inline=True))["content"]
    assert 'PERSONAL_TOOLBAR_FOLDER="true">Lesezeichenleiste</H3>' in text
    assert 'UNFILED_BOOKMARKS_FOLDER="true"' in text
    read = json.loads((await rig.call(bookmark_export, format="json", inline=True))["content"])
    assert [node["folderType"] for node in read["nodes"]] == ["bookmarks-bar", "other"]
    assert "id" not in read["nodes"][0]


async def test_secrets_are_masked_in_the_file_and_counted(tmp_path: Path) -> None:
    tree = [{"title": "Signed", "url": "https://a.example/?token=abc123def"}, TREE[1]]
    rig = Bookmarking(ChromeBookmarks(tree), tmp_path)
    answer = await rig.ask(bookmark_export)
    assert answer.structured["masked"] == 1
    assert "mask in place of a secret" in answer.text
    text = text_of(answer.structured)
    assert "abc123def" not in text
    back = await rig.call(bookmark_import, content=text)
    assert (back["bookmarks"], back["skipped"]) == (1, 1)
    assert "mask" in back["examples"][0]["reason"]


async def test_a_text_that_is_too_long_to_answer_with_is_still_a_file(tmp_path: Path) -> None:
    tree = [{"title": "x" * 1_000, "url": "https://a.example/"}] * (MOST_INLINE // 1_000)
    rig = Bookmarking(ChromeBookmarks(tree), tmp_path)
    with pytest.raises(InvalidInput, match="too many") as failed:
        await rig.call(bookmark_export, inline=True)
    path = failed.value.hint.rpartition(" ")[2]
    assert len(text_of({"path": path})) > MOST_INLINE


async def test_an_import_goes_into_a_folder_of_its_own_and_is_undone_as_one(
    rig: Bookmarking,
) -> None:
    before = rig.chrome.shape()
    content = json.dumps(TREE)
    answer = await rig.ask(bookmark_import, content=content)
    (folder,) = rig.chrome.get({"ids": [answer.structured["folderId"]]})
    assert (folder["title"], folder["parentId"]) == ("Imported", OTHER)
    assert answer.structured["entry"] in answer.text
    await undo(rig.profile(None), answer.structured["entry"])
    assert rig.chrome.shape() == before


async def test_scripts_and_what_is_there_already_are_left_out(rig: Bookmarking) -> None:
    nodes = [
        {"title": "Bookmarklet", "url": "javascript:alert(1)"},
        {"title": "No address", "url": "http://"},
        {"title": "Recent", "url": "place:sort=8"},
        {"title": "There", "url": "HTTPS://ONE.example/"},
        {"title": "New", "url": "https://new.example/"},
    ]
    told = await rig.call(bookmark_import, content=json.dumps(nodes), skipExisting=True)
    assert (told["bookmarks"], told["skipped"]) == (1, 4)
    assert [one["title"] for one in told["examples"]] == [
        *("Bookmarklet", "No address", "Recent", "There")
    ]
    assert "javascript:" in told["examples"][0]["reason"]


async def test_a_file_is_read_from_where_a_session_may_read(
    rig: Bookmarking, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "b.json").write_text("\ufeff" + json.dumps(TREE))
    asked = {"path": "b.json", "parentId": "Bar > New > Newer", "createFolders": True}
    told = await rig.call(bookmark_import, **asked)
    assert (told["bookmarks"], told["folders"]) == (3, 5)
    assert told["folderId"] == rig.chrome.find("Newer")
    outside = tmp_path_factory.mktemp("outside") / "b.json"
    outside.write_text(json.dumps(TREE))
    (tmp_path / "link.json").symlink_to(outside)
    for path in (str(outside), "../outside/b.json", "link.json", "/etc/passwd"):
        with pytest.raises(PermissionDenied):
            await rig.call(bookmark_import, path=path)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"path": "a", "content": "b"},
        {"path": "not-there.html"},
        {"path": "."},
        {"path": "a\0b"},
        {"content": "no bookmarks"},
        {"content": "<!DOCTYPE NETSCAPE-Bookmark-file-1><DL></DL>"},
    ],
)
async def test_what_cannot_be_imported_changes_nothing(
    rig: Bookmarking, arguments: dict[str, str]
) -> None:
    before = rig.chrome.shape()
    with pytest.raises(InvalidInput) as failed:
        await rig.call(bookmark_import, **arguments)
    assert failed.value.hint
    assert rig.chrome.shape() == before


class Picky(ChromeBookmarks):
    """Knows an address that it does not take, for reasons of its own."""

    def create(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params.get("url") == "https://odd.example/":
            raise Refused(BAD_URL)
        return super().create(params)


async def test_an_address_that_only_chrome_refuses_is_named_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    rig = Bookmarking(Picky(TREE), tmp_path)
    before = rig.chrome.shape()
    nodes = [TREE[1], {"title": "Odd", "url": "https://odd.example/"}]
    with pytest.raises(InvalidUrl) as failed:
        await rig.call(bookmark_import, content=json.dumps(nodes))
    assert failed.value.details["title"] == "Odd"
    assert rig.chrome.shape() == before


async def test_halves_of_characters_do_not_break_an_export(tmp_path: Path) -> None:
    tree = [{"title": "half \ud83d", "url": "https://a.example/"}]
    rig = Bookmarking(ChromeBookmarks(tree), tmp_path)
    for form in ("html", "json"):
        exported = await rig.call(bookmark_export, format=form, inline=True)
        assert exported["bookmarks"] == 1
        assert "half" in text_of(exported)


async def test_an_unknown_folder_is_told(rig: Bookmarking) -> None:
    with pytest.raises(BookmarkNotFound):
        await rig.call(bookmark_export, folderId="Bar > Nowhere")
    with pytest.raises(BookmarkNotFound):
        await rig.call(bookmark_import, content=json.dumps(TREE), parentId="Bar > Nowhere")


async def test_nothing_new_is_no_change(rig: Bookmarking) -> None:
    before = rig.chrome.shape()
    told = await rig.call(bookmark_import, content=json.dumps([TREE[1]]), skipExisting=True)
    assert (told["bookmarks"], told["skipped"], told["entry"]) == (0, 1, "")
    assert rig.chrome.shape() == before


async def test_where_nothing_could_be_imported_no_folder_is_named(rig: Bookmarking) -> None:
    before = rig.chrome.shape()
    script = json.dumps([{"title": "Runs", "url": "javascript:alert(1)"}])
    told = await rig.call(bookmark_import, content=script)
    assert (told.get("folderId"), told["skipped"], told["entry"]) == (None, 1, "")
    there = await rig.call(bookmark_import, content=script, parentId="Bar")
    assert there["folderId"] == BAR
    assert rig.chrome.shape() == before


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "Shift_JIS", "EUC-JP", "no-such-charset"])
async def test_a_file_is_read_in_the_charset_that_it_names(
    rig: Bookmarking, tmp_path: Path, charset: str
) -> None:
    text = f"""<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset={charset}">
        <DL><DT><A HREF="https://a.example/">技術</A></DL>"""
    data = text.encode("utf-8" if charset.startswith("no") else charset)
    (tmp_path / "old.html").write_bytes(data)
    told = await rig.call(bookmark_import, path="old.html")
    assert [one["title"] for one in rig.chrome.get_children({"id": told["folderId"]})] == ["技術"]


async def test_an_import_of_many_tells_how_far_it_is(rig: Bookmarking) -> None:
    many = [{"title": str(n), "url": f"https://a.example/{n}"} for n in range(249)]
    await rig.call(bookmark_import, content=json.dumps(many))
    assert rig.progress == [(100, 250), (200, 250), (250, 250)]

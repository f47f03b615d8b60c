"""What a list of changes would do, before any of it is done."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.bookmarks.changes.change import (
    Change,
    Create,
    Move,
    Remove,
    RemoveTree,
    Update,
    apply,
    from_json,
    params_of,
    renamed,
    to_json,
)
from pilothouse.bookmarks.changes.draft import Draft
from pilothouse.bookmarks.changes.preview import differing, dry_run
from pilothouse.bookmarks.model import BookmarkNotFound, FolderNotEmpty, RootFolder
from pilothouse.bookmarks.tree.paths import DEEPEST
from pilothouse.core.declare.faults import Fault, InvalidInput
from tests.support.chrome_bookmarks import BAR, ROOT, ChromeBookmarks
from tests.support.memory_profile import possible_changes

pytestmark = pytest.mark.anyio

TREE: list[dict[str, Any]] = [
    {"title": "News", "children": [{"title": "A", "url": "https://a.example/"}]},
    {"title": "B", "url": "https://b.example/"},
    {"title": "C", "url": "https://c.example/"},
]
leaves = st.fixed_dictionaries(
    {"title": st.sampled_from("abc"), "url": st.sampled_from(["https://a.example/", "about:x"])}
)
trees = st.lists(
    st.recursive(
        leaves,
        lambda inner: st.fixed_dictionaries(
            {"title": st.sampled_from("FGH"), "children": st.lists(inner, max_size=4)}
        ),
        max_leaves=10,
    ),
    max_size=4,
)
numbers = st.integers(0, 40)
rolls = st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=12)


def tree_of(chrome: ChromeBookmarks) -> list[dict[str, Any]]:
    return chrome.get_tree({})


def shape(draft: Draft, id: str = ROOT) -> Any:
    item = draft[id]
    if item.url is not None:
        return [item.title, item.url]
    return [item.title, [shape(draft, child) for child in item.children]]


@pytest.mark.parametrize(
    "change",
    [
        Create(None, "t"),
        Create("1", "t", "https://a.example/", 0, restores="7"),
        Update("4", title="x"),
        Move("4", "1", 2),
        Remove("4"),
        RemoveTree("4"),
    ],
)
def test_a_change_is_read_back_as_it_was_written(change: Change) -> None:
    assert from_json(to_json(change)) == change
    assert "restores" not in params_of(change)


def test_a_list_of_changes_is_shown_as_one_difference() -> None:
    chrome = ChromeBookmarks(TREE)
    news, b, c = chrome.find("News"), chrome.find("B"), chrome.find("C")
    preview = dry_run(
        tree_of(chrome),
        [
            Create(BAR, "Later", index=0),
            Move(b, "$1"),
            Update(c, title="See"),
            RemoveTree(news),
            Create("$1", "D", "https://d.example/"),
        ],
    )
    assert preview.added == [
        {"ref": "$1", "title": "Later", "url": None, "in": "Bar"},
        {"ref": "$5", "title": "D", "url": "https://d.example/", "in": "Bar > Later"},
    ]
    assert [(one["id"], one["with"], one["in"]) for one in preview.removed] == [(news, 1, "Bar")]
    assert preview.changed == [
        {"id": c, "was": {"title": "C"}, "now": {"title": "See"}, "in": "Bar"}
    ]
    moved = {"id": b, "title": "B", "from": "Bar", "fromIndex": 1, "to": "Bar > Later"}
    assert preview.moved == [{**moved, "toIndex": 0}]


def test_what_is_made_and_removed_again_is_no_difference() -> None:
    chrome = ChromeBookmarks(TREE)
    preview = dry_run(tree_of(chrome), [Create(BAR, "Later"), Remove("$1")])
    assert [preview.added, preview.removed, preview.changed, preview.moved] == [[], [], [], []]


def test_a_dry_run_leaves_the_tree_as_it_is() -> None:
    chrome = ChromeBookmarks(TREE)
    tree = tree_of(chrome)
    dry_run(tree, [RemoveTree(chrome.find("News")), Move(chrome.find("C"), BAR, 0)])
    assert tree == tree_of(chrome)


@pytest.mark.parametrize(
    ("change", "fault", "word"),
    [
        (Remove("99"), BookmarkNotFound, "99"),
        (Create("99", "x"), BookmarkNotFound, "99"),
        (Remove("4"), FolderNotEmpty, "1 things"),
        (Update("1", title="x"), RootFolder, "Chrome's own"),
        (Create("0", "x"), RootFolder, "beside"),
        (Create("6", "x"), InvalidInput, "not a folder"),
        (Update("4", url="https://x.example/"), InvalidInput, "folder"),
        (Update("6"), InvalidInput, "title or a url"),
        (Move("4", "4"), InvalidInput, "into itself"),
        (Move("6", "1", 4), InvalidInput, "out of bounds"),
        (Remove("$2"), InvalidInput, "before this one"),
        (Remove("$1"), InvalidInput, "before this one"),
    ],
)
def test_a_change_that_chrome_would_refuse_is_named_with_its_number(
    change: Change, fault: type[Fault], word: str
) -> None:
    tree = tree_of(ChromeBookmarks(TREE))
    with pytest.raises(fault) as caught:
        dry_run(tree, [Update("6", title="fine"), change])
    assert caught.value.message.startswith("change 2 of 2: ")
    assert word in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("index", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("title", ["News", "B", "C"])
def test_a_place_in_the_same_folder_is_counted_as_chrome_counts_it(
    title: str, index: int | None
) -> None:
    chrome = ChromeBookmarks(TREE)
    draft = Draft(tree_of(chrome))
    change = Move(chrome.find(title), BAR, index)
    apply(draft, change)
    chrome.move(params_of(change))
    assert shape(draft) == chrome.shape()


@given(trees, rolls)
def test_a_draft_changes_as_chrome_does(tree: Any, chosen: Any) -> None:
    chrome = ChromeBookmarks(tree)
    draft = Draft(tree_of(chrome))
    made: list[str] = []

    def real(id: str) -> str:
        return made[int(id[1:]) - 1] if id.startswith("$") else id

    async def both() -> None:
        for number, change in enumerate(possible_changes(tree_of(chrome), chosen), 1):
            apply(draft, change, f"${number}")
            named = renamed(change, real)
            node = await chrome.ask(to_json(named)["do"], params_of(named))
            made.append((node or {"id": ""})["id"])
            assert shape(draft) == chrome.shape()

    anyio.run(both)


@pytest.mark.parametrize(
    ("plan", "edit", "what"),
    [
        ([Update("6", title="x")], ("update", {"id": "6", "title": "y"}), ["title"]),
        ([Move("6", "4")], ("move", {"id": "6", "parentId": "2"}), ["parentId"]),
        ([RemoveTree("4")], ("update", {"id": "5", "title": "y"}), ["title"]),
        ([RemoveTree("4")], ("create", {"parentId": "4", "title": "y"}), ["children"]),
        ([Remove("6")], ("remove", {"id": "6"}), ["gone"]),
        ([Create("4", "x", index=0)], ("remove", {"id": "5"}), ["children"]),
        ([Create("4", "x")], ("remove", {"id": "5"}), []),
        ([Update("6", title="x")], ("update", {"id": "7", "title": "y"}), []),
        ([Update("6", title="x")], ("create", {"parentId": "1", "title": "y", "index": 0}), []),
    ],
)
async def test_only_a_change_of_what_the_plan_is_about_counts(
    plan: list[Change], edit: tuple[str, dict[str, Any]], what: list[str]
) -> None:
    chrome = ChromeBookmarks(TREE)
    expected = dry_run(tree_of(chrome), plan).expected
    assert differing(tree_of(chrome), expected) == []
    await chrome.ask(*edit)
    assert [one["what"] for one in differing(tree_of(chrome), expected)] == what


def test_paths_name_chromes_own_folders_in_one_language_and_quote_what_needs_it() -> None:
    chrome = ChromeBookmarks([{"title": "a > b", "children": []}])
    assert Draft(tree_of(chrome)).path(chrome.find("a > b")) == 'Bar > "a > b"'


def test_nothing_is_put_deeper_than_chrome_can_show_it() -> None:
    chrome = ChromeBookmarks([{"title": "Top", "children": []}])
    bottom = chrome.find("Top")
    for _ in range(DEEPEST - 3):  # beside the root, the bar and the top
        bottom = chrome.create({"parentId": bottom, "title": "Folder"})["id"]
    pair: list[Change] = [Create(BAR, "Outer"), Create("$1", "Inner")]
    draft = Draft(tree_of(chrome))
    apply(draft, Create(bottom, "Last"), "$1")
    deeper: list[Change] = [Create(bottom, "Last"), Create("$1", "Too deep", "https://a.example/")]
    for changes in (deeper, [*pair, Move("$1", bottom)]):
        with pytest.raises(InvalidInput, match="more than 98 folders"):
            dry_run(tree_of(chrome), changes)
    assert len(dry_run(tree_of(chrome), [*pair, Move("$2", bottom)]).added) == 2

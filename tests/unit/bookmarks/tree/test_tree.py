"""Large trees: what is shown, what is counted, how one reads on."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.bookmarks.tree.tree import MOST_NODES, counts, cut, flat, part, walk

type Node = dict[str, Any]

SHAPES = st.recursive(
    st.just("url"), lambda inner: st.lists(inner, max_size=6), max_leaves=60
).filter(lambda shape: shape != "url")


def tree(shape: Any) -> list[Node]:
    """A root with folders (lists) and bookmarks (anything else) of this shape."""
    numbers = iter(range(10_000))

    def node(inner: Any, parent: str) -> Node:
        id = str(next(numbers))
        made: Node = {"id": id, "parentId": parent, "title": f"t{id}"}
        if isinstance(inner, list):
            return {**made, "children": [node(one, id) for one in inner]}
        return {**made, "url": f"https://example.com/{id}"}

    return [node(shape, "")]


def left_out(nodes: list[Node]) -> int:
    return sum(sum(node.get("leftOut", {}).values()) for node in flat(nodes))


@given(SHAPES, st.one_of(st.none(), st.integers(0, 6)), st.one_of(st.none(), st.integers(2, 30)))
def test_what_is_shown_and_what_is_counted_is_everything(
    shape: Any, depth: int | None, most: int | None
) -> None:
    whole = tree(shape)
    before = deepcopy(whole)
    shown = cut(whole, depth, most)
    assert len(flat(shown)) + left_out(shown) == len(flat(whole))
    assert whole == before
    assert {node["id"] for node in flat(shown)} <= {node["id"] for node in flat(whole)}
    assert most is None or len(flat(shown)) <= most
    assert ("readOn" in shown[0]) == (left_out(shown) > 0)


@given(SHAPES)
def test_a_tree_that_fits_is_passed_on_as_it_is(shape: Any) -> None:
    whole = tree(shape)
    assert cut(whole) is whole


def test_a_depth_cuts_there() -> None:
    (root,) = cut(tree([["url", ["url"]], "url"]), depth=1)
    folder, bookmark = root["children"]
    assert "children" not in folder
    assert folder["leftOut"] == {"bookmarks": 2, "folders": 1}
    assert "leftOut" not in bookmark


def test_an_empty_folder_is_whole() -> None:
    (root,) = cut(tree([[], ["url"]]), depth=1)
    assert root["children"][0]["children"] == []
    assert "leftOut" in root["children"][1]


def test_a_large_tree_is_cut_at_the_depth_that_fits() -> None:
    (root,) = cut(tree([["url"] * 700, ["url"] * 700]))
    assert [node["leftOut"]["bookmarks"] for node in root["children"]] == [700, 700]
    assert "all: true" in root["readOn"]


def test_a_folder_with_too_many_children_shows_its_beginning() -> None:
    (root,) = cut(tree(["url"] * 5_000))
    assert len(root["children"]) == MOST_NODES - 1
    assert root["leftOut"] == {"bookmarks": 5_000 - MOST_NODES + 1, "folders": 0}


def test_paths_begin_with_chromes_own_folders_by_their_english_names() -> None:
    nodes = [
        {
            "id": "0",
            "title": "",
            "children": [
                {
                    "id": "1",
                    "parentId": "0",
                    "title": "Lesezeichenleiste",
                    "folderType": "bookmarks-bar",
                    "children": [{"id": "9", "parentId": "1", "title": "Tech", "children": []}],
                }
            ],
        }
    ]
    assert [path for _, path in walk(nodes)] == [(), ("Bar",), ("Bar", "Tech")]
    assert [path for _, path in part(nodes, "9")] == [("Bar", "Tech")]
    assert part(nodes, "10") == []


@pytest.mark.parametrize(("shape", "marks", "folders"), [([], 0, 1), (["url", ["url"]], 2, 2)])
def test_counting(shape: Any, marks: int, folders: int) -> None:
    assert counts(tree(shape)) == {"bookmarks": marks, "folders": folders}

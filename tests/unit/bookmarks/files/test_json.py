"""Bookmarks as JSON: ours, Chrome's own file, Firefox's backups."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from pilothouse.bookmarks.files.json import read_json, write_json
from pilothouse.bookmarks.files.node import DEEPEST, Saved
from pilothouse.core.declare.faults import InvalidInput
from tests.unit.bookmarks.saved_trees import TREES


@given(TREES.filter(lambda trees: any(one.title or one.url for one in trees)))
def test_what_is_written_is_read_as_it_was(saved: list[Saved]) -> None:
    assert read_json(write_json(saved, exported_at="2026-01-01T00:00:00+00:00")) == saved


def test_nodes_as_tools_answer_them_are_read() -> None:
    text = json.dumps([{"id": "5", "title": "T", "url": "https://a.example/", "dateAdded": 1e12}])
    assert read_json(text) == [Saved("T", "https://a.example/", 1e12)]


def test_the_file_of_chromes_profile_is_read() -> None:
    page = {
        "type": "url",
        "name": "本",
        "url": "https://a.example/",
        "date_added": "13344473600000000",
    }
    folder = {"type": "folder", "name": "F", "date_added": "0", "children": [page]}
    roots = {"bookmark_bar": {"name": "Bar", "children": [folder]}, "other": {"name": "O"}}
    bar, other = read_json(json.dumps({"checksum": "x", "roots": roots, "version": 1}))
    assert (bar.kind, other.kind) == ("bookmarks-bar", "other")
    (made,) = bar.children[0].children
    assert made == Saved("本", "https://a.example/", 1_700_000_000_000)
    assert bar.children[0].added is None


def test_a_backup_of_firefox_is_read_without_separators() -> None:
    page = {"title": "P", "uri": "https://a.example/", "dateAdded": 1_700_000_000_000_000}
    toolbar = {
        "title": "toolbar",
        "root": "toolbarFolder",
        "children": [page, {"type": "text/x-moz-place-separator"}],
    }
    (read,) = read_json(json.dumps({"title": "", "root": "placesRoot", "children": [toolbar]}))
    assert read.kind == "bookmarks-bar"
    assert read.children == [Saved("P", "https://a.example/", 1_700_000_000_000)]


def nested(depth: int) -> Any:
    node: dict[str, Any] = {"title": "x"}
    for _ in range(depth):
        node = {"title": "x", "children": [node]}
    return [node]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "5",
        "null",
        "{}",
        '{"nodes": 5}',
        "[1]",
        '[{"a": 1}]',
        '{"roots": {"other": 5}}',
        '[{"title": "x", "children": "y"}]',
        json.dumps(nested(DEEPEST + 2)),
        "[" * 100_000,
    ],
)
def test_what_is_no_bookmarks_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as failed:
        read_json(text)
    assert failed.value.hint

"""Bookmarks of one page."""

from __future__ import annotations

from typing import Any

from pilothouse.bookmarks.tree.duplicates import find_duplicates


def mark(id: str, url: str, added: float = 0, folder: str = "Bar") -> Any:
    return {"id": id, "title": id, "url": url, "dateAdded": added}, (folder, id)


def test_the_oldest_is_kept_and_the_others_are_extra() -> None:
    groups = find_duplicates(
        [
            mark("1", "https://a.example/", 30),
            mark("2", "http://www.a.example", 10),
            mark("3", "https://a.example/?utm_source=x", 20),
            mark("4", "https://b.example/", 5),
        ]
    )
    (group,) = groups
    assert [node["id"] for node, _ in group.found] == ["2", "3", "1"]
    assert group.extra == ["3", "1"]


def test_strictly_the_same_are_fewer() -> None:
    found = [mark("1", "https://a.example/"), mark("2", "http://a.example/")]
    assert find_duplicates(found, strict=True) == []
    assert len(find_duplicates(found)) == 1


def test_the_largest_group_comes_first_and_folders_are_none() -> None:
    found = [
        mark("1", "https://a.example/"),
        mark("2", "https://a.example/"),
        *(mark(str(number), "https://b.example/") for number in range(3, 6)),
        ({"id": "9", "title": "F"}, ("Bar", "F")),
        ({"id": "10", "title": "F"}, ("Bar", "F")),
    ]
    assert [len(group.found) for group in find_duplicates(found)] == [3, 2]

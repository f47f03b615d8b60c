"""Plans on a real Chromium: all or nothing, a person's edits in between, undone after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.bookmark_chrome import BAR, OTHER, BookmarkChrome, Desk

pytestmark = pytest.mark.browser

URL = "https://example.com/"
REFUSED_BY_CHROME_ALONE = "ftp://[::1/"


def make(chrome: BookmarkChrome, *titles: str, parent: str = OTHER) -> list[str]:
    return [
        str(chrome.by_hand("create", {"parentId": parent, "title": t, "url": URL + t})["id"])
        for t in titles
    ]


def shape(chrome: BookmarkChrome, folder: str = "0") -> Any:
    """All titles and addresses below a folder."""
    return [
        [child["title"], child.get("url") or shape(chrome, child["id"])]
        for child in chrome.children(folder)
    ]


def a_plan(chrome: BookmarkChrome) -> list[dict[str, Any]]:
    """One change of each kind, on what it makes first."""
    a, b, c = make(chrome, "a", "b", "c")
    old = chrome.by_hand("create", {"parentId": BAR, "title": "Old"})["id"]
    make(chrome, "x", "y", parent=old)
    return [
        {"do": "create", "parentId": "Bar", "title": "Later"},
        {"do": "create", "parentId": "$1", "title": "New", "url": URL + "new"},
        {"do": "move", "id": a, "parentId": "$1", "index": 0},
        {"do": "update", "id": b, "title": "B", "url": URL + "B"},
        {"do": "remove", "id": c},
        {"do": "removeTree", "id": "Bar > Old"},
    ]


DONE = [["Later", [["a", URL + "a"], ["New", URL + "new"]]]]


def test_a_plan_shows_all_and_changes_nothing_until_it_is_applied(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    changes = a_plan(chrome)
    before = shape(chrome)
    plan = desk.call("bookmark_plan", changes=changes)
    assert (plan["adds"], plan["removes"], plan["changes"], plan["moves"]) == (2, 4, 1, 1)
    assert shape(chrome) == before
    applied = desk.call("bookmark_apply", planId=plan["planId"])
    assert shape(chrome, BAR) == DONE
    assert shape(chrome, OTHER) == [["B", URL + "B"]]
    assert [node and node["title"] for node in applied["nodes"]] == [
        "Later",
        "New",
        "a",
        "B",
        None,
        None,
    ]
    again = desk.fault("bookmark_apply", planId=plan["planId"])
    assert again["code"] == "PLAN_NOT_FOUND"
    assert shape(chrome, BAR) == DONE


def test_undo_brings_everything_back_and_names_the_new_ids(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    changes = a_plan(chrome)
    before = shape(chrome)
    plan = desk.call("bookmark_plan", changes=changes)
    applied = desk.call("bookmark_apply", planId=plan["planId"])
    undone = desk.call("bookmark_undo", entry=applied["entry"])
    assert shape(chrome) == before
    assert len(undone["idMap"]) == 4
    removed = changes[4]["id"]
    assert chrome.by_hand("get", undone["idMap"][removed])[0]["title"] == "c"
    # The undo of the undo does it again.
    desk.call("bookmark_undo", entry=undone["entry"])
    assert shape(chrome, BAR) == DONE
    assert desk.fault("bookmark_undo", entry="no-such")["code"] == "NOTHING_TO_UNDO"


def test_a_persons_edit_between_plan_and_apply_is_never_overwritten(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    changes = a_plan(chrome)
    plan = desk.call("bookmark_plan", changes=changes)
    chrome.by_hand("update", changes[3]["id"], {"title": "mine"})
    by_now = shape(chrome)
    fault = desk.fault("bookmark_apply", planId=plan["planId"])
    assert (fault["code"], shape(chrome)) == ("CHANGED_MEANWHILE", by_now)
    assert "mine" in fault["message"]
    # Planned anew, with the edit seen, it goes through.
    anew = desk.call("bookmark_plan", changes=changes)
    desk.call("bookmark_apply", planId=anew["planId"])
    assert shape(chrome, BAR) == DONE


def test_a_persons_edit_elsewhere_does_not_stand_in_the_way(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    (a,) = make(chrome, "a")
    (elsewhere,) = make(chrome, "elsewhere", parent=BAR)
    plan = desk.call("bookmark_plan", changes=[{"do": "update", "id": a, "title": "A"}])
    chrome.by_hand("update", elsewhere, {"title": "mine"})
    desk.call("bookmark_apply", planId=plan["planId"])
    assert (chrome.titles(OTHER), chrome.titles(BAR)) == (["A"], ["mine"])


def test_a_persons_edit_between_apply_and_undo_is_overwritten_only_by_force(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    (a,) = make(chrome, "a")
    desk.call("bookmark_update", id=a, title="by tool")
    chrome.by_hand("update", a, {"title": "by hand"})
    fault = desk.fault("bookmark_undo")
    assert (fault["code"], chrome.titles(OTHER)) == ("CHANGED_MEANWHILE", ["by hand"])
    desk.call("bookmark_undo", force=True)
    assert chrome.titles(OTHER) == ["a"]


def test_undo_never_removes_what_a_person_put_into_a_folder_of_ours(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    ours = desk.call("bookmark_create_folder", parentId=BAR, title="Ours")["id"]
    make(chrome, "mine", parent=ours)
    assert desk.fault("bookmark_undo")["code"] == "CHANGED_MEANWHILE"
    told = desk.call("bookmark_undo", force=True)
    assert told["left"]
    assert shape(chrome, BAR) == [["Ours", [["mine", URL + "mine"]]]]


def test_a_plan_that_chrome_refuses_half_way_leaves_nothing_behind(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    (a,) = make(chrome, "a")
    before = shape(chrome)
    changes = [
        {"do": "create", "title": "First"},
        {"do": "update", "id": a, "title": "changed"},
        {"do": "create", "title": "Bad", "url": REFUSED_BY_CHROME_ALONE},
    ]
    plan = desk.call("bookmark_plan", changes=changes)
    fault = desk.fault("bookmark_apply", planId=plan["planId"])
    assert (fault["code"], fault["details"]["change"]) == ("INVALID_URL", 3)
    assert "taken back" in fault["message"]
    assert shape(chrome) == before


def test_every_destructive_tool_can_be_undone(desk: Desk, chrome: BookmarkChrome) -> None:
    folder = chrome.by_hand("create", {"parentId": BAR, "title": "Folder"})["id"]
    a, _ = make(chrome, "a", "b", parent=folder)
    before = shape(chrome)
    for tool, arguments in (
        ("bookmark_update", {"id": a, "title": "A", "url": URL + "A"}),
        ("bookmark_move", {"id": a, "parentId": OTHER}),
        ("bookmark_remove", {"id": a}),
        ("bookmark_remove_tree", {"id": folder}),
        ("bookmark_add", {"title": "x", "url": URL}),
        ("bookmark_create_folder", {"title": "x"}),
    ):
        desk.call(tool, **arguments)
        assert shape(chrome) != before, tool
        back = desk.call("bookmark_undo")["idMap"]
        assert shape(chrome) == before, tool
        a, folder = back.get(a, a), back.get(folder, folder)


def test_what_ran_in_the_page_comes_back_though_nobody_could_add_it(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    script = "javascript:alert(1)"
    made = chrome.by_hand("create", {"title": "Marklet", "url": script})
    desk.call("bookmark_remove", id=made["id"])
    desk.call("bookmark_undo")
    assert shape(chrome, OTHER) == [["Marklet", script]]


def test_undo_works_after_a_restart_of_the_server() -> None:
    with BookmarkChrome() as chrome:
        with Desk() as first:
            chrome.connect(first.open())
            changes = a_plan(chrome)
            before = shape(chrome)
            plan = first.call("bookmark_plan", changes=changes)
            entry = first.call("bookmark_apply", planId=plan["planId"])["entry"]
            first.stop()
            with Desk(home=first.home, port=first.bookmarks_port) as second:
                second.open().until_connected("Work")
                listed = second.call("bookmark_journal")["entries"]
                assert listed[0]["entry"] == entry
                assert (listed[0]["undoable"], listed[0]["tool"]) == (True, "bookmark_apply")
                second.call("bookmark_undo", entry=entry)
                assert shape(chrome) == before

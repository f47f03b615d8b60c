"""Workers that die during calls, and several profiles: each call is carried out once, and told."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.bookmark_chrome import BAR, OTHER, BookmarkChrome, Desk
from tests.support.rounds import ROUNDS
from tests.support.until import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.chaos]

URL = "https://example.com/"

NEVER_ANSWERED = """
(() => {
  const create = chrome.bookmarks.create.bind(chrome.bookmarks);
  chrome.bookmarks.create = (...args) => create(...args).then(() => new Promise(() => {}));
})()
"""


def test_a_call_fails_at_once_when_the_worker_is_killed_and_the_next_one_works(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    """Chrome has made the bookmark and the worker dies before it can say so."""
    chrome.evaluate(chrome.worker, NEVER_ANSWERED)
    call = desk.begin("bookmark_add", title="Once", url=URL)
    wait_until(lambda: chrome.titles() == ["Once"], "the bookmark in Chrome")
    chrome.kill_worker()
    error = desk.answers([call])[call]["structuredContent"]["error"]
    # A call that is given up for its time has another code.
    assert error["code"] == "CONNECTION_LOST"
    assert "bookmark_journal" in error["details"]["hint"]
    chrome.by_hand("create", {"title": "Wakes the worker"})
    desk.until_connected("Work")
    assert desk.call("bookmark_get", id=BAR)["nodes"]
    # It stands, once, and the journal knows it.
    assert Counter(chrome.titles()) == {"Once": 1, "Wakes the worker": 1}
    (entry,) = (
        one
        for one in desk.call("bookmark_journal")["entries"]
        if one["entry"] == error["details"]["entry"]
    )
    assert (entry["outcome"], entry["undoable"]) == ("done", True)
    desk.call("bookmark_undo", entry=entry["entry"])
    assert chrome.titles() == ["Wakes the worker"]


def test_a_reading_call_that_the_worker_s_end_cuts_off_is_not_told_as_perhaps_done(
    desk: Desk, chrome: BookmarkChrome
) -> None:
    begun = "globalThis.begun = false; chrome.bookmarks.getTree = () =>"
    chrome.evaluate(chrome.worker, f"{begun} {{ begun = true; return new Promise(() => {{}}) }}; 1")
    call = desk.begin("bookmark_get_tree")
    wait_until(lambda: chrome.evaluate(chrome.worker, "begun"), "the call in the worker")
    chrome.kill_worker()
    error = desk.answers([call])[call]["structuredContent"]["error"]
    assert error["code"] == "CONNECTION_LOST"
    assert "nothing was changed" in error["details"]["hint"]
    assert "may have been done" not in error["details"]["hint"]
    chrome.by_hand("create", {"title": "Wakes the worker"})
    desk.until_connected("Work")


def test_whenever_the_worker_dies_nothing_is_done_twice(desk: Desk, chrome: BookmarkChrome) -> None:
    chance = random.Random(1)
    for number in range(ROUNDS):
        chrome.clear()
        desk.until_connected("Work")
        titles = [f"{number}.{n}" for n in range(40)]
        calls = {desk.begin("bookmark_add", title=title, url=URL): title for title in titles}
        time.sleep(chance.uniform(0, 0.15))  # the moment itself is what varies
        chrome.kill_worker()
        results = desk.answers(calls)
        chrome.by_hand("create", {"title": "Wakes the worker"})
        desk.until_connected("Work")
        entries = settled(desk)
        there = Counter(chrome.titles())
        assert max(there.values()) == 1, there
        for call, title in calls.items():
            told = results[call]["structuredContent"]
            if not results[call]["isError"]:
                assert there[title] == 1
            elif entry := told["error"]["details"].get("entry"):
                assert there[title] == (entries.get(entry) == "done"), told
            else:
                assert there[title] == 0, told


def settled(desk: Desk) -> dict[str, str]:
    """What became of each entry of the journal, once none is open; of some, nothing was done."""

    def outcomes() -> dict[str, str] | None:
        entries = desk.call("bookmark_journal", limit=100)["entries"]
        found = {entry["entry"]: entry["outcome"] for entry in entries}
        return None if "open" in found.values() else found

    return wait_until(outcomes, "the end of what was left open")


def test_two_profiles_get_each_its_own_calls_and_each_once() -> None:
    with ExitStack() as stack:
        desk = stack.enter_context(Desk())
        chromes = {n: stack.enter_context(BookmarkChrome(name=n)) for n in ("Work", "Home")}
        desk.open()
        for chrome in chromes.values():
            chrome.connect(desk)
        unsaid = desk.fault("bookmark_add", title="Whose?", url=URL)
        assert unsaid["code"] == "PROFILE_REQUIRED"
        assert {one["name"] for one in unsaid["details"]["profiles"]} == set(chromes)
        calls = {
            desk.begin("bookmark_add", title=f"{name} {n}", url=URL, profile=name): name
            for n in range(100)
            for name in chromes
        }
        results = desk.answers(calls)
        failed = [r["structuredContent"] for r in results.values() if r["isError"]]
        assert not failed, failed[:3]
        for name, chrome in chromes.items():
            assert sorted(chrome.titles()) == sorted(f"{name} {n}" for n in range(100))
        by_id = {one["name"]: one["id"] for one in unsaid["details"]["profiles"]}
        for name, id in by_id.items():
            (folder,) = desk.call("bookmark_get_tree", folderId=OTHER, profile=id)["nodes"]
            assert all(child["title"].startswith(name) for child in folder["children"])
        assert {told["profile"] for told in desk.happenings() if told["own"]} == set(chromes)
        reads: dict[int, Any] = {}
        for n in range(200):
            name = ("Work", "Home")[n % 2]
            reads[desk.begin("bookmark_search", query=f"{name} {n // 2}", profile=name)] = name
        for call, result in desk.answers(reads).items():
            found = result["structuredContent"]["nodes"]
            assert found
            assert all(node["title"].startswith(reads[call]) for node in found)


def test_the_connection_is_given_to_the_newest_of_two_of_the_same_profile() -> None:
    with Desk() as desk, BookmarkChrome() as first, BookmarkChrome() as second:
        first.connect(desk.open())
        assert second.profile_id != first.profile_id
        second.person.evaluate(f"chrome.storage.local.set({{ profileId: '{first.profile_id}' }})")
        second.settle(desk.bookmarks_port, desk.code)
        second.until("connected")
        first.until("replaced")
        assert desk.profiles == ["Work"]
        made = desk.call("bookmark_add", title="Here", url=URL)
        assert (second.titles(), first.titles()) == (["Here"], [])
        assert second.by_hand("get", made["id"])

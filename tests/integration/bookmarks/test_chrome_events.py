"""Events of a real Chromium: what a person did is told apart from what the tools did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio import to_thread

from tests.support.bookmark_chrome import BAR, OTHER, BookmarkChrome, Desk, pairing_code
from tests.support.ports import free_port
from tests.support.servers import ERAS, PRODUCT, stdio
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp.client import Client

pytestmark = [pytest.mark.browser, pytest.mark.anyio]

URL = "https://example.com/"
TREE = "bookmarks://tree"
GUARD_S = 60


def told_of(desk: Desk, *ids: str) -> list[tuple[str, str, bool]]:
    """Change, id and whether it was our own, of the events about these nodes."""
    return [
        (event["change"], event["id"], event["own"])
        for event in desk.happenings()
        if event["id"] in ids
    ]


def until_settled(desk: Desk, chrome: BookmarkChrome) -> None:
    """Events come in order: when the last one is told, all before it are."""
    last = chrome.by_hand("create", {"title": f"last {len(desk.happenings())}"})
    desk.until_told(last["title"])


def test_own_writes_are_marked_as_own(desk: Desk, chrome: BookmarkChrome) -> None:
    folder = desk.call("bookmark_create_folder", parentId=BAR, title="Folder")["id"]
    node = desk.call("bookmark_add", title="One", url=URL)["id"]
    desk.call("bookmark_update", id=node, title="Two", url=URL + "two")
    desk.call("bookmark_move", id=node, parentId=folder)
    desk.call("bookmark_remove", id=node)
    desk.call("bookmark_remove_tree", id=folder)
    until_settled(desk, chrome)
    told = told_of(desk, node, folder)
    assert all(own for _, _, own in told), told
    assert [(change, id) for change, id, _ in told if change != "changed"] == [
        ("created", folder),
        ("created", node),
        ("moved", node),
        ("removed", node),
        ("removed", folder),
    ]
    assert ("changed", node, True) in told


def test_what_a_person_does_is_not_ours(desk: Desk, chrome: BookmarkChrome) -> None:
    node = chrome.by_hand("create", {"title": "By hand", "url": URL})["id"]
    chrome.by_hand("update", node, {"title": "Changed by hand"})
    chrome.by_hand("move", node, {"parentId": BAR})
    chrome.by_hand("remove", node)
    until_settled(desk, chrome)
    assert told_of(desk, node) == [
        ("created", node, False),
        ("changed", node, False),
        ("moved", node, False),
        ("removed", node, False),
    ]


def test_the_same_edit_by_both_at_once_is_told_apart(desk: Desk, chrome: BookmarkChrome) -> None:
    for round in range(20):
        title = f"Twice {round}"
        call = desk.begin("bookmark_add", title=title, url=URL)
        mine = chrome.by_hand("create", {"title": title, "url": URL})["id"]
        ours = desk.answers([call])[call]["structuredContent"]["id"]
        until_settled(desk, chrome)
        assert told_of(desk, ours) == [("created", ours, True)]
        assert told_of(desk, mine) == [("created", mine, False)]


def test_a_batch_of_ours_is_told_once_for_each(desk: Desk, chrome: BookmarkChrome) -> None:
    items = [{"title": f"b{n}", "url": URL} for n in range(50)]
    made = [
        one["node"]["id"] for one in desk.call("bookmark_batch", do="add", items=items)["results"]
    ]
    until_settled(desk, chrome)
    assert told_of(desk, *made) == [("created", id, True) for id in made]


def test_an_event_names_the_profile_and_hides_secrets(desk: Desk, chrome: BookmarkChrome) -> None:
    secret = "abcdefghijklmnopqrstuvwxyz0123456789"
    chrome.by_hand("create", {"title": "Masked", "url": f"{URL}?token={secret}"})
    event = desk.until_told("Masked")
    assert event["profile"] == "Work"
    assert event["url"].startswith(URL)
    assert secret not in json.dumps(desk.happenings())


@pytest.mark.parametrize("mode", ERAS)
async def test_subscribers_of_either_era_hear_of_a_persons_edit(tmp_path: Path, mode: str) -> None:
    heard = anyio.Event()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            assert str(message.params.uri) == TREE
            heard.set()

    port = free_port()
    env = {"PILOTHOUSE_HOME": str(tmp_path), "PILOTHOUSE_BOOKMARKS_PORT": str(port)}
    chrome = BookmarkChrome()
    try:
        await to_thread.run_sync(chrome.__enter__)
        arguments = ("--tools", "bookmarks", "--profile", "full")
        async with stdio(
            *arguments, mode=mode, module=PRODUCT, env=env, message_handler=hear
        ) as client:
            await client.call_tool("bookmark_get", {"id": BAR})  # which binds the port
            await to_thread.run_sync(lambda: chrome.settle(port, pairing_code(env)))
            await to_thread.run_sync(lambda: chrome.until("connected"))
            edit = lambda: chrome.by_hand("create", {"title": "By hand", "url": URL})  # noqa: E731
            await (told_in_2025 if mode == "legacy" else told_in_2026)(client, edit, heard)
            read = await client.read_resource(TREE)
            assert "By hand" in read.contents[0].text  # type: ignore[union-attr]
    finally:
        await to_thread.run_sync(chrome.__exit__)


async def told_in_2025(client: Client, edit: Callable[[], object], heard: anyio.Event) -> None:
    await client.subscribe_resource(TREE)
    await to_thread.run_sync(edit)
    with anyio.fail_after(GUARD_S):
        await heard.wait()


async def told_in_2026(client: Client, edit: Callable[[], object], _: anyio.Event) -> None:
    async with client.listen(resource_subscriptions=[TREE]) as subscription:
        await to_thread.run_sync(edit)
        with anyio.fail_after(GUARD_S):
            event = await anext(aiter(subscription))
        assert str(getattr(event, "uri", "")) == TREE


def test_the_order_that_a_person_gives_a_folder_is_told(desk: Desk, chrome: BookmarkChrome) -> None:
    ids = [chrome.by_hand("create", {"title": t, "url": URL})["id"] for t in "cab"]
    chrome.by_hand("move", ids[0], {"parentId": OTHER, "index": 3})
    wait_until(lambda: ("moved", ids[0], False) in told_of(desk, ids[0]), "the move told")
    assert [
        node["title"]
        for node in desk.call("bookmark_get_tree", folderId=OTHER)["nodes"][0]["children"]
    ] == ["a", "b", "c"]


def test_who_only_subscribes_hears_of_changes_without_a_call_before() -> None:
    with Desk() as desk, BookmarkChrome() as chrome:
        desk.request("resources/subscribe", {"uri": "bookmarks://tree"}, id=2)
        chrome.settle(desk.bookmarks_port, desk.code)
        chrome.until("connected", guard_s=30)
        chrome.by_hand("create", {"title": "by hand"})
        while desk.receive().get("method") != "notifications/resources/updated":
            pass
        assert b"by hand" in desk.resource("bookmarks://tree")

"""The user's Chrome is connected to the hub, and every worker's tools reach it there."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.bookmarks.changes.journal import open_journal
from pilothouse.bookmarks.extension.server import ExtensionServer
from pilothouse.machine.folders import private_folder
from pilothouse.wiring.extension_pairing import pairing_secret
from tests.support.bookmark_child import FOLDERS, is_whole
from tests.support.bookmarking import carried_out_by
from tests.support.chrome_bookmarks import BAR, ChromeBookmarks
from tests.support.extension_peer import extension
from tests.support.rounds import ROUNDS
from tests.support.services_rig import GUARD_S, Agent, Rig, add
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pilothouse.bookmarks.changes.journal import Journal
    from tests.support.extension_peer import CarryOut, ExtensionPeer

pytestmark = pytest.mark.anyio


@pytest.fixture
def rig(services: Rig) -> Rig:
    return services


@asynccontextmanager
async def connected(
    rig: Rig,
    chrome: ChromeBookmarks,
    name: str = "Work",
    carry_out: CarryOut | None = None,
) -> AsyncIterator[ExtensionPeer]:
    """The link of the hub with this Chrome at its other end."""
    await rig.runtime.shared.port(ExtensionServer)
    how = carry_out or carried_out_by(chrome)
    token = pairing_secret(rig.settings).value()
    profile = profile_of(chrome)
    async with extension(
        rig.bookmarks_port, token, profile=profile, name=name, carry_out=how
    ) as peer:
        yield peer


def profile_of(chrome: ChromeBookmarks) -> str:
    """Each its own: what the journal knows of ids holds for one Chrome alone."""
    return f"profile-{id(chrome)}"


def journal_of(rig: Rig, chrome: ChromeBookmarks) -> Journal:
    """As it stands on file."""
    folder = private_folder(rig.settings.home, os.environ, "data", "bookmarks/journals")
    return open_journal(folder, profile_of(chrome), alone=False)


# Sharing


async def test_workers_share_one_chrome_and_each_is_told_what_happens(rig: Rig) -> None:
    chrome = ChromeBookmarks()
    async with connected(rig, chrome) as peer:
        ann, ben = await rig.agent(), await rig.agent()
        node = await add(ann, "one")
        assert (await ben.call("bookmark_get", id=node["id"]))["nodes"][0]["title"] == "one"
        await peer.tell("created", node["id"], own=True, title="one", url="https://one.example/")
        for agent in (ann, ben):
            (event,) = await until(lambda agent=agent: agent.events("BookmarksChanged"))  # type: ignore[misc]
            assert (event["title"], event["own"]) == ("one", True)
        fault = await ben.fault("bookmark_get", id="4711")
        assert fault["code"] == "BOOKMARK_NOT_FOUND"


async def test_who_is_connected_is_known_in_every_worker_at_once(rig: Rig) -> None:
    chrome = ChromeBookmarks()
    ann, ben = await rig.agent(), await rig.agent()
    fault = await ann.fault("bookmark_get", id=BAR)
    assert fault["code"] == "EXTENSION_NOT_CONNECTED"
    assert "pilothouse pair" in fault["details"]["hint"]
    async with connected(rig, chrome, name="Home"):
        for agent in (ann, ben):
            assert await agent.call("bookmark_get", id=BAR)
            other = await agent.fault("bookmark_get", id=BAR, profile="Work")
            assert other["details"]["profiles"] == [{"id": profile_of(chrome), "name": "Home"}]

    async def is_told() -> bool:
        faults = [await one.fault("bookmark_get", id=BAR) for one in (ann, ben)]
        return all("connection was lost" in fault["message"] for fault in faults)

    await until(is_told)


async def test_a_profile_that_comes_back_is_used_and_its_plans_are_kept(rig: Rig) -> None:
    chrome = ChromeBookmarks()
    ann = await rig.agent()
    async with connected(rig, chrome):
        change = {"do": "create", "parentId": BAR, "title": "planned"}
        plan = await ann.call("bookmark_plan", changes=[change])
    async with connected(rig, chrome):
        await ann.call("bookmark_apply", planId=plan["planId"])
        assert chrome.find("planned")


async def test_writers_of_two_workers_take_turns_and_the_journal_has_all(rig: Rig) -> None:
    chrome = ChromeBookmarks()
    busy = 0

    async def carry_out(method: str, params: dict[str, Any]) -> Any:
        nonlocal busy
        if method == "create":
            busy += 1
            assert busy == 1, "two changes at once"
            await asyncio.sleep(0.001)
            busy -= 1
        return await carried_out_by(chrome)(method, params)

    async with connected(rig, chrome, carry_out=carry_out):
        ann, ben = await rig.agent(), await rig.agent()
        titles = [f"{who}-{number}" for who in ("ann", "ben") for number in range(20)]
        agents = {"ann": ann, "ben": ben}
        await asyncio.gather(*(add(agents[title[:3]], title) for title in titles))
        assert sorted(child[0] for child in chrome.shape(BAR)[1]) == sorted(titles)
        journal = journal_of(rig, chrome)
        written = [one for one in journal.entries if one.session in (ann.name, ben.name)]
        assert len({one.id for one in written}) == len(written) == len(titles)
        assert {one.session for one in written} == {ann.name, ben.name}
        assert journal.open_entries == []
        journal.close()
        for agent in (ann, ben):
            listed = await agent.call("bookmark_journal", limit=len(titles))
            shown = [one["entry"] for one in listed["entries"]]
            assert sorted(shown) == sorted(one.id for one in written)


async def test_a_session_keeps_its_name_over_its_worker_s_end_so_its_own_last_is_undone(
    rig: Rig,
) -> None:
    chrome = ChromeBookmarks()
    async with connected(rig, chrome):
        ann, ben = await rig.agent(), await rig.agent()
        await add(ann, "hers")
        await add(ben, "his")
        await ann.kill()
        again = await rig.agent(ann)
        assert again.name == ann.name
        await again.call("bookmark_undo")
        assert [child[0] for child in chrome.shape(BAR)[1]] == ["his"]


async def test_who_did_nothing_and_undoes_the_last_of_all_is_told_what_it_was_and_that_of_another(
    rig: Rig,
) -> None:
    chrome = ChromeBookmarks()
    async with connected(rig, chrome):
        ann, ben = await rig.agent(), await rig.agent()
        await add(ann, "hers")

        async def undo(agent: Agent) -> str:
            call = {"name": "bookmark_undo", "arguments": {}}
            return str((await agent.ask("tools/call", call))["content"][0]["text"])

        told = await undo(ben)
        assert ("another session" in told, "create hers" in told) == (True, True)
        await add(ben, "his")
        told = await undo(ben)
        assert ("another session" in told, "create his" in told) == (False, True)


# Killed


async def over(agent: Agent) -> None:
    """Move everything from the full folder to the empty one, and exchange their titles."""
    tree = (await agent.call("bookmark_get_tree", all=True))["nodes"]
    folders = {one["title"]: one for one in tree[0]["children"][0]["children"]}
    full, empty = folders["full"], folders["empty"]
    *items, copy = full["children"]
    moves = [
        {"do": "move", "id": item["id"], "parentId": empty["id"], "index": 0}
        for item in reversed(items)
    ]
    changes = [
        {"do": "update", "id": full["id"], "title": "empty"},
        {"do": "update", "id": empty["id"], "title": "full"},
        *moves,
        {"do": "removeTree", "id": copy["id"]},
        {"do": "create", "parentId": empty["id"], "title": "copy"},
        {
            "do": "create",
            "parentId": f"${len(moves) + 4}",
            "title": "in it",
            "url": "https://copy.example",
        },
    ]
    plan = await agent.call("bookmark_plan", changes=changes)
    await agent.call("bookmark_apply", planId=plan["planId"])


class Killer:
    """A Chrome that kills the worker which writes, at one of the calls that come to it."""

    def __init__(self, chrome: ChromeBookmarks) -> None:
        self._carry_out = carried_out_by(chrome)
        self._left = 0
        self._moment = ""
        self._kill: Callable[[], None] = lambda: None
        self._chances = random.Random(0)

    def aim(self, pid: int, chances: random.Random) -> None:
        self._chances = chances
        self._left = chances.randint(3, 24)
        self._moment = chances.choice(["before", "after", "answered"])
        self._kill = lambda: os.kill(pid, signal.SIGKILL)

    async def __call__(self, method: str, params: dict[str, Any]) -> Any:
        is_writing = not method.startswith(("get", "search"))
        if self._left:
            self._left -= is_writing
        if self._left or not self._moment:
            return await self._carry_out(method, params)
        moment, self._moment = self._moment, ""
        if moment == "before":
            self._kill()
        done = await self._carry_out(method, params)
        if moment == "after":
            self._kill()
        elif moment == "answered":
            later = self._chances.random() / 500
            asyncio.get_running_loop().call_later(later, self._kill)
        return done


@pytest.mark.chaos
async def test_a_worker_killed_while_it_writes_leaves_all_or_nothing_before_the_next_writer(
    rig: Rig,
) -> None:
    chrome = ChromeBookmarks(FOLDERS)
    killer = Killer(chrome)
    chances = random.Random(7)
    async with connected(rig, chrome, carry_out=killer):
        ben = await rig.agent()

        async def nothing_is_open() -> bool:
            journal = journal_of(rig, chrome)
            journal.close()
            return journal.open_entries == []

        for number in range(ROUNDS):
            seed = chances.randrange(1 << 30)
            ann = await rig.agent()
            killer.aim(ann.worker.pid, random.Random(seed))

            async def write(ann: Agent = ann) -> None:
                while True:
                    await over(ann)

            writing = asyncio.ensure_future(write())
            await asyncio.wait_for(asyncio.shield(ann.worker.died), GUARD_S)
            if number % 2:
                # At once: what was left half done is finished before this has its turn.
                await add(ben, f"ben {number}")
            else:
                await until(nothing_is_open)  # the hub does it, though nobody writes
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            tree = chrome.get_tree({})
            bar = tree[0]["children"][0]["children"]
            tree[0]["children"][0]["children"] = [one for one in bar if "url" not in one]
            assert is_whole(tree), f"round {number}, seed {seed}: {chrome.shape()}"
            assert await nothing_is_open(), f"round {number}, seed {seed}"
        assert len([one for one in chrome.shape(BAR)[1] if one[0].startswith("ben")]) == ROUNDS // 2


@pytest.mark.chaos
async def test_a_worker_killed_while_it_waits_for_its_turn_holds_up_nobody(rig: Rig) -> None:
    chrome = ChromeBookmarks()
    free = asyncio.Event()

    async def carry_out(method: str, params: dict[str, Any]) -> Any:
        if method == "create":
            await free.wait()
        return await carried_out_by(chrome)(method, params)

    async with connected(rig, chrome, carry_out=carry_out) as peer:
        ann, ben, cat = [await rig.agent() for _ in range(3)]
        first = asyncio.ensure_future(add(ann, "ann"))
        await until(lambda: any(call["method"] == "create" for call in peer.calls))
        second = asyncio.ensure_future(add(ben, "ben"))
        third = asyncio.ensure_future(add(cat, "cat"))
        await ben.call("bookmark_get", id=BAR)  # it has asked for its turn before
        await ben.kill()
        free.set()
        await asyncio.wait_for(asyncio.gather(first, third), GUARD_S)
        await asyncio.gather(second, return_exceptions=True)
        assert sorted(child[0] for child in chrome.shape(BAR)[1]) == ["ann", "cat"]

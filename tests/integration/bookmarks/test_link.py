"""Calls to connected profiles: each to one, each once, each answered; and what follows a loss."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from pilothouse.bookmarks.extension.keepalive import Timing
from pilothouse.bookmarks.model import (
    BookmarkNotFound,
    ConnectionLost,
    ExtensionNotConnected,
    ExtensionTimeout,
    ProfileNotFound,
    ProfileRequired,
)
from tests.integration.bookmarks.link_rig import Rig, linked
from tests.support.extension_peer import (
    GUARD_S,
    ChromeError,
    dialled,
    echo,
    extension,
    hello,
    say_hello,
)
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.bookmarks.changes.profile import ConnectedProfile

pytestmark = pytest.mark.anyio

MANY = 200
LARGE_TREE = 100_000


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with linked(tmp_path) as made:
        yield made


# ------------------------------------------------------------------ calls


async def test_a_call_is_carried_out_and_answered(rig: Rig) -> None:
    async with extension(rig.port, rig.token) as chrome:
        peer = rig.view().view.profile(None).peer
        answer = await peer.ask("search", {"query": "検索 🔍"})
    assert answer == {"method": "search", "params": {"query": "検索 🔍"}}
    (call,) = chrome.calls
    assert call.keys() == {"jsonrpc", "id", "method", "params"}


async def test_two_profiles_with_many_calls_at_once_do_each_once_and_cross_none(rig: Rig) -> None:
    async def slowly(name: str, method: str, params: dict[str, Any]) -> Any:
        await anyio.sleep(int(params["id"]) % 7 / 1000)  # so that answers overtake each other
        return f"{name}:{method}:{params['id']}"

    async with (
        extension(rig.port, rig.token, profile="a", carry_out=partial(slowly, "a")) as first,
        extension(rig.port, rig.token, profile="b", carry_out=partial(slowly, "b")) as second,
    ):
        view = rig.view().view
        asked = [(profile, str(at)) for at in range(MANY) for profile in ("a", "b")]
        answers = await asyncio.gather(
            *(view.profile(profile).peer.ask("remove", {"id": id}) for profile, id in asked)
        )
    assert answers == [f"{profile}:remove:{id}" for profile, id in asked]
    for chrome in (first, second):
        assert sorted(int(call["params"]["id"]) for call in chrome.calls) == list(range(MANY))
    ids = [call["id"] for chrome in (first, second) for call in chrome.calls]
    assert len(set(ids)) == 2 * MANY


async def test_what_is_asked_while_a_call_is_under_way_goes_as_one_list(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.bookmarks.extension.peer.GATHER_S", 10 * GUARD_S)
    async with extension(rig.port, rig.token) as chrome:
        peer = rig.link.profiles[0].peer
        await asyncio.gather(*(peer.ask("get", {"ids": [str(at)]}) for at in range(16)))
        await peer.ask("getTree")
    assert [call["params"].get("ids") for call in chrome.calls] == [
        *([str(at)] for at in range(16)), None,
    ]  # fmt: skip
    assert chrome.lists == [15]


async def test_a_call_that_is_never_answered_holds_no_other_back(rig: Rig) -> None:
    async def but_the_first(method: str, params: dict[str, Any]) -> Any:
        if params["ids"] == ["0"]:
            await anyio.sleep_forever()
        return params["ids"]

    async with extension(rig.port, rig.token, carry_out=but_the_first) as chrome:
        peer = rig.link.profiles[0].peer
        first = asyncio.create_task(peer.ask("get", {"ids": ["0"]}))
        await until(lambda: chrome.calls)
        with anyio.fail_after(GUARD_S):
            asked = (peer.ask("get", {"ids": [str(at)]}) for at in range(1, 5))
            assert await asyncio.gather(*asked) == [["1"], ["2"], ["3"], ["4"]]
        assert not first.done()
        assert sum(chrome.lists) == 4
        first.cancel()


async def test_chromes_refusal_is_a_fault_with_a_hint(rig: Rig) -> None:
    async def refuse(method: str, params: dict[str, Any]) -> Any:
        raise ChromeError("Can't find bookmark for id.")

    async with extension(rig.port, rig.token, carry_out=refuse):
        with pytest.raises(BookmarkNotFound) as caught:
            await rig.link.profiles[0].peer.ask("get", {"ids": ["7"]})
    assert "bookmark_search" in caught.value.hint


async def test_a_call_that_is_not_answered_ends_in_time_and_a_late_answer_is_nobodys(
    tmp_path: Path,
) -> None:
    async with (
        linked(tmp_path) as rig,
        extension(rig.port, rig.token, answers=False) as chrome,
    ):
        peer = rig.link.profiles[0].peer
        usual_s, peer._answer_s = peer._answer_s, 0.5
        with pytest.raises(ExtensionTimeout) as caught:
            await peer.ask("getTree")
        assert "getTree" in caught.value.message
        chrome.answers, peer._answer_s = True, usual_s
        await until(lambda: chrome.calls)
        await chrome.send({"jsonrpc": "2.0", "id": chrome.calls[0]["id"], "result": "late"})
        assert await peer.ask("get", {"ids": ["1"]}) != "late"


async def test_garbage_between_answers_is_passed_over(rig: Rig) -> None:
    async with extension(rig.port, rig.token) as chrome:
        for garbage in ("{", "[]", "null", b"\x00\xff", "", '{"jsonrpc":"2.0","id":1,"result":1}'):
            await chrome.send(garbage)
        await chrome.send({"jsonrpc": "2.0", "id": "1", "error": {"code": 1, "message": "x"}})
        await chrome.send({"jsonrpc": "2.0", "method": "hello", "id": 0, "params": {}})
        assert await rig.link.profiles[0].peer.ask("getTree")


async def test_an_answer_given_twice_counts_once(rig: Rig) -> None:
    async with extension(rig.port, rig.token, answers=False) as chrome:
        peer = rig.link.profiles[0].peer
        async with asyncio.TaskGroup() as tasks:
            call = tasks.create_task(peer.ask("getTree"))
            await until(lambda: chrome.calls)
            for result in ("first", "second"):
                await chrome.send({"jsonrpc": "2.0", "id": chrome.calls[0]["id"], "result": result})
        assert call.result() == "first"


async def test_a_very_large_tree_arrives_whole(rig: Rig) -> None:
    address = "https://example.test/" + "a" * 200
    children = [
        {"id": str(at), "parentId": "1", "index": at, "title": f"Title {at}", "url": address}
        for at in range(LARGE_TREE)
    ]

    async def grow(method: str, params: dict[str, Any]) -> Any:
        return [{"id": "0", "children": children}]

    async with extension(rig.port, rig.token, carry_out=grow):
        (root,) = await rig.link.profiles[0].peer.ask("getTree")
    assert len(root["children"]) == LARGE_TREE
    assert root["children"][-1] == children[-1]


# ------------------------------------------------------------------ which profile


async def test_without_a_chrome_the_error_leads_to_one(rig: Rig) -> None:
    view = rig.view().view
    with pytest.raises(ExtensionNotConnected) as caught:
        view.profile(None)
    for part in (str(rig.folder / "extension"), "chrome://extensions", "pair", str(rig.port)):
        assert part in caught.value.hint
    with pytest.raises(ExtensionNotConnected):
        view.profile("Work")


async def test_one_profile_needs_no_name_and_several_do(rig: Rig) -> None:
    view = rig.view().view
    async with extension(rig.port, rig.token, profile="a", name="Work"):
        assert view.profile(None).peer.id == "a"
        async with extension(rig.port, rig.token, profile="b", name="Home"):
            with pytest.raises(ProfileRequired) as caught:
                view.profile(None)
            assert "'Work' (a)" in caught.value.hint
            assert caught.value.details["profiles"] == [
                {"id": "a", "name": "Work"},
                {"id": "b", "name": "Home"},
            ]
            assert view.profile("Home").peer.id == view.profile("b").peer.id == "b"
            with pytest.raises(ProfileNotFound) as unknown:
                view.profile("Play")
            assert "'Home' (b)" in unknown.value.hint
        await until(lambda: len(view.profiles) == 1)
        assert view.profile(None).peer.id == "a"


async def test_profiles_of_one_name_are_told_apart_by_their_ids(rig: Rig) -> None:
    view = rig.view().view
    async with (
        extension(rig.port, rig.token, profile="a", name="Work"),
        extension(rig.port, rig.token, profile="b", name="Work"),
    ):
        with pytest.raises(ProfileRequired, match="called 'Work'"):
            view.profile("Work")
        assert view.profile("b").peer.id == "b"


# ------------------------------------------------------------------ coming and going


async def test_the_newest_socket_of_a_profile_wins_and_the_older_ones_calls_fail(
    rig: Rig,
) -> None:
    async with dialled(rig.port) as old:
        await say_hello(old, hello(rig.token))
        peer = rig.link.profiles[0].peer
        calls = [asyncio.ensure_future(peer.ask("getTree")) for _ in range(20)]
        await old.socket.recv()
        async with extension(rig.port, rig.token) as new:
            failed = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(failure) for failure in failed} == {ConnectionLost}
            assert "newer socket" in str(failed[0])
            assert (await old.closed())[0] == 4409
            (profile,) = rig.link.profiles
            assert profile.peer is not peer
            assert await profile.peer.ask("getTree")
            assert len(new.calls) == 1
            with pytest.raises(ConnectionLost, match="before getTree was sent"):
                await peer.ask("getTree")


async def test_a_socket_that_breaks_fails_what_is_pending_and_may_come_back(rig: Rig) -> None:
    async with extension(rig.port, rig.token, answers=False) as chrome:
        peer = rig.link.profiles[0].peer
        call = asyncio.ensure_future(peer.ask("remove", {"id": "7"}))
        await until(lambda: chrome.calls)
        chrome.socket.transport.abort()
        with pytest.raises(ConnectionLost) as caught:
            await call
    assert "remove" in caught.value.message
    assert "look before you repeat it" in caught.value.hint
    await until(lambda: not rig.link.profiles)
    async with extension(rig.port, rig.token):
        assert await rig.link.profiles[0].peer.ask("getTree")


async def test_heartbeats_go_both_ways_and_whoever_is_silent_is_let_go(tmp_path: Path) -> None:
    beat = {"jsonrpc": "2.0", "method": "heartbeat"}
    timing = Timing(heartbeat_s=0.1, silence_s=6.0)
    async with linked(tmp_path, timing=timing) as rig:
        async with extension(rig.port, rig.token) as chrome:
            began = anyio.current_time()
            while anyio.current_time() < began + 1.2 * timing.silence_s:
                await chrome.send(beat)
                await anyio.sleep(timing.heartbeat_s)
            assert chrome.heartbeats >= 3
            assert len(rig.link.profiles) == 1
            code, why = await chrome.closed()
        assert (code, "silent" in why) == (1011, True)
        await until(lambda: not rig.link.profiles)


async def test_a_peer_that_no_longer_reads_is_let_go_with_its_calls(tmp_path: Path) -> None:
    timing = Timing(close_s=0.2, answer_s=60, heartbeat_s=0.1, silence_s=6.0)
    async with linked(tmp_path, timing=timing) as rig, dialled(rig.port) as chrome:
        await say_hello(chrome, hello(rig.token))
        chrome.socket.transport.pause_reading()
        peer = rig.link.profiles[0].peer
        large = {"query": "x" * 1_000_000}
        calls = [peer.ask("search", large) for _ in range(30)]
        failed = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(failure) for failure in failed} == {ConnectionLost}
        chrome.socket.transport.abort()


async def test_the_end_of_the_server_closes_every_socket(tmp_path: Path) -> None:
    async with AsyncExitStack() as sockets:
        async with linked(tmp_path) as rig:
            paired = await sockets.enter_async_context(dialled(rig.port))
            await say_hello(paired, hello(rig.token))
            stranger = await sockets.enter_async_context(dialled(rig.port))
            _, unsaid = await asyncio.open_connection("127.0.0.1", rig.port)
            sockets.callback(unsaid.close)
        assert (await paired.closed())[0] == 1001
        await stranger.closed()


# ------------------------------------------------------------------ what is finished first


async def test_nothing_is_written_before_what_was_left_half_done_is_finished(
    tmp_path: Path,
) -> None:
    order: list[str] = []
    may_go_on = asyncio.Event()

    async def finish(profile: ConnectedProfile) -> None:
        async with profile.writing():  # as it does in earnest
            await profile.peer.ask("getTree")
            order.append("finishing")
            await may_go_on.wait()
            order.append("finished")

    async def write(profile: ConnectedProfile) -> None:
        async with profile.writing():
            order.append("written")

    async with linked(tmp_path, on_connected=finish) as rig, asyncio.TaskGroup() as tasks:
        seen = rig.view()
        # The earliest moment at which somebody can know of the profile.
        seen.view.changed = lambda uri: tasks.create_task(write(rig.link.profiles[0]))  # type: ignore[assignment]
        with rig.link.view(seen.view):
            async with extension(rig.port, rig.token):
                await until(lambda: order)
                peer = rig.link.profiles[0].peer
                assert await peer.ask("get", {"ids": ["1"]}), "reading need not wait"
                may_go_on.set()
                await until(lambda: len(order) == 3)
    assert order == ["finishing", "finished", "written"]


async def test_what_cannot_be_finished_stands_in_nobodys_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(profile: ConnectedProfile) -> None:
        raise RuntimeError("no way")

    async with linked(tmp_path, on_connected=fail) as rig, extension(rig.port, rig.token):
        with anyio.fail_after(30):
            async with rig.link.profiles[0].writing():
                pass
    assert "could not be finished" in caplog.text


async def test_changes_come_one_after_the_other_across_a_reconnect(rig: Rig) -> None:
    order: list[str] = []

    async def write(profile: ConnectedProfile, name: str) -> None:
        async with profile.writing():
            order.append(name)

    async with AsyncExitStack() as sockets:
        await sockets.enter_async_context(extension(rig.port, rig.token))
        old = rig.link.profiles[0]
        async with old.writing():
            queued = asyncio.ensure_future(write(old, "queued"))
            await sockets.enter_async_context(extension(rig.port, rig.token))
            new = rig.link.profiles[0]
            assert (new is old, new.journal is old.journal) == (False, True)
            later = asyncio.ensure_future(write(new, "later"))
            await new.peer.ask("getTree")
            order.append("first")
        lost, done = await asyncio.gather(queued, later, return_exceptions=True)
    assert (type(lost), done) == (ConnectionLost, None)
    assert order == ["first", "later"]


# ------------------------------------------------------------------ events


async def test_events_reach_every_view_masked_and_marked_as_own(rig: Rig) -> None:
    first, second, closed = rig.view("one"), rig.view("two"), rig.view("three")
    with rig.link.view(first.view), rig.link.view(second.view):
        with rig.link.view(closed.view):
            pass
        async with extension(rig.port, rig.token) as chrome:
            await until(lambda: first.changed)
            url = "https://user:secret@shop.test/?api_key=abcdefgh12345678"
            await chrome.tell("created", "7", own=True, title="Shop", url=url)
            await chrome.tell("moved", "7", parentId="2")
            await second.event(2)
    for seen in (first, second):
        created, moved = seen.events
        assert (created.change, created.profile, created.id) == ("created", "Work", "7")
        assert (created.title, created.own, moved.own) == ("Shop", True, False)
        assert "secret" not in created.url
        assert "abcdefgh12345678" not in created.url
        assert seen.changed == ["bookmarks://tree"] * 3
    assert closed.events == closed.changed == []


# ------------------------------------------------------------------ the port


HOLDER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
"""


async def test_a_taken_port_is_named_with_its_holder_and_taken_once_it_is_free(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        async with linked(tmp_path, port=port) as rig:
            view = rig.view().view
            with pytest.raises(ExtensionNotConnected) as caught:
                view.profile(None)
            assert f"port {port} is taken by " in caught.value.message
            assert f"(pid {holder.pid})" in caught.value.message
            (state,) = rig.states
            assert state.startswith(f"off: port {port} is taken by ")
            holder.stdin.close()
            await anyio.to_thread.run_sync(holder.wait)
            while not rig.ports:
                with pytest.raises(ExtensionNotConnected):
                    view.profile(None)
                await anyio.sleep(0.01)
            assert rig.port == port
            async with extension(port, rig.token):
                assert await view.profile(None).peer.ask("getTree") == await echo("getTree", {})


async def test_a_journal_that_cannot_be_opened_is_told_to_both_sides(tmp_path: Path) -> None:
    (tmp_path / "journals").write_text("in the way")
    async with linked(tmp_path) as rig, dialled(rig.port) as peer:
        answer = await say_hello(peer, hello(rig.token))
        assert "journal" in answer["error"]["message"]
        assert (await peer.closed())[0] == 1011
        assert "journal" in rig.link.not_connected().message

"""Both ends of a connection for shared services, over a real socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.hub_port import HubLost
from pilothouse.hub.services.client import ServiceLink
from pilothouse.ipc import unix
from pilothouse.ipc.frames import BadFrame
from pilothouse.ipc.rpc import MOST_UNREAD, LineLost, RpcConnection, ServiceBroke
from pilothouse.ipc.unix import serve_rpc
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

GUARD_S = 30.0
LARGE = 64 << 20
LEARNT = {"foreign": [1], "listeners": [2], "services": {"a": "b"}, "paired": False}


class Desk:
    """What one side does for the other, with a memory of what it was asked."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.ended: list[str] = []
        self.running: set[str] = set()
        self.is_lost = False

    async def call(self, do: str, given: dict[str, Any]) -> Any:
        match do:
            case "hello":
                return LEARNT
            case "fault":
                raise InvalidInput("no", hint="yes", **given)
            case "defect":
                raise KeyError("oops")
            case "wait":
                await self._wait(do)
            case "body":
                return {"body": bytes(given["size"])}
        return given

    async def _wait(self, do: str) -> None:
        self.running.add(do)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.ended.append(do)
            raise

    @asynccontextmanager
    async def hold(self, do: str, given: dict[str, Any]) -> AsyncIterator[Any]:
        if do == "never":
            await self._wait(do)
        self.running.add(do)
        try:
            yield given["name"]
        except BaseException:
            self.ended.append(f"{do} died")
            raise
        self.ended.append(do)

    def tell(self, do: str, given: dict[str, Any]) -> None:
        self.heard.append((do, given))

    def lost(self) -> None:
        self.is_lost = True


@asynccontextmanager
async def lines() -> AsyncIterator[tuple[RpcConnection, Desk, RpcConnection, Desk, list[str]]]:
    """Two ends, each with its desk, and what was reported."""
    loop = asyncio.get_running_loop()
    reported: list[str] = []
    ends: list[Any] = []
    for half in socket.socketpair():
        desk = Desk()
        line = RpcConnection(lambda _, desk=desk: desk, lambda do, error: reported.append(do))  # type: ignore[misc]
        await loop.create_unix_connection(lambda line=line: line, sock=half)  # type: ignore[misc]
        ends += [line, desk]
    try:
        async with asyncio.timeout(GUARD_S):
            one, own, other, theirs = ends
            yield one, own, other, theirs, reported
    finally:
        for end in ends[::2]:
            end.close("the test is over")
            await end.settled()


async def test_both_sides_ask_and_answer_at_once() -> None:
    async with lines() as (one, _, other, _, _):
        asked = [one.call("echo", {"n": n}) for n in range(50)]
        asked += [other.call("echo", {"n": n}) for n in range(50)]
        assert await asyncio.gather(*asked) == [{"n": n} for n in range(50)] * 2


async def test_a_fault_is_raised_as_its_own_class_and_a_defect_is_reported() -> None:
    async with lines() as (one, _, _, _, reported):
        with pytest.raises(InvalidInput, match="no") as raised:
            await one.call("fault", {"field": "f"})
        assert (raised.value.hint, raised.value.details) == ("yes", {"field": "f"})
        with pytest.raises(ServiceBroke, match="KeyError"):
            await one.call("defect", {})
        assert reported == ["defect"]
        assert await one.call("echo", {}) == {}


async def test_a_body_of_64_mb_lets_others_pass_both_ways() -> None:
    async with lines() as (one, _, other, _, _):
        large = asyncio.ensure_future(one.call("body", {"size": LARGE}))
        upload = asyncio.ensure_future(one.call("echo", {"body": bytes(LARGE)}))
        await asyncio.sleep(0)
        passed = 0
        while not (large.done() and upload.done()):
            await asyncio.gather(one.call("echo", {}), other.call("echo", {}))
            passed += 1
        assert len((await large)["body"]) == len((await upload)["body"]) == LARGE
        assert passed > 100


async def test_an_answer_that_nobody_wants_any_more_is_not_worked_for() -> None:
    async with lines() as (one, _, _, desk, _):
        asking = asyncio.ensure_future(one.call("wait", {}))
        await until(lambda: "wait" in desk.running)
        asking.cancel()
        await until(lambda: desk.ended == ["wait"])
        assert await one.call("echo", {}) == {}


async def test_what_is_lent_goes_back_in_order_at_the_end_of_the_block() -> None:
    async with lines() as (one, _, _, desk, _):
        async with one.hold("lock", {"name": "mine"}) as value:
            assert value == "mine"
            assert desk.ended == []
        await until(lambda: desk.ended == ["lock"])


async def test_whoever_gives_up_waiting_for_it_is_lent_nothing() -> None:
    async with lines() as (one, _, _, desk, _):
        asking = asyncio.ensure_future(one.hold("never", {"name": "x"}).__aenter__())
        await until(lambda: "never" in desk.running)
        asking.cancel()
        await until(lambda: desk.ended == ["never"])


async def test_what_is_lent_to_one_who_dies_goes_back_as_by_an_exception() -> None:
    async with lines() as (one, own, other, desk, _):
        async with one.hold("lock", {"name": "x"}):
            waiting = asyncio.ensure_future(one.call("wait", {}))
            await until(lambda: "wait" in desk.running)
            one.close("it was killed")
            with pytest.raises(LineLost, match="it was killed"):
                await waiting
        await until(lambda: sorted(desk.ended) == ["lock died", "wait"])
        assert own.is_lost
        assert desk.is_lost
        with pytest.raises(LineLost):
            await other.call("echo", {})
        other.tell("nothing", {})


async def test_what_is_told_comes_in_its_order() -> None:
    async with lines() as (one, _, _, desk, _):
        for number in range(100):
            one.tell("event", {"n": number})
        await one.call("echo", {})
        assert [given["n"] for _, given in desk.heard] == list(range(100))


async def test_one_who_reads_nothing_is_given_up() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        desk = Desk()
        line = RpcConnection(lambda _: desk, lambda do, error: None)
        await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=ours)
        told = {"text": "x" * 100_000}
        for _ in range(2 * MOST_UNREAD // 100_000):
            line.tell("event", told)
        assert desk.is_lost
        with pytest.raises(LineLost, match="has not read"):
            await line.call("echo", {})


def piece(message: object) -> bytes:
    """Return a message on the wire, also one that none of us would write."""
    text = json.dumps(message).encode()
    body = struct.pack("!IQ", 1, len(text)) + text
    return struct.pack("!IIB", len(body), 1, True) + body


GARBAGE = {
    "no piece": b"GET / HTTP/1.1\r\n\r\n",
    "no object": piece([]),
    "nothing known": piece({"x": 1}),
    "a number that is none": piece({"call": {}, "do": "wait", "with": {}}),
    "no arguments": piece({"call": 1, "do": "wait"}),
    "arguments in a list": piece({"tell": "x", "with": [1]}),
    "no name": piece({"hold": 1, "do": None, "with": {}}),
    "an empty answer": piece({"answer": 1}),
    "half a fault": piece({"answer": 1, "fault": {"class": "x"}}),
}


@pytest.mark.parametrize("case", GARBAGE)
async def test_garbage_ends_the_connection_and_nothing_else(case: str) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        desk, reported = Desk(), list[tuple[str, type]]()
        line = RpcConnection(lambda _: desk, lambda do, error: reported.append((do, type(error))))
        await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=ours)
        theirs.send(GARBAGE[case])
        await until(lambda: desk.is_lost)
        assert reported == [("service_message_refused", BadFrame)]
        assert desk.running == set()
        await line.settled()


# The listener and the link


class Mirror:
    def __init__(self) -> None:
        self.learnt: list[dict[str, Any]] = []

    def learn(self, **given: Any) -> None:
        self.learnt.append(given)


async def test_a_link_joins_learns_and_says_when_it_is_lost(sockets: Path) -> None:
    mirror, link = Mirror(), ServiceLink("agent", lambda do, error: None)
    desks: list[Desk] = []

    def serve(line: RpcConnection) -> Desk:
        desks.append(Desk())
        return desks[-1]

    async with serve_rpc(sockets / "s", serve, lambda do, error: None):
        mode = os.stat(sockets / "s").st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        await link.join(str(sockets / "s"), mirror)
        assert link.lost is None
        assert mirror.learnt == [
            {"foreign": [1], "listeners": [2], "services": {"a": "b"}, "paired": False}
        ]
        assert await link.call("echo", a=1) == {"a": 1}
    await until(lambda: link.lost is not None)
    with pytest.raises(HubLost, match="connection to the hub is lost") as lost:
        await link.call("echo")
    assert "pilothouse status" in lost.value.hint
    with pytest.raises(HubLost):
        async with link.hold("lock", name="x"):
            pass
    link.tell("nothing")


async def test_a_link_that_never_joined_says_so() -> None:
    link = ServiceLink("agent", lambda do, error: None)
    with pytest.raises(HubLost, match="started without a hub"):
        await link.call("echo")


async def test_a_link_without_a_listener_says_why(sockets: Path) -> None:
    link = ServiceLink("agent", lambda do, error: None)
    with pytest.raises(FileNotFoundError):
        await link.join(str(sockets / "none"), Mirror())
    with pytest.raises(HubLost, match="could not be joined"):
        await link.call("echo")


async def test_another_user_is_not_served(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix, "peer_uid", lambda link: os.getuid() + 1)
    reported: list[str] = []
    link = ServiceLink("agent", lambda do, error: None)
    async with serve_rpc(
        sockets / "s", lambda line: Desk(), lambda do, error: reported.append(str(error))
    ):
        with pytest.raises(ConnectionError):
            await link.join(str(sockets / "s"), Mirror())
    assert len(reported) == 1
    assert "was refused" in reported[0]

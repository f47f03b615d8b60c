"""Telling subscribers: coalesced, apart by session, and never at the producer's cost."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import pytest

from pilothouse.server import push
from pilothouse.server.push import Pusher
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

GUARD_S = 30
URI = "test://counter"


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "INTERVAL_S", 0.05)
    monkeypatch.setattr(push, "SEND_TIMEOUT_S", 0.1)


@asynccontextmanager
async def pusher() -> AsyncIterator[Pusher]:
    with anyio.fail_after(GUARD_S):
        async with anyio.create_task_group() as tasks:
            yield Pusher(tasks)
            tasks.cancel_scope.cancel()


@dataclass(eq=False)
class Client:
    """A client that notes what it is sent, and when; or takes nothing."""

    stuck: bool = False
    broken: bool = False
    heard: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def send(self, uri: str) -> None:
        if self.broken:
            raise ConnectionResetError
        self.heard.append(uri)
        self.times.append(time.monotonic())
        if self.stuck:
            await anyio.sleep_forever()


async def test_a_hundred_changes_within_one_interval_are_at_most_two_messages() -> None:
    client = Client()
    async with pusher() as pushing:
        pushing.subscribe(client, "a", URI, client.send)
        await anyio.wait_all_tasks_blocked()
        for _ in range(100):
            pushing.changed("a", URI)
            await anyio.lowlevel.checkpoint()
        await until(lambda: bool(client.heard))
        # The last change is never lost: it comes with the first message or with the second.
        pushing.changed("a", URI)
        await until(lambda: len(client.heard) == 2)
        await anyio.sleep(push.INTERVAL_S * 2)
        assert client.heard == [URI, URI]
        assert client.times[1] - client.times[0] >= push.INTERVAL_S * 0.9


async def test_a_steady_flood_is_sent_at_the_interval_and_no_faster() -> None:
    client = Client()
    async with pusher() as pushing:
        pushing.subscribe(client, "a", URI, client.send)
        with anyio.fail_after(GUARD_S):
            while len(client.heard) < 4:
                pushing.changed("a", URI)
                await anyio.lowlevel.checkpoint()
        gaps = [
            later - earlier for earlier, later in zip(client.times, client.times[1:], strict=False)
        ]
        assert min(gaps) >= push.INTERVAL_S * 0.9


async def test_each_uri_is_told_of_its_own_changes() -> None:
    client = Client()
    async with pusher() as pushing:
        pushing.subscribe(client, "a", "test://one", client.send)
        pushing.subscribe(client, "a", "test://two", client.send)
        assert len(pushing) == 2
        pushing.changed("a", "test://two")
        pushing.changed("a", "test://three")
        await until(lambda: bool(client.heard))
        await anyio.sleep(push.INTERVAL_S * 2)
        assert client.heard == ["test://two"]


async def test_a_subscriber_that_never_takes_is_dropped_and_slows_nobody() -> None:
    stuck, well = Client(stuck=True), Client()
    async with pusher() as pushing:
        pushing.subscribe(stuck, "a", URI, stuck.send)
        pushing.subscribe(well, "a", URI, well.send)
        pushing.changed("a", URI)
        await until(lambda: bool(stuck.heard and well.heard))
        for _ in range(10_000):
            pushing.changed("a", URI)
        await until(lambda: len(pushing) == 1)
        await until(lambda: len(well.heard) >= 2)
        assert len(stuck.heard) == 1


async def test_a_connection_that_breaks_is_dropped_quietly() -> None:
    broken, well = Client(broken=True), Client()
    async with pusher() as pushing:
        pushing.subscribe(broken, "a", URI, broken.send)
        pushing.subscribe(well, "a", URI, well.send)
        pushing.changed("a", URI)
        await until(lambda: len(pushing) == 1 and bool(well.heard))
        assert broken.heard == []


async def test_one_sessions_changes_are_nobody_elses_business() -> None:
    ours, theirs = Client(), Client()
    async with pusher() as pushing:
        pushing.subscribe(ours, "a", URI, ours.send)
        pushing.subscribe(theirs, "b", URI, theirs.send)
        pushing.changed("a", URI)
        await until(lambda: bool(ours.heard))
        await anyio.sleep(push.INTERVAL_S)
        assert theirs.heard == []


async def test_subscribing_twice_is_one_subscription() -> None:
    client = Client()
    async with pusher() as pushing:
        pushing.subscribe(client, "a", URI, client.send)
        pushing.subscribe(client, "a", URI, client.send)
        assert len(pushing) == 1
        pushing.changed("a", URI)
        await until(lambda: bool(client.heard))
        await anyio.sleep(push.INTERVAL_S * 2)
        assert client.heard == [URI]


async def test_who_unsubscribed_hears_nothing_more() -> None:
    client = Client()
    async with pusher() as pushing:
        pushing.subscribe(client, "a", URI, client.send)
        pushing.unsubscribe(client, "b", URI)
        pushing.unsubscribe(object(), "a", URI)
        assert len(pushing) == 1
        pushing.unsubscribe(client, "a", URI)
        await until(lambda: len(pushing) == 0)
        pushing.changed("a", URI)
        await anyio.sleep(push.INTERVAL_S)
        assert client.heard == []


async def test_who_subscribes_again_at_once_is_heard() -> None:
    client = Client()
    async with pusher() as pushing:
        pushing.subscribe(client, "a", URI, client.send)
        await anyio.wait_all_tasks_blocked()
        pushing.unsubscribe(client, "a", URI)
        pushing.subscribe(client, "a", URI, client.send)
        await anyio.wait_all_tasks_blocked()
        assert len(pushing) == 1
        pushing.changed("a", URI)
        await until(lambda: client.heard == [URI])


async def test_forgetting_a_client_ends_all_that_it_subscribed_to() -> None:
    gone, stays = Client(), Client()
    async with pusher() as pushing:
        for uri in ("test://one", "test://two"):
            pushing.subscribe(gone, "a", uri, gone.send)
            pushing.subscribe(stays, "a", uri, stays.send)
        pushing.forget(gone)
        await until(lambda: len(pushing) == 2)
        pushing.changed("a", "test://one")
        await until(lambda: stays.heard == ["test://one"])
        assert gone.heard == []


async def test_a_listener_is_told_that_it_is_heard_and_misses_nothing_from_there() -> None:
    client = Client()
    async with pusher() as pushing, anyio.create_task_group() as tasks:

        async def acknowledge() -> None:
            client.heard.append("acknowledged")
            pushing.changed("a", "test://two")
            await anyio.lowlevel.checkpoint()

        tasks.start_soon(
            pushing.listen, "a", ["test://one", "test://two"], acknowledge, client.send
        )
        await until(lambda: len(client.heard) == 2)
        assert client.heard == ["acknowledged", "test://two"]
        assert len(pushing) == 1
        tasks.cancel_scope.cancel()
    assert len(pushing) == 0


async def test_listening_returns_when_the_client_takes_nothing_and_raises_when_it_is_gone() -> None:
    stuck, broken = Client(stuck=True), Client(broken=True)

    async def acknowledge() -> None:
        pushing.changed("a", URI)

    async with pusher() as pushing:
        await pushing.listen("a", [URI], acknowledge, stuck.send)
        assert stuck.heard == [URI]
        with pytest.raises(ConnectionResetError):
            await pushing.listen("a", [URI], acknowledge, broken.send)
        assert len(pushing) == 0

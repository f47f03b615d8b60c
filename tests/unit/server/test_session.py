"""A session's ports: opened once, closed in order by their own task, never waited for in vain."""

from __future__ import annotations

import gc
import warnings
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import pytest

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.settings import Settings
from pilothouse.server.metrics import Metrics
from pilothouse.server.session import HostedSessions, Session
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import TaskGroup

    from pilothouse.server.session import Provider

pytestmark = pytest.mark.anyio

GUARD_S = 30


class Camera(Protocol):
    """Port: takes pictures."""


class Recorder(Protocol):
    """Port: takes notes."""


@dataclass
class Workshop:
    """Providers that note who opened and closed what."""

    notes: list[str] = field(default_factory=list)
    tasks: set[int] = field(default_factory=set)
    failures: int = 0
    gate: anyio.Event | None = None
    close_error: Exception | None = None

    def provider(self, name: str) -> Provider:
        @asynccontextmanager
        async def opened(session: Session) -> AsyncIterator[str]:
            self.tasks.add(anyio.get_current_task().id)
            self.notes.append(f"opening {name}")
            if self.gate is not None:
                await self.gate.wait()
            if self.failures:
                self.failures -= 1
                raise OSError(f"{name} is jammed")
            try:
                yield f"{name} of {session.id}"
            finally:
                self.tasks.add(anyio.get_current_task().id)
                self.notes.append(f"closed {name}")
                if self.close_error is not None:
                    raise self.close_error

        return opened

    def sessions(self, tasks: TaskGroup) -> HostedSessions:
        providers: dict[type, Provider] = {
            Camera: self.provider("camera"),
            Recorder: self.provider("recorder"),
        }
        return HostedSessions(
            tasks,
            lambda key: Session(
                key,
                Settings(),
                lambda: 0.0,
                Redactor(),
                Metrics(),
                lambda uri: None,
                providers.__getitem__,
            ),
        )


@asynccontextmanager
async def workshop(shop: Workshop) -> AsyncIterator[HostedSessions]:
    with anyio.fail_after(GUARD_S):
        async with anyio.create_task_group() as tasks:
            yield shop.sessions(tasks)
            tasks.cancel_scope.cancel()


async def outcomes(session: Session, kinds: list[type]) -> list[Any]:
    """What each of several askers got at the same time: a port or an exception."""
    got: list[Any] = [None] * len(kinds)

    async def ask(place: int, kind: type) -> None:
        try:
            got[place] = await session.port(kind)
        except Exception as error:
            got[place] = error

    async with anyio.create_task_group() as tasks:
        for place, kind in enumerate(kinds):
            tasks.start_soon(ask, place, kind)
    return got


async def test_many_askers_at_once_open_a_port_once() -> None:
    shop = Workshop()
    async with workshop(shop) as sessions:
        session = sessions.get("a")
        # More than the queue of wishes holds, so that some askers have to wait to be heard.
        assert await outcomes(session, [Camera] * 200) == ["camera of a"] * 200
        assert shop.notes == ["opening camera"]
        assert await session.port(Camera) == "camera of a"


async def test_a_session_is_its_own_port() -> None:
    async with workshop(Workshop()) as sessions:
        session = sessions.get("a")
        assert await session.port(Session) is session


async def test_each_session_has_ports_of_its_own() -> None:
    shop = Workshop()
    async with workshop(shop) as sessions:
        assert await sessions.get("a").port(Camera) == "camera of a"
        assert await sessions.get("b").port(Camera) == "camera of b"
        assert sessions.get("a") is sessions.get("a")
        assert [session.id for session in sessions] == ["a", "b"]
        assert len(sessions) == 2


async def test_ports_are_closed_in_reverse_order_by_the_task_that_opened_them() -> None:
    shop = Workshop()
    async with workshop(shop) as sessions:
        session = sessions.get("a")
        await session.port(Camera)
        await session.port(Recorder)
        sessions.end("a")
        await until(lambda: len(shop.notes) == 4)
        assert shop.notes == [
            "opening camera", "opening recorder", "closed recorder", "closed camera",
        ]  # fmt: skip
        assert len(shop.tasks) == 1
        assert shop.tasks != {anyio.get_current_task().id}
        assert len(sessions) == 0


async def test_the_end_of_the_runtime_closes_every_session() -> None:
    shop = Workshop()
    async with workshop(shop) as sessions:
        await sessions.get("a").port(Camera)
        await sessions.get("b").port(Recorder)
    assert sorted(shop.notes[2:]) == ["closed camera", "closed recorder"]
    assert len(sessions) == 0


async def test_an_opening_that_fails_is_told_to_each_asker_and_can_be_tried_again() -> None:
    shop = Workshop(failures=3)
    async with workshop(shop) as sessions:
        session = sessions.get("a")
        got = await outcomes(session, [Camera] * 3)
        assert [str(error) for error in got] == ["camera is jammed"] * 3
        assert await session.port(Camera) == "camera of a"
        assert await session.port(Recorder) == "recorder of a"


async def test_a_port_that_nobody_provides_is_told_to_the_asker_alone() -> None:
    async with workshop(Workshop()) as sessions:
        session = sessions.get("a")
        with pytest.raises(KeyError):
            await session.port(int)
        assert await session.port(Camera) == "camera of a"


async def test_ending_a_session_that_is_not_there_does_nothing() -> None:
    async with workshop(Workshop()) as sessions:
        sessions.get("a")
        sessions.end("nobody")
        assert len(sessions) == 1
        sessions.end("a")
        sessions.end("a")
        assert len(sessions) == 0


async def test_a_key_used_again_at_once_is_a_new_session_that_stays() -> None:
    shop = Workshop()
    async with workshop(shop) as sessions:
        old = sessions.get("a")
        await old.port(Camera)
        sessions.end("a")
        new = sessions.get("a")
        assert new is not old
        await until(lambda: "closed camera" in shop.notes)
        await anyio.wait_all_tasks_blocked()
        assert sessions.get("a") is new, "the end of the old session must not forget the new one"
        assert len(sessions) == 1


@pytest.mark.parametrize("kinds", [[Camera], [Camera, Recorder, Recorder]])
async def test_who_waits_for_a_port_when_the_session_ends_is_told(kinds: list[type]) -> None:
    """The first wish is being opened, the others stand in the queue."""
    shop = Workshop(gate=anyio.Event())
    got: list[Any] = []
    async with workshop(shop) as sessions, anyio.create_task_group() as tasks:
        session = sessions.get("a")

        async def ask() -> None:
            got.extend(await outcomes(session, kinds))

        tasks.start_soon(ask)
        await until(lambda: shop.notes == ["opening camera"])
        await anyio.wait_all_tasks_blocked()
        sessions.end("a")
        with anyio.move_on_after(GUARD_S / 2):
            await until(lambda: bool(got))
        tasks.cancel_scope.cancel()
    assert len(got) == len(kinds), "an asker waits for ever"
    assert all(isinstance(error, Exception) for error in got)


async def test_asking_a_session_that_has_ended_is_refused_at_once() -> None:
    shop = Workshop()
    async with workshop(shop) as sessions:
        session = sessions.get("a")
        await session.port(Camera)
        sessions.end("a")
        await until(lambda: "closed camera" in shop.notes)
        await anyio.wait_all_tasks_blocked()
        got: list[Any] = []
        with anyio.move_on_after(GUARD_S / 2):
            got = await outcomes(session, [Recorder])
        assert len(got) == 1, "the asker waits for ever"
        assert isinstance(got[0], Exception)


async def test_a_port_that_fails_to_close_ends_no_other_session() -> None:
    shop = Workshop()
    async with workshop(shop) as sessions:
        await sessions.get("a").port(Camera)
        await sessions.get("b").port(Recorder)
        shop.close_error = OSError("the lid is stuck")
        sessions.end("a")
        await until(lambda: "closed camera" in shop.notes)
        await anyio.wait_all_tasks_blocked()
        shop.close_error = None
        assert await sessions.get("b").port(Camera) == "camera of b"


async def test_a_session_that_ended_leaves_nothing_unclosed() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with workshop(Workshop()) as sessions:
            await sessions.get("a").port(Camera)
            await anyio.wait_all_tasks_blocked()
        del sessions
        gc.collect()
    assert [str(warning.message) for warning in caught] == []

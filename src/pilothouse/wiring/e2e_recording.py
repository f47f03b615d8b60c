"""How e2e sessions are recorded: the observer, seen through the ports that e2e asks for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pilothouse.core.hub_port import HubLost
from pilothouse.observe.model import BodyNotAvailable, BrowserUnreachable, NotObserving
from pilothouse.observe.ports import Observer
from pilothouse.observe.read.read import Page, settle_places, shown
from pilothouse.server.session import SessionEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.core.timeline.ring import Ring
    from pilothouse.machine.chromium.shared_pipe import BrowserPipe
    from pilothouse.observe.connections import Key
    from pilothouse.observe.record.observation import Observation
    from pilothouse.server.session import Session

NEWEST = 500
"""Events that a digest looks at; a flood between two steps must not slow the second one."""

EXPLAIN_S = 0.3
"""Seconds that a step's answer waits until its errors are led back to their sources."""


class SessionRecorder:
    """Implements e2e's `TabRecorder` for one agent."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._observer: Observer | None = None
        self._places: dict[str, Key] = {}
        """Observer's key of the browser of each e2e session that has one to record."""

    async def prepare(self) -> None:
        with suppress(SessionEnded):  # then nothing is recorded either
            self._observer = await self._session.port(Observer)

    async def claim(
        self, session_id: str, port: int, pipe: BrowserPipe | None, *, shared: bool
    ) -> None:
        if pipe is not None:
            self._observer = observer = await self._session.port(Observer)
            self._places[session_id] = observer.share(session_id, pipe)
        elif port:
            self._places[session_id] = ("127.0.0.1", port)
        self._session.debug_ports.claim(self._session.id, session_id, port, shared=shared)
        if self._session.hub is not None:
            with suppress(HubLost):  # then there is nobody left to inform
                await self._session.hub.call(
                    "house.claim", session_id=session_id, port=port, shared=shared
                )

    async def release(self, session_id: str) -> None:
        self._session.debug_ports.release(session_id)
        if self._session.hub is not None:
            self._session.hub.tell("house.release", session_id=session_id)
        # The observer is not opened here: nothing was recorded without it, and while the runtime
        # closes no port is opened any more.
        place = self._places.pop(session_id, None)
        if place is not None and self._observer is not None:
            await self._observer.leave(place)

    def foreign_ports(self) -> frozenset[int]:
        return self._session.debug_ports.foreign(self._session.id)

    async def record(self, session_id: str, target_id: str, *, and_popups: bool) -> TabRecording:
        self._observer = observer = await self._session.port(Observer)
        place = self._places[session_id]
        return TabRecording(
            observer, await observer.record(place, target_id, and_popups=and_popups)
        )


class TabRecording:
    """Implements e2e's `Recording` over one observation."""

    def __init__(self, observer: Observer, observation: Observation) -> None:
        self._observer = observer
        self._observation = observation

    @property
    def ring(self) -> Ring[Any]:
        return self._observation.ring

    @property
    def next_seq(self) -> int:
        return self._observation.ring.next_seq

    @property
    def touched_at(self) -> float:
        return self._observation.touched_at

    def since(self, seq: int) -> list[dict[str, Any]]:
        return self._events(max(seq, self.next_seq - NEWEST))

    def _events(self, seq: int) -> list[dict[str, Any]]:
        if seq >= self.next_seq:
            return []
        part = self._observation.ring.read(seq, self.next_seq)
        return shown(self._observation, part.items, self._observer.redactor)

    async def wait(self, seq: int, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        changed = asyncio.Event()
        self._observation.listeners.append(changed.set)
        try:
            while True:
                changed.clear()
                event = next((e for e in self._events(seq) if found(e)), None)
                if event is not None:
                    return event
                seq = self.next_seq
                await changed.wait()
        finally:
            self._observation.listeners.remove(changed.set)

    async def mapped(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        page = Page.of(events)
        await settle_places(page, self._observation.mapper, self._observer.redactor)
        return page.events

    async def explained(self) -> bool:
        under_way = set(self._observation.explaining)
        if under_way:
            await asyncio.wait(under_way, timeout=EXPLAIN_S)
        return bool(under_way)

    async def title(self) -> str | None:
        return await self._observer.title(self._observation.target_id)

    async def value(self, expression: str) -> Any:
        return await self._observer.value(self._observation.target_id, expression)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._observer.ask(self._observation.target_id, method, params)
        except BrowserUnreachable as error:
            raise OSError(str(error)) from None

    async def body(self, request_id: str) -> str:
        try:
            body = await self._observer.body(self._observation.target_id, request_id)
        except (BodyNotAvailable, NotObserving):
            return ""
        return "" if body.encoded else self._observer.redactor.text(body.text, body.mime_type)

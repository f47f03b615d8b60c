"""The bookmarks of one connected profile: who may change them, and from when on."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pilothouse.bookmarks.changes.journal import Journal
    from pilothouse.bookmarks.extension.peer import SocketPeer

    type OnConnected = Callable[[ConnectedProfile], Awaitable[object]]
    """Finishes what a lost connection left half done."""


class ConnectedProfile:
    """Implements `ports.Profile` for one connection; the lock and the journal outlive it."""

    def __init__(self, peer: SocketPeer, journal: Journal, lock: asyncio.Lock) -> None:
        self.peer = peer
        self.journal = journal
        self._lock = lock
        self._is_sound = asyncio.Event()
        self._recovering: asyncio.Task[object] | None = None

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Hold the lock of one change, once what was left half done is finished.

        Raises:
            ConnectionLost: it was, while this change waited for its turn.
        """
        if asyncio.current_task() is self._recovering:
            yield
            return
        await self._is_sound.wait()
        async with self._lock:
            if self.peer.is_gone:
                raise self.peer.lost("before the change began", "nothing was done")
            yield

    @asynccontextmanager
    async def lent(self, on_death: OnConnected) -> AsyncIterator[None]:
        """Hold `writing` for another process. An exception ends the block when that has died:
        then what it left half done is finished before anybody else has a turn.

        Raises:
            ConnectionLost
        """
        async with self.writing():
            try:
                yield
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._finish(on_death)
                raise

    async def recover(self, on_connected: OnConnected) -> None:
        """Finish what was left half done; the changes that wait for it are let through then."""
        try:
            async with self._lock:
                await self._finish(on_connected)
        finally:
            self._is_sound.set()

    async def _finish(self, what_was_left: OnConnected) -> None:
        """Finish what was left, with the lock held, as if by its holder."""
        self._recovering = asyncio.current_task()
        try:
            await what_was_left(self)
        finally:
            self._recovering = None

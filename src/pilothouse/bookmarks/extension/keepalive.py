"""A paired socket for as long as it lasts: reads it, keeps it awake, and notices when it is dead.

Whatever is wrong with a message, the next one is read.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from websockets.exceptions import ConnectionClosed

from pilothouse.bookmarks.extension import protocol
from pilothouse.bookmarks.extension.protocol import CallAnswer, Garbage, Happening

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from websockets.asyncio.server import ServerConnection

    from pilothouse.bookmarks.extension.peer import SocketPeer

WENT_AWAY = 1001
LONGEST_REASON = 120
"""Bytes that a close frame has room for."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """The times that this side waits, in seconds."""

    hello_s: float = 4.0
    """Time for the hello: a silent socket is gone within 5 s, the closing included."""
    close_s: float = 1.0
    answer_s: float = 30.0
    heartbeat_s: float = protocol.HEARTBEAT_S
    silence_s: float = 45.0


USUAL = Timing()


async def keep(
    peer: SocketPeer,
    socket: ServerConnection,
    timing: Timing,
    *,
    recover: Callable[[], Awaitable[None]],
    is_paired: Callable[[], bool],
    tell: Callable[[Happening], None],
) -> None:
    """Return when the socket is closed; `peer` has left then.

    `recover` is run beside the reading, for it asks and is answered. `is_paired` may raise OSError.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            duties = [
                tasks.create_task(_recover(recover)),
                tasks.create_task(_beat(peer, socket, timing.heartbeat_s, is_paired)),
                tasks.create_task(_watch(peer, timing.silence_s)),
                tasks.create_task(_close_when_left(peer, socket, timing.close_s)),
            ]
            await _read(peer, socket, tell)
            for duty in duties:
                duty.cancel()
    finally:
        peer.leave(WENT_AWAY, "the extension closed it")


async def _read(
    peer: SocketPeer, socket: ServerConnection, tell: Callable[[Happening], None]
) -> None:
    loop = asyncio.get_running_loop()
    with suppress(ConnectionClosed):
        while True:
            raw = await socket.recv(decode=False)
            peer.received_at = loop.time()
            try:
                messages = protocol.parse(raw)
            except Garbage as error:
                log.debug("a message of profile %s was not understood: %s", peer.id, error)
                continue
            for message in messages:
                if isinstance(message, CallAnswer):
                    peer.answered(message)
                elif isinstance(message, Happening):
                    tell(message)


async def _beat(
    peer: SocketPeer, socket: ServerConnection, every_s: float, is_paired: Callable[[], bool]
) -> None:
    """Keep Chrome's worker awake, for as long as the code that let it in is the right one."""
    with suppress(ConnectionClosed):
        while not peer.is_gone:
            await asyncio.sleep(every_s)
            with suppress(OSError):
                if not is_paired():
                    peer.leave(protocol.WRONG_TOKEN, "there is another pairing code since")
                    return
            await socket.send(protocol.HEARTBEAT, text=True)


async def _watch(peer: SocketPeer, silence_s: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        wait = peer.received_at + silence_s - loop.time()
        if wait <= 0:
            break
        await asyncio.sleep(wait)
    peer.leave(protocol.TROUBLE, f"it was silent for {silence_s:g} s")


async def _close_when_left(peer: SocketPeer, socket: ServerConnection, within_s: float) -> None:
    await asyncio.wait([peer.left])  # awaited by itself, it would be cancelled with this task
    leaving = peer.left.result()
    try:
        async with asyncio.timeout(2 * within_s):
            await socket.close(leaving.code, closing_words(leaving.why))
    except TimeoutError:  # it does not even read, so that what was sent before stands in the way
        socket.transport.abort()


async def _recover(recover: Callable[[], Awaitable[None]]) -> None:
    try:
        await recover()
    except Exception:
        log.exception("what was left half done could not be finished")


def closing_words(text: str) -> str:
    """Return as much of it as a close frame has room for."""
    return text.encode()[:LONGEST_REASON].decode(errors="ignore")

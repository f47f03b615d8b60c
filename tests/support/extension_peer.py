"""Plays the extension on a real socket, to do what the real one never would.

What Chrome would do with a call is a function of the test's own.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from pilothouse.bookmarks.extension.protocol import ORIGIN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from websockets.asyncio.client import ClientConnection

    type CarryOut = Callable[[str, dict[str, Any]], Awaitable[Any]]
    """Method and params of a call → its result; raises `ChromeError` for Chrome's refusal."""

GUARD_S = 30.0
LARGEST = 256 * 1024 * 1024


class ChromeError(Exception):
    """What Chrome said instead of doing it."""


async def echo(method: str, params: dict[str, Any]) -> Any:
    return {"method": method, "params": params}


@dataclass
class ExtensionPeer:
    """An extension of the test's own."""

    socket: ClientConnection
    carry_out: CarryOut = echo
    calls: list[dict[str, Any]] = field(default_factory=list)
    """All that the server asked, as it asked it."""
    lists: list[int] = field(default_factory=list)
    """How many calls came together, of each list."""
    heartbeats: int = 0
    answers: bool = True

    async def send(self, message: dict[str, Any] | str | bytes) -> None:
        text = json.dumps(message) if isinstance(message, dict) else message
        await self.socket.send(text)

    async def tell(self, type: str, id: str = "", own: bool = False, **data: Any) -> None:
        """Something happened to the bookmarks."""
        params = {"type": type, "id": id, "data": data, "own": own}
        await self.send({"jsonrpc": "2.0", "method": "bookmark_event", "params": params})

    async def closed(self) -> tuple[int, str]:
        """Wait for the end of the socket: its code and reason."""
        with anyio.fail_after(GUARD_S):
            await self.socket.wait_closed()
        return self.socket.close_code or 0, self.socket.close_reason or ""

    async def run(self) -> None:
        """Carry out each call by itself, as the real one does, until the socket ends."""
        with suppress(ConnectionClosed):
            async with asyncio.TaskGroup() as tasks:
                async for raw in self.socket:
                    said = json.loads(raw)
                    if isinstance(said, list):
                        self.lists.append(len(said))
                    for message in said if isinstance(said, list) else [said]:
                        if message.get("method") == "heartbeat":
                            self.heartbeats += 1
                        elif "method" in message:
                            self.calls.append(message)
                            if self.answers:
                                tasks.create_task(self._answer(message))

    async def _answer(self, call: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": call["id"]}
        try:
            answer["result"] = await self.carry_out(call["method"], call.get("params", {}))
        except ChromeError as error:
            answer["error"] = {"code": -32000, "message": str(error)}
        with suppress(ConnectionClosed):
            await self.send(answer)


def hello(token: str, profile: str = "profile-1", name: str = "Work") -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "hello",
        "params": {
            "token": token,
            "profile": {"id": profile, "name": name},
            "boot": "boot",
            "version": "0.1.0",
            "chrome": "156.0.0.0",
        },
    }


@asynccontextmanager
async def dialled(port: int) -> AsyncIterator[ExtensionPeer]:
    """A socket with the right Origin that has said nothing yet."""
    async with connect(
        f"ws://127.0.0.1:{port}/",
        origin=ORIGIN,  # type: ignore[arg-type]
        max_size=LARGEST,
        max_queue=None,  # a test need not read to notice the end
        ping_interval=None,
        proxy=None,
        open_timeout=GUARD_S,
    ) as socket:
        yield ExtensionPeer(socket)


async def say_hello(peer: ExtensionPeer, first: dict[str, Any] | str | bytes) -> dict[str, Any]:
    """The server's answer to a first message."""
    await peer.send(first)
    with anyio.fail_after(GUARD_S):
        answer: dict[str, Any] = json.loads(await peer.socket.recv())
    return answer


@asynccontextmanager
async def extension(
    port: int,
    token: str,
    *,
    profile: str = "profile-1",
    name: str = "Work",
    carry_out: CarryOut = echo,
    answers: bool = True,
) -> AsyncIterator[ExtensionPeer]:
    """A paired extension that answers calls until the block ends."""
    async with dialled(port) as peer:
        peer.carry_out, peer.answers = carry_out, answers
        answer = await say_hello(peer, hello(token, profile, name))
        assert answer.get("result", {}).get("server"), answer
        running = asyncio.ensure_future(peer.run())
        try:
            yield peer
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

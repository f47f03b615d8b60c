"""One connected Chrome profile: every call is sent to it once and answered once.

What is asked while a call is under way waits a little and is sent together: a frame costs this
side and Chrome more than the call that it carries.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed

from pilothouse.bookmarks.extension.chrome_errors import after_silence, fault_of
from pilothouse.bookmarks.extension.protocol import request, together
from pilothouse.bookmarks.model import ConnectionLost, ExtensionTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from websockets.asyncio.server import ServerConnection

    from pilothouse.bookmarks.extension.protocol import CallAnswer, ExtensionHello


GATHER_S = 0.005
"""The longest that a call waits for the answer to an earlier one, before it is sent."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Why a socket is to be closed."""

    code: int
    why: str


class SocketPeer:
    """Implements `ports.Peer` on one socket."""

    def __init__(
        self,
        socket: ServerConnection,
        hello: ExtensionHello,
        numbers: Iterator[int],
        answer_s: float,
    ) -> None:
        """Take the ids of calls from `numbers`, of which none comes twice."""
        loop = asyncio.get_running_loop()
        self.id = hello.profile_id
        self.name = hello.name
        self.hello = hello
        self.left: asyncio.Future[Leaving] = loop.create_future()
        """Done as soon as nothing more is to be expected of it."""
        self.received_at = loop.time()
        self._socket = socket
        self._numbers = numbers
        self._answer_s = answer_s
        self._pending: dict[int, asyncio.Future[CallAnswer | None]] = {}
        self._unsent: list[bytes] = []
        self._due: asyncio.TimerHandle | None = None
        """Timer for when what is unsent has waited long enough."""
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def is_gone(self) -> bool:
        return self.left.done()

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        if self.is_gone:
            raise self.lost(f"before {method} was sent", "nothing was done")
        given = dict(params or {})
        answer = await self._call(method, given)
        if answer.error is not None:
            raise fault_of(answer.error, method, given)
        return answer.result

    async def _call(self, method: str, params: dict[str, Any]) -> CallAnswer:
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        pending: asyncio.Future[CallAnswer | None] = loop.create_future()
        self._pending[number] = pending
        try:
            async with asyncio.timeout(self._answer_s):
                self._unsent.append(request(number, method, params))
                if len(self._pending) == 1:
                    await self._send(self._gathered())
                elif self._due is None:
                    self._due = loop.call_later(GATHER_S, self._send_gathered)
                answer = await pending
        except TimeoutError:
            raise ExtensionTimeout(
                f"{self.name} did not answer {method} within {self._answer_s:g} s",
                hint=after_silence(method),
            ) from None
        finally:
            del self._pending[number]
        if answer is None:
            raise self.lost(f"during {method}", after_silence(method))
        return answer

    def _send_gathered(self) -> None:
        if self._unsent:
            sending = asyncio.get_running_loop().create_task(self._send(self._gathered()))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    def _gathered(self) -> bytes:
        """Take all that is unsent, as one message to send."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        requests, self._unsent = self._unsent, []
        return together(requests)

    async def _send(self, message: bytes) -> None:
        with suppress(ConnectionClosed):  # whoever reads notices it too, and lets it leave
            await self._socket.send(message, text=True)

    def lost(self, when: str, consequence: str) -> ConnectionLost:
        why = self.left.result().why if self.is_gone else "the socket was closed"
        return ConnectionLost(
            f"the connection to {self.name} was lost {when}: {why}",
            hint=f"{consequence}; a paired extension comes back within 30 s",
        )

    def answered(self, answer: CallAnswer) -> None:
        """Pass an answer to its call; if that has ended meanwhile, or never was, drop it."""
        pending = self._pending.get(answer.id)
        if pending is not None and not pending.done():
            pending.set_result(answer)
        self._send_gathered()

    def leave(self, code: int, why: str) -> None:
        """Expect nothing more of it: all that is pending has failed."""
        if self.is_gone:
            return
        self.left.set_result(Leaving(code, why))
        for pending in self._pending.values():
            if not pending.done():
                pending.set_result(None)

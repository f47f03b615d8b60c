"""One connection between the hub and a worker, on which both ask and answer.

    {"call": N, "do": NAME, "with": {…}}      wants an answer
    {"hold": N, "do": NAME, "with": {…}}      wants something lent; the answer says that it is
    {"drop": N}                               gives it back, or wants the answer no more
    {"tell": NAME, "with": {…}}               wants nothing
    {"answer": N, "value": …}, {"answer": N, "fault": {…}}, {"answer": N, "broke": TEXT}

Each side numbers what it asks. When the connection ends, all that was asked on it has failed, and
what was lent goes back as if whoever held it had thrown.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from pilothouse.core.declare.faults import Fault
from pilothouse.ipc.frames import (
    PIECE,
    Assembler,
    BadFrame,
    checked,
    packed,
    packed_fault,
    pieces,
    unpacked_fault,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from pilothouse.ipc.frames import Part

    type Report = Callable[[str, BaseException], None]
    """Callback for a defect, with what was done and what was raised."""

MOST_UNREAD = 64 << 20
"""Bytes that the other side has not read: one that is so far behind is given up."""


class LineLost(ConnectionError):
    """The connection has ended; the message says why."""


class ServiceBroke(RuntimeError):
    """The other side has a defect; its log has the details."""


class Served(Protocol):
    """Services that one side offers to the other. An unknown name raises LookupError."""

    async def call(self, do: str, given: dict[str, Any]) -> Any: ...

    def hold(self, do: str, given: dict[str, Any]) -> AbstractAsyncContextManager[Any]: ...

    def tell(self, do: str, given: dict[str, Any]) -> None: ...

    def lost(self) -> None:
        """Handle the end of the connection."""


class RpcConnection(asyncio.Protocol):
    """One end of a connection."""

    def __init__(self, serve: Callable[[RpcConnection], Served], report: Report) -> None:
        self._served = serve(self)
        self._report = report
        self._assembler = Assembler()
        self._transport: asyncio.Transport | None = None
        self._why = "it has not begun"
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._asked = count(1)
        self._sent = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._doing: dict[int, asyncio.Task[None]] = {}
        """Tasks that the other side asked for, by their numbers."""
        self._lent: dict[int, asyncio.Event] = {}
        """Events for what is lent to it, by number: each is set when it gives that back."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    # Requests to the other side

    async def call(self, do: str, given: dict[str, Any]) -> Any:
        """Return the other side's answer. Raises Fault, LineLost, ServiceBroke."""
        return await self._ask("call", next(self._asked), do, given)

    @asynccontextmanager
    async def hold(self, do: str, given: dict[str, Any]) -> AsyncIterator[Any]:
        """Hold what the other side lends for the block. Raises Fault, LineLost, ServiceBroke."""
        number = next(self._asked)
        value = await self._ask("hold", number, do, given)
        try:
            yield value
        finally:
            self._send({"drop": number})

    def tell(self, do: str, given: dict[str, Any]) -> None:
        self._send({"tell": do, "with": given})

    async def _ask(self, kind: str, number: int, do: str, given: dict[str, Any]) -> Any:
        if self._transport is None:
            raise LineLost(self._why)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._send({kind: number, "do": do, "with": given})
        try:
            return await answer
        except asyncio.CancelledError:
            self._send({"drop": number})
            raise
        finally:
            del self._waiting[number]

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=2 * PIECE)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._assembler.feed(data):
                self._receive(checked(message))
        except (BadFrame, LookupError, TypeError, ValueError) as error:
            self._report("service_message_refused", error)
            self.close("what came could not be read")

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close("the other side has closed it" if exc is None else str(exc))

    def close(self, why: str) -> None:
        """End the connection; a second call does nothing."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self._why = why
        transport.abort()
        self._can_write.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(LineLost(why))
        for task in self._tasks:
            task.cancel()
        self._served.lost()

    async def settled(self) -> None:
        """Wait until all that was done for the other side has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _send(self, message: dict[str, Any]) -> None:
        transport = self._transport
        if transport is None:
            return
        parts, number = packed(message), next(self._sent) & 0xFFFFFFFF
        if sum(map(len, parts)) > PIECE:
            self._begin(self._send_in_pieces(number, parts))
            return
        if transport.get_write_buffer_size() > MOST_UNREAD:
            self.close("the other side has not read what it was told for too long")
            return
        for piece in pieces(number, parts):
            transport.write(piece)

    async def _send_in_pieces(self, number: int, parts: list[Part]) -> None:
        for piece in pieces(number, parts):
            if self._transport is None:
                return
            self._transport.write(piece)
            await asyncio.sleep(0)  # others have their turn, whether or not the wire is free
            await self._can_write.wait()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # Begun at once: each turn of the loop that a call waits for costs as much as the call.
        task = asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
        if task.done():
            return task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._transport is None:  # closed by what it has begun with
            task.cancel()
        return task

    # Requests of the other side

    def _receive(self, message: dict[str, Any]) -> None:
        if "answer" in message:
            self._answered(message)
        elif "drop" in message:
            self._drop(message["drop"])
        elif "tell" in message:
            self._served.tell(message["tell"], message["with"])
        else:
            kind = "hold" if "hold" in message else "call"
            number, do, given = message[kind], message["do"], message["with"]
            work = self._lend if kind == "hold" else self._do
            task = self._begin(self._answer(number, do, work(number, do, given)))
            if not task.done():
                self._doing[number] = task
                task.add_done_callback(lambda _: self._doing.pop(number, None))

    def _answered(self, message: dict[str, Any]) -> None:
        answer = self._waiting.get(message["answer"])
        if answer is None or answer.done():
            return  # nobody waits for it any more
        if "fault" in message:
            answer.set_exception(unpacked_fault(message["fault"]))
        elif "broke" in message:
            answer.set_exception(ServiceBroke(message["broke"]))
        else:
            answer.set_result(message["value"])

    def _drop(self, number: int) -> None:
        if number in self._lent:
            self._lent[number].set()
        elif number in self._doing:
            self._doing[number].cancel()

    async def _answer(self, number: int, do: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Fault as fault:
            self._send({"answer": number, "fault": packed_fault(fault)})
        except Exception as error:
            self._report(do, error)
            self._send({"answer": number, "broke": f"{do}: {type(error).__name__}: {error}"})

    async def _do(self, number: int, do: str, given: dict[str, Any]) -> None:
        self._send({"answer": number, "value": await self._served.call(do, given)})

    async def _lend(self, number: int, do: str, given: dict[str, Any]) -> None:
        async with self._served.hold(do, given) as value:
            given_back = self._lent[number] = asyncio.Event()
            try:
                self._send({"answer": number, "value": value})
                await given_back.wait()
            finally:
                del self._lent[number]

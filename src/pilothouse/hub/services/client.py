"""A worker's end of the shared services: implements `core.hub_port.HubPort`.

It joins once, before the worker serves. A link that is lost is not made again: a worker whose hub
has ended ends soon, and says until then what it lacks.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pilothouse.core.hub_port import HubLost
from pilothouse.ipc.rpc import LineLost, RpcConnection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from pilothouse.ipc.rpc import Report

    type Hear = Callable[[str, dict[str, Any]], None]

JOIN_S = 5.0
"""Seconds that the hub may take to welcome a worker."""
SHOW = "show."
"""Prefix of what the hub asks for people who look on."""
PORTS = "house.ports"
"""Name of what the hub tells a worker to learn, or asks, if it has to know that this was done."""
NEXT_STEP = (
    "begin a new session, whose worker has a hub again; `pilothouse status` tells whether one"
    " runs, and `pilothouse --standalone` needs none"
)


class Mirror(Protocol):
    """A worker's copy of what it is told about the other processes of Pilothouse."""

    def learn(
        self, *, foreign: list[int], listeners: list[int], services: dict[str, str], paired: bool
    ) -> None:
        """Learn debugging ports of other sessions, ports on which other processes of ours answer,
        services of the hub: exactly these from now on. `paired`: a Chrome was paired."""


class Show(Protocol):
    """Answers what the hub asks for people who look on."""

    async def __call__(self, what: str, given: dict[str, Any], /) -> Any:
        """Answer a question. Raises Fault, and LookupError for what is not known."""


class ServiceLink:
    """The hub, from `join` on and for as long as the connection lasts."""

    def __init__(self, session: str, report: Report) -> None:
        self.session = session
        self.lost: HubLost | None = HubLost(
            "this worker was started without a hub, which has the services that all agents share",
            hint=NEXT_STEP,
        )
        self._report = report
        self._line: RpcConnection | None = None
        self._listening: dict[str, list[Hear]] = {}
        self.show: Show | None = None

    async def join(self, path: str, mirror: Mirror) -> None:
        """Connect to the hub that listens there; `mirror` is told what it knows, and learns.

        Raises:
            OSError, ServiceBroke: there is none, or it does not answer as it should.
        """
        line = RpcConnection(lambda _: _Ears(self, mirror), self._report)
        try:
            async with asyncio.timeout(JOIN_S):
                await asyncio.get_running_loop().create_unix_connection(lambda: line, path)
                told = await line.call("hello", {"session": self.session})
        except Exception as error:
            self.lost = _lost(f"it could not be joined ({str(error) or type(error).__name__})")
            line.close("it could not be joined")
            raise
        mirror.learn(**told)
        self._line = line
        self.lost = None if line.is_open else _lost("it was closed at once")

    def leave(self) -> None:
        """Give back all that the hub has lent."""
        if self._line is not None:
            self._line.close("this worker is about to end")

    async def call(self, do: str, /, **given: Any) -> Any:
        line = self._joined()
        try:
            return await line.call(do, given)
        except LineLost as lost:
            raise _lost(str(lost)) from None

    @asynccontextmanager
    async def hold(self, do: str, /, **given: Any) -> AsyncIterator[Any]:
        line = self._joined()
        async with AsyncExitStack() as stack:
            try:
                value = await stack.enter_async_context(line.hold(do, given))
            except LineLost as lost:
                raise _lost(str(lost)) from None
            yield value

    def tell(self, do: str, /, **given: Any) -> None:
        if self._line is not None:
            self._line.tell(do, given)

    def listen(self, service: str, hear: Hear) -> Callable[[], None]:
        listening = self._listening.setdefault(service, [])
        listening.append(hear)
        return lambda: listening.remove(hear)

    def _joined(self) -> RpcConnection:
        if self.lost is not None or self._line is None:
            raise self.lost or _lost("it was never made")
        return self._line

    def receive(self, do: str, given: dict[str, Any]) -> None:
        """Pass on what the hub sends to whoever listens."""
        service, _, what = do.partition(".")
        for hear in self._listening.get(service, ()):
            hear(what, given)


class _Ears:
    """A worker's side towards its hub: implements `Served`."""

    def __init__(self, link: ServiceLink, mirror: Mirror) -> None:
        self._link = link
        self._mirror = mirror

    async def call(self, do: str, given: dict[str, Any]) -> Any:
        if do.startswith(SHOW) and self._link.show is not None:
            return await self._link.show(do.removeprefix(SHOW), given)
        if do != PORTS:
            raise LookupError(f"a worker does no {do}")
        self._mirror.learn(**given)

    def hold(self, do: str, given: dict[str, Any]) -> AbstractAsyncContextManager[Any]:
        raise LookupError(f"a worker lends no {do}")

    def tell(self, do: str, given: dict[str, Any]) -> None:
        if do == PORTS:
            self._mirror.learn(**given)
        else:
            self._link.receive(do, given)

    def lost(self) -> None:
        self._link.lost = _lost("the hub has ended, or has given this worker up")


def _lost(why: str) -> HubLost:
    return HubLost(f"the connection to the hub is lost: {why}", hint=NEXT_STEP)

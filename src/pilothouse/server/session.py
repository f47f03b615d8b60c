"""What belongs to one agent: its timeline, its settings and the ports that its tools use.

A port is opened when the first call asks for it and closed with the session. All of them are
entered and left by one task of the session's own, because a block that holds tasks must be left
by the task that entered it, and calls come and go.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.call_priority import CallPriority
from pilothouse.core.timeline.timeline import Timeline
from pilothouse.server.claimed_ports import DebugPorts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence
    from contextlib import AbstractAsyncContextManager

    from anyio.abc import TaskGroup

    from pilothouse.core.hub_port import HubPort
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.settings import Settings
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.server.metrics import Metrics
    from pilothouse.server.render import Afterword

    type Provider = Callable[[Session], AbstractAsyncContextManager[object]]
    """Function that opens one port for one session."""


@dataclass(eq=False)
class Session:
    """One agent's part of the runtime."""

    id: str
    settings: Settings
    clock: Clock
    redactor: Redactor
    metrics: Metrics
    changed: Callable[[str], None]
    """Callback that notifies subscribers of a change of this URI's resource; returns at once."""
    provider: Callable[[type], Provider]
    """Function that returns the provider of a type of port."""
    debug_ports: DebugPorts = field(default_factory=DebugPorts)
    """Debugging ports of all agents' browsers; one object for the whole process."""
    listeners: set[int] = field(default_factory=set)
    """Ports of this machine on which Pilothouse itself answers."""
    priority: CallPriority = field(default_factory=CallPriority)
    """Sources that wait while calls are taken in and answered."""
    services: dict[str, str] = field(default_factory=dict)
    """Services beside MCP that are open in this process, each with its address or why it is off."""
    client_roots: Callable[[], Awaitable[Sequence[str]]] | None = None
    """Function that asks a local client which folders it works in."""
    unserved: Callable[[], Collection[str]] = tuple
    """Function that names the tools that are not served: no text of ours may point to them."""
    shared: Session | None = None
    """Session that holds the ports that exist once in this process, whoever asks for them."""
    hub: HubPort | None = None
    """Hub with the services that exist once on the machine; None where this process has them."""
    afterword: Callable[[], Afterword | None] | None = None
    """Function called before each answer goes out, for a text that has to stand below it once."""
    timeline: Timeline = field(default_factory=Timeline)
    running_calls: int = 0
    last_call_at: float = 0.0

    def __post_init__(self) -> None:
        self._ports: dict[type, object] = {Session: self}
        self._wanted, self._asked = anyio.create_memory_object_stream[_Wish](64)

    def serves(self, tool: str) -> bool:
        """Return whether a tool is served to this agent: no answer may send it to another."""
        return tool not in self.unserved()

    @property
    def name(self) -> str:
        """The name that others see for its agent: the same for every worker that serves it."""
        return self.hub.session if self.hub is not None else self.id

    async def port(self, kind: type) -> Any:
        """Return the session's port of this type, opening it now if it is not open yet.

        Raises:
            SessionEnded: the session ended before the port was open.
        """
        found = self._ports.get(kind)
        if found is not None:
            return found
        wish = _Wish(kind)
        try:
            await self._wanted.send(wish)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise SessionEnded from None
        await wish.done.wait()
        if wish.error is not None:
            raise wish.error
        return self._ports[kind]

    def opened(self, kind: type) -> Any:
        """Return the session's port of this type if it is open; None if not."""
        return self._ports.get(kind)

    async def host(self) -> None:
        """Hold the ports open until cancelled, then close them in reverse order."""
        try:
            async with AsyncExitStack() as stack:
                async for wish in self._asked:
                    await self._fulfil(wish, stack)
        finally:
            self.close()

    async def _fulfil(self, wish: _Wish, stack: AsyncExitStack) -> None:
        try:
            if wish.kind not in self._ports:
                opened = await stack.enter_async_context(self.provider(wish.kind)(self))
                self._ports[wish.kind] = opened
        except Exception as error:  # belongs to the call that asked, not to the session
            wish.error = error
        except BaseException:
            wish.error = SessionEnded()
            raise
        finally:
            wish.done.set()

    def close(self) -> None:
        """Open nothing from now on; whoever still waits gets SessionEnded."""
        self._wanted.close()
        with suppress(anyio.WouldBlock, anyio.EndOfStream, anyio.ClosedResourceError):
            while True:
                wish = self._asked.receive_nowait()
                wish.error = SessionEnded()
                wish.done.set()
        self._asked.close()


class SessionEnded(RuntimeError):
    """The session ended while a call was asking for one of its ports."""


@dataclass(eq=False)
class _Wish:
    kind: type
    done: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None


class HostedSessions:
    """The sessions of this process, each hosted by a task of its own."""

    def __init__(
        self,
        tasks: TaskGroup,
        make: Callable[[str], Session],
        report: Callable[[str, Exception], None] = lambda key, error: None,
    ) -> None:
        """Begin without sessions; `report` is called for one whose ports could not be closed."""
        self._tasks = tasks
        self._make = make
        self._report = report
        self._open: dict[str, tuple[Session, anyio.CancelScope]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Any:
        return iter([session for session, _ in self._open.values()])

    def get(self, key: str) -> Session:
        """Return the session of a key, made on first use."""
        held = self._open.get(key)
        if held is None:
            session, scope = self._make(key), anyio.CancelScope()
            self._open[key] = held = (session, scope)
            self._tasks.start_soon(self._host, key, session, scope)
        return held[0]

    def end(self, key: str) -> None:
        """Close a session's ports and forget it; ending one that is not there does nothing."""
        held = self._open.pop(key, None)
        if held is not None:
            held[1].cancel()

    async def _host(self, key: str, session: Session, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await session.host()
        except Exception as error:
            # One session's port that fails to close must not take the others down.
            self._report(key, error)
        finally:
            held = self._open.get(key)
            if held is not None and held[0] is session:
                del self._open[key]

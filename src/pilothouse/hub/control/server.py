"""The hub's control socket: relays get their workers there, commands ask and stop the hub.

What is said stands in protocol.py. Only this user gets in: the socket is 0600 in a private folder,
and the kernel is asked who the peer is.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from pilothouse.hub.control import protocol
from pilothouse.hub.control.protocol import (
    ControlProtocolError,
    RelayHello,
    decode_line,
    encode_line,
    parse_hello,
)
from pilothouse.hub.model import GatewayFault, Key, SessionRecord, WorkerStartFailed
from pilothouse.ipc.local_socket import listen_at, peer_uid

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from pilothouse.hub.ports import Workers
    from pilothouse.hub.sessions.registry import SessionRegistry
    from pilothouse.hub.workers.bridges.http_to_lines import Bridges

    type Report = Callable[..., None]

AGAIN_S = 0.1
"""Seconds after which a listener that could not take a connection is tried again."""


class ControlServer:
    """Server of one hub's control socket, with all who are connected to it."""

    def __init__(
        self,
        *,
        workers: Workers,
        registry: SessionRegistry,
        clock: Callable[[], float],
        about: Mapping[str, Any],
        status: Callable[[], Mapping[str, Any]],
        differing: Callable[[Mapping[str, Any]], list[str]] = lambda wanted: [],
        stop: Callable[[], None],
        report: Report = lambda event, **details: None,
        settings: Mapping[str, Any] | None = None,
        bridges: Bridges | None = None,
    ) -> None:
        """Take the parts; nothing listens before `open_at`.

        Args:
            workers: Where relays get theirs.
            registry: Which has a record of each relay.
            clock: The registry's.
            about: What a relay is welcomed with: `version`, `pid`, `url` and `worker`, the kind.
            status: What is told to who asks for it, as JSON can hold it.
            differing: Which of the given settings are not those of the hub.
            stop: Called when somebody wants the hub to end.
            report: Is told what happens, by name and details.
            settings: Those of the hub that hold for a relay's worker unless it brings its own.
            bridges: Lead relays to workers that speak HTTP alone.
        """
        self._workers = workers
        self._registry = registry
        self._clock = clock
        self._about = dict(about)
        self._status = status
        self.differing = differing
        self._stop = stop
        self._report = report
        self._settings = dict(settings or {})
        self._bridges = bridges
        self._visits: set[asyncio.Task[None]] = set()
        self._visitors: set[Visitor] = set()
        self.relays: dict[str, RelayHello] = {}
        """Hello of each relay that is still there, by the value of its key."""

    @asynccontextmanager
    async def open_at(self, path: Path) -> AsyncIterator[None]:
        """Listen for the block; a lock holder may replace a dead hub's socket. Raises OSError."""
        remove(path)
        listener = listen_at(str(path))
        accepting = asyncio.create_task(self._accept(listener))
        try:
            yield
        finally:
            # First, so that whoever comes now finds nobody rather than one who is leaving.
            remove(path)
            accepting.cancel()
            listener.close()
            for visit in self._visits:
                visit.cancel()
            await asyncio.gather(*self._visits, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                link, _ = await loop.sock_accept(listener)
            except OSError as error:  # no more descriptors; those that are there go on
                self._report("control_accept_failed", error=str(error))
                # Nothing tells when there are some again.
                await asyncio.sleep(AGAIN_S)
                continue
            visit = asyncio.create_task(self._visit(link))
            self._visits.add(visit)
            visit.add_done_callback(self._visits.discard)

    async def _visit(self, link: socket.socket) -> None:
        if peer_uid(link) != os.getuid():
            self._report("control_refused", uid=peer_uid(link))
            link.close()
            return
        reader, writer = await asyncio.open_unix_connection(sock=link, limit=protocol.LONGEST)
        visitor = Visitor(self, writer)
        self._visitors.add(visitor)
        try:
            while line := await reader.readline():
                await visitor.receive(decode_line(line))
        except ControlProtocolError as bad:
            visitor.say(refused=str(bad))
        except (OSError, ValueError):  # the latter: a line without end
            pass
        finally:
            self._visitors.discard(visitor)
            with suppress(OSError):
                writer.close()
            await visitor.leave()

    def paired(self) -> None:
        """Tell every relay, now or when it comes, that a Chrome was paired."""
        self._about["paired"] = True
        for visitor in self._visitors:
            if visitor.is_relay:
                visitor.say(paired=True)

    # What visitors ask for

    async def join(self, hello: RelayHello) -> SessionRecord:
        """Open a session for a relay. Raises GatewayFault."""
        name = uuid.uuid4().hex
        now = self._clock()
        record = SessionRecord(
            name,
            Key("relay", name),
            "2025",
            now,
            now,
            settings={**self._settings, **hello.settings},
            cwd=hello.cwd,
        )
        await self._registry.open(record)
        self.relays[name] = hello
        self._report("relay_joined", relay=name, pid=hello.pid)
        return record

    async def leave(self, record: SessionRecord) -> None:
        """End the session of a relay that is gone, and with it its worker."""
        self.relays.pop(record.id, None)
        if self._bridges is not None:
            self._bridges.close(record)
        await self._registry.end(record)
        await self._workers.end(record.key)
        self._report("relay_left", relay=record.id)

    async def worker(self, record: SessionRecord) -> dict[str, Any]:
        """Return the socket of the record's worker, started if need be. Raises GatewayFault."""
        await self._registry.find(record.id, record.principal)  # it is in use
        async with await self._workers.get(record.key, record) as lease:
            lines = lease.worker.address.lines
            if not lines and self._bridges is not None:
                lines = await self._bridges.path(record)
            if not lines:
                raise WorkerStartFailed(
                    f"the workers of this hub speak HTTP only; connect to {self._about['url']}/mcp"
                )
            return {"lines": lines, "fresh": lease.is_fresh}

    def welcome(self) -> dict[str, Any]:
        return self._about

    def status(self) -> dict[str, Any]:
        return dict(self._status())

    def stop(self) -> None:
        self._stop()


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


class Visitor:
    """One connection."""

    def __init__(self, server: ControlServer, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._writer = writer
        self._record: SessionRecord | None = None
        self._starting: asyncio.Task[None] | None = None

    @property
    def is_relay(self) -> bool:
        return self._record is not None

    def say(self, **word: object) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode_line(**word))

    async def receive(self, word: dict[str, Any]) -> None:
        """Answer one word of the peer's. Raises ControlProtocolError."""
        match word:
            case {"hello": given} if self._record is None:
                await self._hello(parse_hello(given))
            case {"worker": True} if self._record is not None:
                if isinstance(client := word.get("client"), dict):
                    self._record.initialize = {"clientInfo": client}
                if self._starting is None or self._starting.done():
                    # A task, so that the relay's leaving is noticed meanwhile.
                    self._starting = asyncio.create_task(self._worker(self._record))
            case {"status": True}:
                self.say(status=self._server.status())
            case {"compare": dict(wanted)}:
                self.say(differ=self._server.differing(wanted))
            case {"stop": True}:
                self.say(stopping=True)
                self._server.stop()
            case _:
                raise ControlProtocolError(
                    f"{', '.join(map(str, word))[:100]!r} is not understood here and now"
                )

    async def _hello(self, hello: RelayHello) -> None:
        version = self._server.welcome()["version"]
        if hello.version != version:
            self.say(refused=f"this hub is of version {version}, the relay of {hello.version}")
            return
        try:
            self._record = await self._server.join(hello)
        except GatewayFault as fault:
            self.say(refused=fault.message)
        else:
            self.say(welcome=self._server.welcome())

    async def _worker(self, record: SessionRecord) -> None:
        try:
            self.say(worker=await self._server.worker(record))
        except GatewayFault as fault:
            self.say(
                fault={
                    "message": fault.message,
                    "code": fault.code,
                    "retryAfter": fault.retry_after,
                }
            )

    async def leave(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        if self._record is not None:
            record, self._record = self._record, None
            await self._server.leave(record)

"""The extension's end: sockets in, connected profiles out.

A socket is let in by its Origin and its token. One profile has one socket, the newest.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import anyio
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from pilothouse.bookmarks.changes.profile import ConnectedProfile
from pilothouse.bookmarks.extension import protocol
from pilothouse.bookmarks.extension.admission import Socket, Strangers, check_request
from pilothouse.bookmarks.extension.guidance import HOST, Guidance
from pilothouse.bookmarks.extension.keepalive import USUAL, closing_words, keep
from pilothouse.bookmarks.extension.peer import SocketPeer
from pilothouse.bookmarks.extension.protocol import NotAdmitted
from pilothouse.bookmarks.model import TREE_URI
from pilothouse.core.declare.faults import RateLimited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from websockets.asyncio.server import ServerConnection

    from pilothouse.bookmarks.changes.journal import Journal
    from pilothouse.bookmarks.changes.profile import OnConnected
    from pilothouse.bookmarks.extension.keepalive import Timing
    from pilothouse.bookmarks.extension.pairing import Pairing
    from pilothouse.bookmarks.extension.protocol import ExtensionHello, Happening
    from pilothouse.bookmarks.model import ExtensionNotConnected
    from pilothouse.bookmarks.ports import ChangeListener
    from pilothouse.core.timeline.clock import Clock

BACKLOG = 512
"""Connections that may wait to be taken."""
TAKEN_AT_ONCE = 4
"""Connections that are taken before those that are there are read again."""
MAX_HELLO_BYTES = 16 * 1024
MAX_BYTES = 256 * 1024 * 1024
"""A tree of 100,000 bookmarks has about 30 MB; with long addresses, a multiple of it."""
CLOSE_S = 3.0
"""Seconds that all sockets together may take to close."""
FIRST_IDS = 2**50
"""A server that was started anew begins somewhere else; JavaScript counts exactly to 2**53."""

log = logging.getLogger(__name__)


@dataclass
class _KnownProfile:
    """The part of a profile that outlives its connections."""

    journal: Journal
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ExtensionServer:
    """The server of the extension's sockets, which all agents of this process share."""

    def __init__(
        self,
        *,
        server: str,
        pairing: Pairing,
        clock: Clock,
        guidance: Guidance,
        open_journal: Callable[[str], Journal],
        on_connected: OnConnected,
        on_state: Callable[[str], None] = lambda state: None,
        on_port: Callable[[int], None] = lambda port: None,
        own_user_only: bool = True,
        timing: Timing = USUAL,
    ) -> None:
        """Present ourselves as `server`, our name and version.

        `on_state` is called with words when something about the link changes, `on_port` with the
        port on which it listens.
        """
        self._guidance = guidance
        self._server = server
        self._pairing = pairing
        self._clock = clock
        self._open_journal = open_journal
        self._on_connected = on_connected
        self._on_state = on_state
        self._on_port = on_port
        self._own_user_only = own_user_only
        self._timing = timing
        self._numbers = count(secrets.randbelow(FIRST_IDS))
        self._strangers = Strangers()
        self._known: dict[str, _KnownProfile] = {}
        self._connected: dict[str, ConnectedProfile] = {}
        self._views: set[ChangeListener] = set()
        self._watchers: set[Callable[[], None]] = set()
        self._wanted = asyncio.Event()
        self._opening = asyncio.Lock()

    @property
    def profiles(self) -> list[ConnectedProfile]:
        return [profile for profile in self._connected.values() if not profile.peer.is_gone]

    def not_connected(self) -> ExtensionNotConnected:
        """Return what a call answers that finds no profile."""
        if self._guidance.is_off:
            self._wanted.set()
        return self._guidance.fault()

    def could_not_open(self, why: str) -> None:
        self._guidance.could_not_open(why)
        self._say_state()

    async def until_wanted(self) -> None:
        """Wait until a call finds the link off."""
        self._wanted.clear()
        await self._wanted.wait()

    def close(self) -> None:
        for known in self._known.values():
            known.journal.close()

    @contextmanager
    def view(self, view: ChangeListener) -> Iterator[None]:
        """Send an agent's view what happens for as long as the block lasts."""
        self._views.add(view)
        try:
            yield
        finally:
            self._views.discard(view)

    # For workers, which have a link of their own to this one

    @property
    def facts(self) -> dict[str, Any]:
        """Facts about the connection to the extension."""
        return self._guidance.facts()

    @contextmanager
    def watched(self, watcher: Callable[[], None]) -> Iterator[None]:
        """Call `watcher` when the profiles or the facts have changed, until the block ends."""
        self._watchers.add(watcher)
        try:
            yield
        finally:
            self._watchers.discard(watcher)

    async def finish(self, profile: ConnectedProfile) -> None:
        """Finish what somebody has left half done who was lent this profile."""
        await self._on_connected(profile)

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[None]:
        """Take sockets until the block ends; then all are closed.

        Raises:
            OSError: the port cannot be had.
        """
        server = await serve(
            self._attend,
            HOST,
            port,
            backlog=TAKEN_AT_ONCE,
            process_request=check_request,
            create_connection=cast(
                "type[Socket]",
                partial(Socket, strangers=self._strangers, own_user_only=self._own_user_only),
            ),
            # A tree is sent once and over loopback: packing it would only take time.
            compression=None,
            server_header=None,
            open_timeout=self._timing.hello_s,
            close_timeout=self._timing.close_s,
            # Chrome's worker sleeps through pings: heartbeats are messages.
            ping_interval=None,
            max_size=MAX_HELLO_BYTES,
            logger=_silent(),
        )
        with server.sockets[0].dup() as listener:
            listener.listen(BACKLOG)  # asyncio waits with, and takes, the same number
            port = listener.getsockname()[1]
        self._on_port(port)
        self._guidance.opened(port)
        self._say_state()
        try:
            yield
        finally:
            self._strangers.close()
            server.close()
            with anyio.move_on_after(CLOSE_S, shield=True):
                await server.wait_closed()

    # One socket

    async def _attend(self, connection: ServerConnection) -> None:
        try:
            await self._converse(cast("Socket", connection))
        except ConnectionClosed:
            pass  # it went before it was let in
        except Exception:
            log.exception("a socket of an extension was dropped")

    async def _converse(self, socket: Socket) -> None:
        try:
            hello = await self._admitted(socket)
            known = await self._known_profile(hello.profile_id)
        except NotAdmitted as why:
            self._guidance.refused(why.message)
            self._say_state()
            await socket.send(protocol.refusal(why), text=True)
            await socket.close(why.code, closing_words(why.message))
        else:
            socket.may_say(MAX_BYTES)
            await socket.send(protocol.welcome(self._server), text=True)
            peer = SocketPeer(socket, hello, self._numbers, self._timing.answer_s)
            await self._keep(ConnectedProfile(peer, known.journal, known.lock), socket)

    async def _admitted(self, socket: Socket) -> ExtensionHello:
        """Return the hello of a paired extension. Raises NotAdmitted, ConnectionClosed."""
        try:
            async with asyncio.timeout_at(socket.opened_at + self._timing.hello_s):
                hello = protocol.parse_hello(await socket.recv())
        except TimeoutError:
            raise NotAdmitted(protocol.NOT_A_HELLO, "no hello came in time") from None
        # Strangers who guess lock out each other, not a profile that was let in before.
        who = hello.profile_id if hello.profile_id in self._known else ""
        try:
            is_paired = self._pairing.admits(hello.token, who)
        except RateLimited as fault:
            raise NotAdmitted(
                protocol.TOO_MANY_WRONG,
                f"{fault.message}: {fault.hint}",
                cast("float", fault.details["retryAfterSec"]),
            ) from None
        except OSError as error:
            raise NotAdmitted(protocol.TROUBLE, f"the code cannot be read: {error}") from None
        if not is_paired:
            raise NotAdmitted(
                protocol.WRONG_TOKEN,
                "the pairing code is wrong: `pilothouse pair` shows the right one",
            )
        return hello

    async def _known_profile(self, profile_id: str) -> _KnownProfile:
        """Return a profile. Raises NotAdmitted when its journal cannot be used."""
        async with self._opening:
            if profile_id not in self._known:
                try:
                    journal = await asyncio.to_thread(self._open_journal, profile_id)
                except OSError as error:
                    why = f"the journal of changes cannot be opened: {error}"
                    raise NotAdmitted(protocol.TROUBLE, why) from None
                self._known[profile_id] = _KnownProfile(journal)
        return self._known[profile_id]

    async def _keep(self, profile: ConnectedProfile, socket: Socket) -> None:
        """Hold a paired socket until either side leaves; it takes the place of an older one."""
        peer = profile.peer
        older = self._connected.get(peer.id)
        if older is not None:
            older.peer.leave(protocol.TAKEN_OVER, "a newer socket of this profile took over")
        self._connected[peer.id] = profile
        self._came_or_went(peer)
        try:
            await keep(
                peer,
                socket,
                self._timing,
                recover=lambda: profile.recover(self._on_connected),
                is_paired=lambda: self._pairing.is_current(peer.hello.token),
                tell=lambda happening: self._tell(peer, happening),
            )
        finally:
            if self._connected.get(peer.id) is profile:
                del self._connected[peer.id]
                self._came_or_went(peer)

    # What agents are sent

    def _came_or_went(self, peer: SocketPeer) -> None:
        self._guidance.connected([profile.peer.name for profile in self.profiles])
        self._say_state()
        if not peer.is_gone:
            for view in self._views:
                view.changed(TREE_URI)

    def _say_state(self) -> None:
        self._on_state(self._guidance.state())
        for watcher in self._watchers:
            watcher()

    def _tell(self, peer: SocketPeer, happening: Happening) -> None:
        event = happening.event(self._clock(), peer.name)
        for view in self._views:
            view.tell(event)


def _silent() -> logging.Logger:
    """Return a quiet logger: the library logs every stranger, and what they send with traceback."""
    quiet = logging.getLogger("pilothouse.bookmarks.sockets")
    quiet.setLevel(logging.CRITICAL)
    return quiet

"""Who may open a socket: checked before anything that a stranger says is read.

A web page can open a WebSocket to any port of this machine, and so can another extension; both
tell the truth in `Origin`. A program can lie there, so the token decides (server.py). What nobody
may do is fill this process with sockets that say nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from websockets.asyncio.server import ServerConnection

from pilothouse.bookmarks.extension.protocol import ORIGIN
from pilothouse.core.net.origins import OriginPolicy
from pilothouse.machine.net.local_users import Caller, caller_of

if TYPE_CHECKING:
    import asyncio

    from websockets.http11 import Request, Response

MAX_STRANGERS = 64
"""Most sockets without a hello yet. The oldest makes room: an extension needs milliseconds."""

FOREIGN_USER = (
    "This server takes connections of the user who started it and of root alone. Connect as that"
    " user, or start it with --local-users all: then the pairing code alone decides.\n"
)
_origin_policy = OriginPolicy()


def check_request(socket: ServerConnection, request: Request) -> Response | None:
    """Return the refusal of a request that is not the extension's own, or None."""
    if isinstance(socket, Socket) and socket.caller is Caller.OTHER:
        return socket.respond(403, FOREIGN_USER)
    hosts, origins = request.headers.get_all("Host"), request.headers.get_all("Origin")
    if len(hosts) != 1 or not _origin_policy.admits_host(hosts[0]):
        return socket.respond(403, "This server is for this machine alone.\n")
    if origins != [ORIGIN]:
        return socket.respond(403, "Only the Pilothouse extension may connect here.\n")
    return None


class Strangers:
    """The sockets that have not sent a hello."""

    def __init__(self) -> None:
        self._sockets: dict[Socket, None] = {}
        self._is_closed = False

    def add(self, socket: Socket) -> None:
        self._sockets[socket] = None
        if self._is_closed:
            socket.transport.abort()
        elif len(self._sockets) > MAX_STRANGERS:
            oldest = next(iter(self._sockets))
            self.remove(oldest)
            oldest.transport.abort()

    def remove(self, socket: Socket) -> None:
        self._sockets.pop(socket, None)

    def close(self) -> None:
        """Drop all, and whoever still comes."""
        self._is_closed = True
        for socket in list(self._sockets):
            socket.transport.abort()


class Socket(ServerConnection):
    """A connection that is a stranger's until it `may_say` more than hello."""

    caller = Caller.UNKNOWN
    """User whose process has connected; where that is not known or checked, the code decides."""

    def __init__(
        self, *args: Any, strangers: Strangers, own_user_only: bool, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._strangers = strangers
        self._own_user_only = own_user_only
        self.opened_at = self.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._own_user_only:
            self.caller = caller_of(transport)
        self._strangers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._strangers.remove(self)
        super().connection_lost(exc)

    def may_say(self, most_bytes: int) -> None:
        """Take messages of this size from now on: it is no stranger any more."""
        self._strangers.remove(self)
        self.protocol.max_message_size = most_bytes

"""Running an ASGI application on a socket, for as long as a block lasts."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.machine.net.local_users import caller_of
from pilothouse.server.transports.streams import EndingStreams

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import AsyncIterator, Iterator

GRACE_S = 2
"""Seconds that requests which are under way may take at the end."""
CALLER = "caller"
"""Key in a request's state for who has connected (machine/net/local_users.py)."""


@asynccontextmanager
async def serving(
    app: Any, listener: socket.socket, tls_cert: str = "", tls_key: str = ""
) -> AsyncIterator[None]:
    """Serve until the block ends; it begins when the first request would be answered."""
    import uvicorn

    ready = anyio.Event()
    streams = EndingStreams(app)

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # Uvicorn would re-raise a signal and end the process before we closed up.
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready.set()

    config = uvicorn.Config(
        streams,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE_S,
        ws="websockets-sansio",
        ssl_certfile=tls_cert or None,
        ssl_keyfile=tls_key or None,
    )
    config.load()
    config.http_protocol_class = _judging(config.http_protocol_class)
    server = Server(config)

    async def serve() -> None:
        # It ends when it is asked to: cancelled, it would leave its requests half answered.
        with anyio.CancelScope(shield=True):
            await server.serve([listener])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await ready.wait()
        try:
            yield
        finally:
            streams.end()
            server.should_exit = True


def _judging(protocol: Any) -> Any:
    """Return a protocol for HTTP that looks once, when a connection is taken, who has connected."""

    class Judging(protocol):  # type: ignore[misc]  # uvicorn has several
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.app_state: dict[str, Any] = {**self.app_state, CALLER: caller_of(transport)}

        def send_400_response(self, msg: str) -> None:
            """Refuse what is no HTTP any more, and have nobody else answer the same request."""
            from h11 import LocalProtocolError

            try:
                super().send_400_response(msg)
            except LocalProtocolError:  # the answer has begun
                self.transport.close()
            if self.cycle is not None:
                self.cycle.disconnected = True
                self.cycle.message_event.set()

    return Judging

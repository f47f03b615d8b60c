"""Errors that mitmproxy gives an exchange that breaks off, put right before they are reported.

A body that was held back until it was whole, and never became it, is forgotten with the
connection: the record would say that nothing came. A stream that the server resets is said to be
reset by the client. And a certificate that is not trusted, or that the server misses, is nothing
that the client can help.
Imported for what it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mitmproxy.proxy.layers.http import HttpStream, _events

from pilothouse.intercept.engine.patches.client_certificates import given_up

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_RESET_BY_CLIENT = "stream reset by client"
_TRUST = (
    "The proxy does not trust that server: start Pilothouse with PILOTHOUSE_UPSTREAM_CA=FILE for"
    " its authority, or PILOTHOUSE_UPSTREAM_INSECURE=true"
)

type _Handle = Callable[[Any, Any], Generator[Any, Any]]


def _put_right(handle: _Handle) -> _Handle:
    def handled(self: Any, event: Any) -> Generator[Any, Any]:
        _keep(self.flow.request, self.request_body_buf)
        _keep(self.flow.response, self.response_body_buf)
        if isinstance(event, _events.ResponseProtocolError):
            event.message = _told(event.message, self.context.server)
        yield from handle(self, event)

    return handled


def _keep(message: Any, came: Any) -> None:
    if message is not None and message.raw_content is None and came:
        message.raw_content = bytes(came)


def _told(error: str, server: Any) -> str:
    """Return an error of the server's side as it should read."""
    if why := given_up(server):
        return why if why in error else f"{why} ({error})"
    if error.startswith("Certificate verify failed"):
        return f"{error}. {_TRUST}"
    return error.replace(_RESET_BY_CLIENT, "stream reset by server", 1)


def _fill() -> None:
    stream: Any = HttpStream
    stream.handle_protocol_error = _put_right(stream.handle_protocol_error)


_fill()

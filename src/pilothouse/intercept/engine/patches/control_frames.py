# mypy: allow-untyped-calls
"""Pings and pongs of WebSockets, which mitmproxy passes on without telling its addons.

Here they get a hook of their own, `websocket_control`. Imported for what it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mitmproxy.proxy.commands import StartHook
from mitmproxy.proxy.layers import websocket
from wsproto.events import Ping, Pong

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from mitmproxy import http
    from wsproto.events import Event

    type Relay = Callable[[Any, Any], Generator[Any, Any]]


@dataclass(frozen=True, slots=True)
class Control:
    """A ping or a pong that has been received and is passed on."""

    flow: http.HTTPFlow
    frame: Ping | Pong
    from_client: bool


@dataclass
class WebsocketControlHook(StartHook):
    """Hook with which mitmproxy calls `websocket_control`."""

    control: Control


class _Connection(websocket.WebsocketConnection):
    """Connection that keeps pings and pongs until the hook for them has been called."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.control: list[Ping | Pong] = []

    def events(self) -> Iterator[Event]:
        for event in super().events():
            if isinstance(event, Ping | Pong):
                self.control.append(event)
            yield event


def _with_hook(relay: Relay) -> Relay:
    def relay_messages(self: Any, event: Any) -> Generator[Any, Any]:
        relaying, reply = relay(self, event), None
        while True:
            try:
                command = relaying.send(reply)
            except StopIteration:
                return
            for source, from_client in ((self.client_ws, True), (self.server_ws, False)):
                while source.control:
                    control = Control(self.flow, source.control.pop(0), from_client)
                    yield WebsocketControlHook(control)
            reply = yield command

    return relay_messages


def _fill() -> None:
    module: Any = websocket
    module.WebsocketConnection = _Connection
    layer: Any = websocket.WebsocketLayer
    layer.relay_messages = _with_hook(layer.relay_messages)


_fill()

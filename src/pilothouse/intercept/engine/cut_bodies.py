"""What had come of a body that was held back until it was whole, and never became it.

mitmproxy forgets it with the connection, so that the record would say that nothing came. Imported
for what it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mitmproxy.proxy.layers import http

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

type _Handle = Callable[[Any, Any], Generator[Any, Any]]


def _keeping(handle: _Handle) -> _Handle:
    def handled(self: Any, event: Any) -> Generator[Any, Any]:
        flow = self.flow
        _keep(flow.request, self.request_body_buf)
        _keep(flow.response, self.response_body_buf)
        yield from handle(self, event)

    return handled


def _keep(message: Any, came: Any) -> None:
    if message is not None and message.raw_content is None and came:
        message.raw_content = bytes(came)


def _fill() -> None:
    stream: Any = http.HttpStream
    stream.handle_protocol_error = _keeping(stream.handle_protocol_error)


_fill()

"""Which packets the owner is told of: each one once, when it is in the file. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pilothouse.intercept.model import Exchange, Sent


class Announcer:
    """Remembers the requests that were told and still have no response."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def rows(self, exchanges: Iterable[Exchange]) -> list[dict[str, Any]]:
        """The rows that are new in a batch that was written."""
        found = []
        for exchange in exchanges:
            request, response = exchange.request_id, exchange.response_id
            group = min(request, response) or request or response
            if request and exchange.request:
                if request not in self._open:
                    found.append(_row(request, group, exchange, exchange.request))
                if response or exchange.error:
                    self._open.discard(request)
                else:
                    self._open.add(request)
            if response and exchange.response:
                found.append(_row(response, group, exchange, exchange.response))
        return found


def _row(packet_id: int, group: int, exchange: Exchange, sent: Sent) -> dict[str, Any]:
    return {
        "id": packet_id,
        "group": group,
        "kind": exchange.kind,
        "method": exchange.method,
        "url": exchange.url,
        "server_name": exchange.server_name,
        "status": exchange.status,
        "session": exchange.session,
        "key": exchange.key,
        "resend": exchange.resend,
        "time": sent.time,
    }

"""The packets that are reported to the owner: each one once, when it is in the file. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.intercept.model import Exchange, WireMessage


class Announcer:
    """Finder of new packets by their ids, which the file gives in the order of the batches."""

    def __init__(self) -> None:
        self._newest = 0

    def rows(self, exchanges: Sequence[Exchange]) -> list[dict[str, Any]]:
        """Return the rows that are new in a batch that was written."""
        found = [
            _row(packet_id, exchange, sent)
            for exchange in exchanges
            for packet_id, sent in (
                (exchange.request_id, exchange.request),
                (exchange.response_id, exchange.response),
            )
            if sent and packet_id > self._newest
        ]
        self._newest = max((row["id"] for row in found), default=self._newest)
        return found


def _row(packet_id: int, exchange: Exchange, sent: WireMessage) -> dict[str, Any]:
    request, response = exchange.request_id, exchange.response_id
    return {
        "id": packet_id,
        "group": min(request, response) or request or response,
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

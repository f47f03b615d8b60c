"""The rows that a batch of exchanges becomes. Pure: ids are given here, the file is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import batched
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pilothouse.intercept.model import Exchange, WireMessage

type Row = tuple[Any, ...]

PACKETS = (
    "id group_id is_response connection session listener type encode alpn scheme server_name"
    " client_ip client_port server_ip server_port method url version status duration_ms time length"
    " modified resend job key error peer_id peer_time peer_length peer_modified"
).split()
CONTENTS = "id head body trailers body_length original_head original_body".split()
CHUNKS = ["id", "sizes"]
UPDATED = (
    "status duration_ms error type server_ip server_port peer_id peer_time peer_length"
    " peer_modified"
).split()
"""Columns that a row learns later: where its exchange went, and how it ended."""
AT_ONCE = 128
"""Rows per statement. While one runs, the interpreter is free for others, and after each the thread
waits for its turn, which takes far longer than preparing a statement of any size; so few long ones.
"""
BIGGEST = (1 << 63) - 1

REQUEST, RESPONSE = 1, 2


class PostedExchange(NamedTuple):
    """One call of `post`."""

    number: int
    exchange: Exchange
    sides: int
    """Sides that were there when it was posted."""
    size: int


@dataclass(slots=True)
class Ids:
    """An exchange's packets in a batch; 0 for a side that is not there."""

    exchange: Exchange
    request: int = 0
    response: int = 0
    new: int = 0
    """Sides that have no row yet."""

    @property
    def group(self) -> int:
        return min(self.request, self.response) or self.request or self.response


@dataclass(slots=True)
class WriteBatch:
    packets: list[Row] = field(default_factory=list)
    contents: list[Row] = field(default_factory=list)
    chunks: list[Row] = field(default_factory=list)
    updates: list[Row] = field(default_factory=list)
    """Rows of an id, then the values of `UPDATED`."""
    exchanges: list[Ids] = field(default_factory=list)
    last_id: int = 0


def planned(entries: Sequence[PostedExchange], last_id: int, evicted_to: int) -> WriteBatch:
    """Give ids in the order of the posts, after `last_id`; an evicted exchange begins anew."""
    found: dict[int, Ids] = {}
    for entry in entries:
        exchange = entry.exchange
        ids = found.get(id(exchange))
        if ids is None:
            ids = found[id(exchange)] = Ids(exchange)
            if max(exchange.request_id, exchange.response_id) > evicted_to:
                ids.request, ids.response = exchange.request_id, exchange.response_id
        if entry.sides & REQUEST and not ids.request:
            last_id += 1
            ids.request, ids.new = last_id, ids.new | REQUEST
        if entry.sides & RESPONSE and not ids.response:
            last_id += 1
            ids.response, ids.new = last_id, ids.new | RESPONSE
    batch = WriteBatch(exchanges=list(found.values()), last_id=last_id)
    for ids in batch.exchanges:
        _add(batch, ids)
    return batch


def _add(batch: WriteBatch, ids: Ids) -> None:
    exchange = ids.exchange
    request = exchange.request if ids.request else None
    response = exchange.response if ids.response else None
    for side, packet_id, sent, peer_id, peer in (
        (REQUEST, ids.request, request, ids.response, response),
        (RESPONSE, ids.response, response, ids.request, request),
    ):
        if sent is None:
            continue
        of_peer = _peer(peer_id, peer)
        if ids.new & side:
            batch.packets.append(_packet(ids, side, packet_id, sent, of_peer))
            batch.contents.append(_content(packet_id, sent))
            if sent.chunks:
                batch.chunks.append((packet_id, ",".join(map(str, sent.chunks))))
        else:
            batch.updates.append((packet_id, *_learned(exchange), *of_peer))


def _packet(ids: Ids, side: int, packet_id: int, sent: WireMessage, of_peer: Row) -> Row:
    x = ids.exchange
    return (
        packet_id, ids.group, side == RESPONSE, x.connection, x.session, x.listener, x.kind,
        x.encode, x.alpn, x.scheme, x.server_name, x.client.ip, x.client.port, x.server.ip,
        x.server.port, x.method or None, x.url or None, x.version, x.status, x.duration_ms,
        sent.time, sent.length, sent.modified, x.resend, x.job, x.key, x.error,
        *of_peer,
    )  # fmt: skip


def _content(packet_id: int, sent: WireMessage) -> Row:
    original = sent.original or (None, None)
    return (packet_id, sent.head, sent.body, sent.trailers, sent.body_length, *original)


def _learned(x: Exchange) -> Row:
    return (x.status, x.duration_ms, x.error, x.kind, x.server.ip, x.server.port)


def _peer(peer_id: int, peer: WireMessage | None) -> Row:
    if peer is None:
        return (None, None, None, None)
    return (peer_id, peer.time, peer.length, peer.modified)


def storable(row: Row) -> Row:
    """Return the row with what SQLite does not take made into what it does."""
    return tuple(map(_storable, row))


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return max(-BIGGEST, min(value, BIGGEST))
    return value


def statements(before: str, rows: Sequence[Row], after: str = "") -> Iterator[tuple[str, Row]]:
    """Yield SQL for all rows, each statement with the values of as many as it takes."""
    for part in batched(rows, AT_ONCE, strict=False):
        marks = f"({','.join('?' * len(part[0]))})"
        values = tuple(value for row in part for value in row)
        yield f"{before} VALUES {','.join([marks] * len(part))}{after}", values


def inserting(table: str, columns: Sequence[str], rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    return statements(f"INSERT INTO {table} ({','.join(columns)})", rows)


def updating(rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    sets = ",".join(f"{name} = new.column{at}" for at, name in enumerate(UPDATED, 2))
    return statements(
        f"UPDATE packets SET {sets} FROM (", rows, ") AS new WHERE packets.id = new.column1"
    )

"""Tools that hand traffic on: as HAR, as a curl command, as the difference of two packets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import SnakeResult
from pilothouse.core.declare.tool import Example, tool
from pilothouse.intercept.model import FAULTS, BadFilter, PacketNotFound
from pilothouse.intercept.ports import HistoryAsk, Interceptor
from pilothouse.intercept.tools.shared import (
    INTERCEPT,
    MOST_ROWS,
    InterceptArgs,
    ProxyAnswer,
    packet,
)

if TYPE_CHECKING:
    from pilothouse.intercept.ports import Detail, Side

MOST_BODY_BYTES = 4 * 1024 * 1024
"""Bytes of all bodies in one HAR together."""


class ExportHar(InterceptArgs):
    filter: str | None = Field(default=None, description="As for get_history")
    packet_ids: list[int] | None = Field(
        default=None, max_length=MOST_ROWS, description="These instead"
    )
    limit: int = Field(default=100, ge=1, le=MOST_ROWS, description="Newest packets at most")
    max_body_bytes: int = Field(
        default=MOST_BODY_BYTES, ge=0, le=MOST_BODY_BYTES, description="Leave larger bodies out"
    )


class ShownHar(SnakeResult):
    har: dict[str, Any] = Field(description="HAR 1.2, oldest first, secrets masked")
    entries: int = Field(description="Entries in it")
    has_more: bool = Field(description="Whether older packets match, too")
    left_out: list[int] | None = Field(
        default=None, description="Packets without their bodies: too large, or no room for them"
    )

    def dump(self) -> dict[str, Any]:
        # Its nulls are part of the format.
        return {**super().dump(), "har": self.har}


@tool(
    INTERCEPT,
    effect="read",
    raises=(*FAULTS, BadFilter, PacketNotFound),
    examples=(Example(title="Failed calls", args={"filter": "status >= 400"}),),
)
async def export_har(args: ExportHar, interceptor: Interceptor) -> ShownHar:
    """Export recorded exchanges as HAR."""
    await interceptor.admit(args.token)
    from pilothouse.intercept.present.har import har

    if args.packet_ids is not None and args.filter:
        raise InvalidInput(
            "packet_ids: it cannot be used together with filter",
            hint="give one of them",
            field="packet_ids",
            expected="filter or packet_ids",
            received="both",
        )
    if args.packet_ids is not None:
        wanted, has_more = [packet(each) for each in args.packet_ids], False
    else:
        ask = HistoryAsk(limit=args.limit, filter=args.filter or "", session=interceptor.session)
        page = await interceptor.history(ask)
        wanted, has_more = [row["id"] for row in page.rows], page.has_more or not page.complete
    exchanges, left_out = await _exchanges(interceptor, wanted, args.max_body_bytes)
    made = await to_thread.run_sync(har, exchanges, interceptor.redactor)
    return ShownHar(
        har=made,
        entries=len(made["log"]["entries"]),
        has_more=has_more,
        left_out=sorted(left_out) or None,
    )


async def _exchanges(
    interceptor: Interceptor, packet_ids: list[int], max_body_bytes: int
) -> tuple[list[Detail], list[int]]:
    """Return each exchange once, newest first, and the packets whose bodies have no room."""
    found: dict[int, Detail] = {}
    left_out: list[int] = []
    room = MOST_BODY_BYTES
    for packet_id in sorted(set(packet_ids), reverse=True):
        detail = await interceptor.detail(packet_id)
        group = detail.row["group"]
        if group in found:
            continue
        for name in ("request", "response"):
            side: Side | None = getattr(detail, name)
            if side is None or not side.body:
                continue
            if len(side.body) > min(max_body_bytes, room):
                left_out.append(side.id)
                without: dict[str, Any] = {name: replace(side, body=b"")}
                detail = replace(detail, **without)
            else:
                room -= len(side.body)
        found[group] = detail
    return list(found.values()), left_out


class ExportCurl(InterceptArgs):
    packet_id: int = Field(description="Packet")


class Curl(SnakeResult):
    command: str = Field(description="For a POSIX shell; secrets are masked")


@tool(
    INTERCEPT,
    effect="read",
    raises=(*FAULTS, PacketNotFound),
    examples=(Example(title="Repeat it by hand", args={"packet_id": 123}),),
)
async def export_curl(args: ExportCurl, interceptor: Interceptor) -> Curl:
    """Show a recorded request as a curl command."""
    await interceptor.admit(args.token)
    from pilothouse.intercept.present.curl import curl

    detail = await interceptor.detail(packet(args.packet_id))
    return Curl(command=await to_thread.run_sync(curl, detail, interceptor.redactor))


class DiffPackets(InterceptArgs):
    a: int = Field(description="Packet")
    b: int = Field(description="Packet to compare with")


class Difference(ProxyAnswer):
    a: int = Field(description="Packet")
    b: int = Field(description="Other packet")


@tool(
    INTERCEPT,
    effect="read",
    raises=(*FAULTS, PacketNotFound),
    examples=(Example(title="What did the edit change?", args={"a": 123, "b": 131}),),
    profile="default",
)
async def diff_packets(args: DiffPackets, interceptor: Interceptor) -> Difference:
    """Show in what two exchanges differ."""
    await interceptor.admit(args.token)
    from pilothouse.intercept.present.diff import diff

    a, b = [await interceptor.detail(packet(each)) for each in (args.a, args.b)]
    found = await to_thread.run_sync(diff, a, b, interceptor.redactor)
    return Difference.model_validate({**found, "a": args.a, "b": args.b})


TOOLS = (export_har, export_curl, diff_packets)

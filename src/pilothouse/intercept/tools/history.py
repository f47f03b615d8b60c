"""Tools that read the history: its pages, one exchange, how a filter is read, and the log."""

from __future__ import annotations

from typing import Any, Literal

from anyio import to_thread
from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import SnakeResult
from pilothouse.core.declare.tool import Example, tool
from pilothouse.intercept.model import FAULTS, BadFilter, PacketNotFound
from pilothouse.intercept.ports import HistoryAsk, Interceptor, LogAsk
from pilothouse.intercept.present.packets import Range, chosen, detail_view, rows_view
from pilothouse.intercept.tools.shared import (
    INTERCEPT,
    MOST_ROWS,
    BadCursor,
    InterceptArgs,
    ProxyAnswer,
    packet,
)

ORDER = "id desc"
FARTHEST = 2**53
"""Offset beyond any history, and still a number that can be added to."""
BODY_BYTES = 16_384
MOST_BODY_BYTES = 1_048_576


class GetHistory(InterceptArgs):
    limit: int = Field(default=100, ge=1, le=MOST_ROWS, description="Rows")
    offset: int = Field(default=0, ge=0, description="Rows to skip")
    filter: str | None = Field(
        default=None, description="As in: method == POST && (url =~ /api/ || status >= 400)"
    )
    order: str = Field(default=ORDER, description="Column and asc or desc")
    fields: list[str] | None = Field(default=None, description="Columns instead of the usual")
    cursor: str | None = Field(default=None, description="next_cursor of the page before")
    all_sessions: bool = Field(default=False, description="Other agents' packets, too")


class History(SnakeResult):
    packets: list[dict[str, Any]] = Field(description="Rows; those of an exchange share group")
    total_count: int = Field(description="Rows that match")
    has_more: bool = Field(description="Whether more rows follow")
    filter_applied: str = Field(description="The filter, empty for none")
    order_applied: str = Field(description="The order")
    total_is_exact: bool | None = Field(
        default=None, description="False: total_count is a lower bound"
    )
    complete: bool | None = Field(
        default=None, description="False: the scan took too long; go on with next_cursor"
    )
    next_cursor: str | None = Field(default=None, description="Where the next page begins")
    warning: str | None = Field(default=None, description="Why the filter is costly")

    def dump(self) -> dict[str, Any]:
        # A row shows null where there is nothing yet, so that all rows have the same fields.
        return {**super().dump(), "packets": self.packets}


@tool(
    INTERCEPT,
    effect="read",
    profile="default",
    raises=(*FAULTS, BadFilter, BadCursor),
    examples=(
        Example(title="Newest packets", args={"limit": 20}),
        Example(
            title="Failed logins",
            args={"filter": "method == POST && url =~ /login && status == 401"},
        ),
        Example(
            title="Largest first",
            args={"order": "length desc", "fields": ["id", "url", "length", "type"]},
        ),
    ),
)
async def get_history(args: GetHistory, interceptor: Interceptor) -> History:
    """List recorded packets, newest first. get_packet_detail shows one."""
    trouble = await interceptor.admit_to_history(args.token)
    fields = chosen(args.fields)
    ask = HistoryAsk(
        limit=args.limit,
        offset=min(args.offset, FARTHEST),
        cursor=args.cursor or "",
        filter=args.filter or "",
        order=" ".join(args.order.lower().split()) or ORDER,
        session=None if args.all_sessions else interceptor.session,
    )
    try:
        page = await interceptor.history(ask)
    except InvalidInput as fault:
        if fault.details.get("field") != "cursor":
            raise
        raise BadCursor(fault.message, hint=fault.hint, **fault.details) from None
    # Masking many long URLs takes a while; the event loop goes on meanwhile.
    rows = await to_thread.run_sync(rows_view, page.rows, fields, interceptor.redactor)
    return History(
        packets=rows,
        total_count=page.total_count,
        has_more=page.has_more,
        filter_applied=ask.filter,
        order_applied=ask.order,
        total_is_exact=None if page.total_is_exact else False,
        complete=None if page.complete else False,
        next_cursor=page.next_cursor or None,
        warning="; ".join(filter(None, (page.warning, trouble))) or None,
    )


class GetPacketDetail(InterceptArgs):
    packet_id: int = Field(description="Either packet of an exchange")
    include_body: bool = Field(default=False, description="Show the bodies, decoded")
    request_offset: int = Field(default=0, ge=0, description="First byte of the request's body")
    response_offset: int = Field(default=0, ge=0, description="First byte of the response's body")
    max_bytes: int = Field(
        default=BODY_BYTES, ge=64, le=MOST_BODY_BYTES, description="Of each body"
    )


class PacketDetail(SnakeResult):
    id: int = Field(description="The packet")
    method: str = Field(description="HTTP method")
    url: str = Field(description="Path and query")
    status: int | None = Field(default=None, description="Absent without a response")
    headers: dict[str, list[dict[str, str]]] = Field(description="request and response, in order")
    body: dict[str, str] | None = Field(default=None, description="request and response, decoded")
    encoding: dict[str, str] | None = Field(
        default=None, description="base64 for a side whose body is no text"
    )
    truncated: dict[str, dict[str, Any]] | None = Field(
        default=None, description="For a side that is shown in part: which, and how to read on"
    )
    trailers: dict[str, list[dict[str, str]]] | None = Field(
        default=None, description="For a side that has some: headers after its body"
    )
    original: dict[str, dict[str, Any]] | None = Field(
        default=None, description="For a changed side: head and body before that"
    )
    timing: dict[str, Any] = Field(description="timestamp, and duration_ms once it is over")
    group: int = Field(description="Shared by both packets")
    type: str = Field(description="HTTP, WebSocket, SSE, gRPC, TCP or UDP")
    version: str = Field(description="Of HTTP")
    scheme: str = Field(description="http, https, ws, wss, tcp, tls or udp")
    server: dict[str, Any] = Field(description="name, ip and port")
    client: dict[str, Any] = Field(description="ip and port")
    resend: bool = Field(description="Sent again by a tool")
    modified: bool = Field(description="A rule, a mock, a breakpoint or an edit made it so")
    sizes: dict[str, dict[str, Any]] = Field(
        description="For each side its packet's id, length, body length; kept if less is stored"
    )
    error: str | None = Field(default=None, description="Why the response is missing or cut short")


@tool(
    INTERCEPT,
    effect="read",
    profile="default",
    raises=(*FAULTS, PacketNotFound),
    examples=(
        Example(title="Headers", args={"packet_id": 123}),
        Example(title="With bodies", args={"packet_id": 123, "include_body": True}),
    ),
)
async def get_packet_detail(args: GetPacketDetail, interceptor: Interceptor) -> PacketDetail:
    """Show request and response of a packet: headers, timing, bodies."""
    await interceptor.admit(args.token)
    detail = await interceptor.detail(packet(args.packet_id))
    ranges = {
        "request": Range(args.request_offset, args.max_bytes),
        "response": Range(args.response_offset, args.max_bytes),
    }
    # Decoding and masking a large body takes a while; the event loop goes on meanwhile.
    shown = await to_thread.run_sync(
        detail_view, detail, interceptor.redactor, ranges if args.include_body else None
    )
    return PacketDetail.model_validate(shown)


class FilterExplain(InterceptArgs):
    filter: str = Field(description="As for get_history")


class Explained(ProxyAnswer):
    filter: str = Field(description="What was asked about")


@tool(
    INTERCEPT,
    effect="read",
    raises=(*FAULTS, BadFilter),
    examples=(Example(title="Is it fast?", args={"filter": "full_text_i =~ authorization"}),),
)
async def filter_explain(args: FilterExplain, interceptor: Interceptor) -> Explained:
    """Show how a filter is read and carried out."""
    await interceptor.admit(args.token)
    told = await interceptor.explain(args.filter)
    return Explained.model_validate({**told, "filter": args.filter})


class GetLogs(InterceptArgs):
    level: Literal["debug", "info", "warn", "error"] = Field(
        default="info", description="This and graver"
    )
    limit: int = Field(default=100, ge=1, le=MOST_ROWS, description="Entries")
    since: str | None = Field(default=None, description="ISO 8601")
    filter: str | None = Field(default=None, description="RE2, as in: error|exception")


class ProxyLogs(SnakeResult):
    logs: list[dict[str, Any]] = Field(
        description="Newest first: timestamp, level, message, thread, class"
    )
    total_count: int = Field(description="Entries that match")
    has_more: bool = Field(description="Whether there are older ones")


@tool(
    INTERCEPT,
    effect="read",
    profile="default",
    raises=FAULTS,
    examples=(Example(title="What went wrong", args={"level": "warn"}),),
)
async def get_logs(args: GetLogs, interceptor: Interceptor) -> ProxyLogs:
    """Read the proxy's log, with every change of its configuration and every resend."""
    await interceptor.admit(args.token)
    page = await interceptor.logs(
        LogAsk(level=args.level, limit=args.limit, since=args.since or "", filter=args.filter or "")
    )
    return ProxyLogs(
        logs=interceptor.redactor.texts(page.logs),
        total_count=page.total_count,
        has_more=page.has_more,
    )


TOOLS = (get_history, get_packet_detail, filter_explain, get_logs)

"""The observer's eight tools and its resources, as its spec names them."""

from __future__ import annotations

import base64
from typing import Annotated, Literal

from anyio import to_thread
from pydantic import Field

from pilothouse import __version__
from pilothouse.core.declare.faults import Envelope, InvalidInput
from pilothouse.core.declare.fence import visible_json
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.resource import resource
from pilothouse.core.declare.tool import Example, Group, tool
from pilothouse.observe.har.archive import har
from pilothouse.observe.model import (
    DEFAULT_MAX_BODY_BYTES,
    AlreadyObserving,
    Body,
    BodyNotAvailable,
    BrowserUnreachable,
    E2eSessionUnknown,
    Filters,
    NotObserving,
    SecurityBlocked,
    TargetNotFound,
    pack,
)
from pilothouse.observe.ports import Observer
from pilothouse.observe.read.budget import EventPage, fitting
from pilothouse.observe.read.query import Query, status_range
from pilothouse.observe.read.read import read, settle_places, tail
from pilothouse.observe.record.archive_bodies import other_bodies
from pilothouse.observe.record.packed_bodies import first_bytes, masked_base64

OBSERVE = Group(
    name="observe",
    summary="Console, network and bodies of any Chrome tab, over the DevTools protocol",
    envelope=Envelope.CODE,
)

TAIL = 200
HAR_EVENTS = 100_000
"""A store may hold millions of events; an archive has those of the ring and so many before it."""
KindName = Literal[
    "console",
    "log",
    "request",
    "response",
    "loadingFinished",
    "loadingFailed",
    "websocket",
    "other",
]
Port = Annotated[int, Field(ge=1, le=65535)]
Names = Annotated[list[str], Field(max_length=200)]


class _Session(Args):
    session_id: str | None = Field(
        default=None,
        description="Session",
        json_schema_extra={"x-mcp-header": "Session"},
    )


class _Target(_Session):
    target_id: str = Field(description="From cdp_list_targets")


class _Place(_Session):
    host: str | None = Field(default=None, description="Debugging host, default 127.0.0.1")
    port: Port | None = Field(default=None, description="Debugging port, default 9222")


class ListTargets(_Place):
    filter_url_includes: str | None = Field(default=None, description="Part of the URL")
    types: Names | None = Field(default=None, description="Such as page, iframe, service_worker")


class TargetEntry(Result):
    id: str = Field(description="Target id")
    type: str = Field(description="page, iframe, worker …")
    title: str = Field(description="Title")
    url: str = Field(description="URL")
    attached: bool = Field(description="Whether a debugger is attached")


class Targets(Result):
    targets: list[TargetEntry] = Field(description="What is open")


@tool(
    OBSERVE,
    effect="read",
    profile="default",
    raises=(BrowserUnreachable, SecurityBlocked, E2eSessionUnknown),
    examples=(Example(title="List the open pages", args={"types": ["page"]}),),
)
async def cdp_list_targets(args: ListTargets, observer: Observer) -> Targets:
    """List the tabs, frames and workers of a browser with an open debugging port."""
    found = await observer.targets(*observer.place(args.session_id, args.host, args.port))
    kinds = set(args.types or ())
    return Targets(
        targets=[
            TargetEntry(
                id=t.id,
                type=t.type,
                title=t.title,
                url=observer.redactor.url(t.url),
                attached=t.attached,
            )
            for t in found
            if (not kinds or t.type in kinds) and (args.filter_url_includes or "") in t.url
        ]
    )


class Observe(_Place):
    target_id: str | None = Field(default=None, description="Target; wins over urlIncludes")
    url_includes: str | None = Field(default=None, description="Part of the tab's URL")
    include_workers: bool = Field(default=True, description="Also its workers")
    include_iframes: bool = Field(default=True, description="Also its frames")
    buffer_size: int | None = Field(
        default=None, ge=1, le=10_000_000, description="Events kept, default 10000"
    )
    ttl_sec: int | None = Field(
        default=None, ge=1, description="Forgotten this long after the last event, default 3600"
    )


class Observed(Result):
    target_id: str = Field(description="The target")
    resource_uri: str = Field(description="Resource to read or subscribe to")
    attached: bool = Field(description="Always true")


@tool(
    OBSERVE,
    effect="write",
    profile="default",
    raises=(
        BrowserUnreachable,
        SecurityBlocked,
        TargetNotFound,
        AlreadyObserving,
        E2eSessionUnknown,
    ),
    examples=(Example(title="Observe the app's tab", args={"urlIncludes": "localhost:3000"}),),
)
async def cdp_observe(args: Observe, observer: Observer) -> Observed:
    """Start recording console and network of a tab, its frames and workers.

    Give targetId or urlIncludes. Then read with cdp_read_events.
    """
    if not args.target_id and not args.url_includes:
        raise InvalidInput(
            "targetId or urlIncludes is required",
            hint="call cdp_list_targets and pass an id",
            field="targetId",
            expected="string",
            received="nothing",
        )
    observation = await observer.observe(
        *observer.place(args.session_id, args.host, args.port),
        args.target_id,
        args.url_includes,
        include_workers=args.include_workers,
        include_iframes=args.include_iframes,
        buffer_size=args.buffer_size,
        ttl_sec=args.ttl_sec,
    )
    return Observed(target_id=observation.target_id, resource_uri=observation.uri, attached=True)


class StopObserve(_Target):
    drop_buffer: bool = Field(default=False, description="Also forget what was recorded")


class StoppedObservation(Result):
    stopped: bool = Field(description="Always true")


@tool(
    OBSERVE,
    effect="write",
    profile="default",
    raises=(NotObserving,),
    examples=(Example(title="Stop", args={"targetId": "8A1F…"}),),
)
async def cdp_stop_observe(args: StopObserve, observer: Observer) -> StoppedObservation:
    """Stop recording a tab. What was recorded stays readable unless dropBuffer is set."""
    await observer.stop(args.target_id, drop_buffer=args.drop_buffer)
    return StoppedObservation(stopped=True)


class ReadEvents(_Target):
    offset: int = Field(default=0, ge=0, description="First seq, or nextOffset")
    limit: int = Field(default=TAIL, ge=1, description="At most 1000")
    kinds: list[KindName] | None = Field(default=None, description="Only these kinds")
    url_includes: str | None = Field(default=None, description="Part of the event's URL")
    method: str | None = Field(default=None, description="HTTP method")
    text_includes: str | None = Field(default=None, description="Part of the text or payload")
    level: Literal["log", "warn", "error", "info", "debug", "trace"] | None = Field(
        default=None, description="Console or log level"
    )
    since: int | None = Field(default=None, ge=0, description="Epoch ms")
    status: Annotated[str, Field(coerce_numbers_to_str=True)] | None = Field(
        default=None, description="404, >=400 or 5xx"
    )
    request_id: str | None = Field(default=None, description="One request")
    max_tokens: int | None = Field(default=None, ge=300, description="Budget")


@tool(
    OBSERVE,
    effect="read",
    profile="default",
    raises=(NotObserving,),
    examples=(
        Example(title="Errors", args={"targetId": "8A1F…", "level": "error"}),
        Example(title="Failed calls", args={"targetId": "8A1F…", "status": ">=400"}),
    ),
)
async def cdp_read_events(args: ReadEvents, observer: Observer) -> EventPage:
    """Read recorded console lines, requests, responses and WebSocket frames, oldest first."""
    query = Query(
        kinds=tuple(args.kinds or ()),
        url_includes=args.url_includes or "",
        method=args.method or "",
        text_includes=args.text_includes or "",
        level=args.level or "",
        since=args.since or 0.0,
        status=_status(args.status),
        request_id=args.request_id or "",
    )
    observation = observer.find(args.target_id)
    page = read(observation, query, args.offset, args.limit, observer.redactor)
    await settle_places(page, observation.mapper, observer.redactor)
    troubles = observation.troubles()
    if args.offset > page.end:
        troubles.append(
            f"offset {args.offset} is beyond what was recorded, which ends before {page.end};"
            " it may be of an earlier recording: read from 0"
        )
    return fitting(page, observation.state, args.max_tokens, *troubles)


def _status(text: str | None) -> str:
    if not text:
        return ""
    try:
        status_range(text)
    except ValueError:
        raise InvalidInput(
            f"status: {text!r} is no status",
            hint="use 404, >=400, <300 or 5xx",
            field="status",
            expected="404, >=400 or 5xx",
            received=text,
        ) from None
    return text


class Cleared(Result):
    cleared: bool = Field(description="Always true")


@tool(
    OBSERVE,
    effect="destroy",
    profile="default",
    idempotent=True,
    raises=(NotObserving,),
    examples=(Example(title="Start over", args={"targetId": "8A1F…"}),),
)
async def cdp_clear_events(args: _Target, observer: Observer) -> Cleared:
    """Forget what was recorded of a tab; seq goes on where it was."""
    observer.find(args.target_id).clear()
    return Cleared(cleared=True)


class GetResponseBody(_Target):
    request_id: str = Field(description="Of the request")
    base64: bool = Field(default=False, description="As base64")
    offset: int = Field(default=0, ge=0, description="First character, to read on")


class ResponseBody(Result):
    request_id: str = Field(description="The request")
    mime_type: str = Field(description="Content type")
    encoded: bool = Field(description="Whether body is base64")
    body: str = Field(description="The body, cut at the target's maxBodyBytes")
    length: int = Field(description="Whole length of body in characters")
    next_offset: int | None = Field(default=None, description="Where to read on, if it was cut")


@tool(
    OBSERVE,
    effect="read",
    profile="default",
    raises=(NotObserving, BodyNotAvailable),
    examples=(Example(title="Read a body", args={"targetId": "8A1F…", "requestId": "1234.5"}),),
)
async def cdp_get_response_body(args: GetResponseBody, observer: Observer) -> ResponseBody:
    """Get the body of a response, also after the page has gone elsewhere."""
    body = await observer.body(args.target_id, args.request_id)
    text, encoded = _body_text(body, observer, as_base64=args.base64)
    most = observer.find(args.target_id).filters.max_body_bytes
    # Of a large character that fits no more, there is still the whole: a reader must get on.
    rest = text[args.offset : args.offset + most]
    part = first_bytes(rest, most) or rest[:1]
    after = args.offset + len(part)
    return ResponseBody(
        request_id=args.request_id,
        mime_type=body.mime_type,
        encoded=encoded,
        body=part,
        length=len(text),
        next_offset=after if after < len(text) else None,
    )


def _body_text(body: Body, observer: Observer, *, as_base64: bool) -> tuple[str, bool]:
    if body.encoded:
        return masked_base64(body.text, observer.redactor), True
    masked = observer.redactor.text(body.text, body.mime_type)
    if as_base64:
        return base64.b64encode(masked.encode("utf-8", "replace")).decode(), True
    return masked, False


class SetFilters(_Target):
    kinds: list[Literal["console", "log", "network"]] | None = Field(
        default=None, description="Only these are recorded, default all"
    )
    url_allowlist: Names | None = Field(default=None, description="Record only URLs with one of")
    url_blocklist: Names | None = Field(default=None, description="Never URLs with one of")
    max_body_bytes: int = Field(
        default=DEFAULT_MAX_BODY_BYTES, ge=0, le=100_000_000, description="Texts are cut here"
    )


class Updated(Result):
    updated: bool = Field(description="Always true")


@tool(
    OBSERVE,
    effect="write",
    profile="default",
    idempotent=True,
    raises=(NotObserving,),
    examples=(Example(title="Only API", args={"targetId": "8A1F…", "urlAllowlist": ["/api/"]}),),
)
async def cdp_set_filters(args: SetFilters, observer: Observer) -> Updated:
    """Choose what is recorded of a tab from now on. Blocking is judged first, then allowing."""
    filters = Filters(
        tuple(args.kinds or ()),
        tuple(args.url_allowlist or ()),
        tuple(args.url_blocklist or ()),
        args.max_body_bytes,
    )
    observer.set_filters(args.target_id, filters)
    return Updated(updated=True)


class FilterSet(Result):
    kinds: list[str] = Field(description="Empty means all")
    url_allowlist: list[str] = Field(description="Parts of URLs")
    url_blocklist: list[str] = Field(description="Parts of URLs")
    max_body_bytes: int = Field(description="Where texts are cut")


class GotFilters(Result):
    filters: FilterSet = Field(description="What is recorded now")


@tool(
    OBSERVE,
    effect="read",
    profile="default",
    raises=(NotObserving,),
    examples=(Example(title="Show", args={"targetId": "8A1F…"}),),
)
async def cdp_get_filters(args: _Target, observer: Observer) -> GotFilters:
    """Show what is recorded of a tab."""
    filters = observer.find(args.target_id).filters
    return GotFilters(
        filters=FilterSet(
            kinds=list(filters.kinds),
            url_allowlist=list(filters.url_allowlist),
            url_blocklist=list(filters.url_blocklist),
            max_body_bytes=filters.max_body_bytes,
        )
    )


@resource(OBSERVE, "cdp://events/{targetId}")
async def cdp_events(targetId: str, observer: Observer) -> str:  # the spec's name
    """The newest 200 events of an observed tab; subscribe to hear of new ones."""
    observation = observer.find(targetId)
    page = tail(observation, TAIL, observer.redactor)
    await settle_places(page, observation.mapper, observer.redactor)
    fits = fitting(page, observation.state, None, *observation.troubles())
    return visible_json(fits.dump())


@resource(OBSERVE, "cdp://har/{targetId}")
async def cdp_har(targetId: str, observer: Observer) -> str:  # the spec's name
    """The recorded traffic of a tab as HAR 1.2, with bodies and WebSocket messages, masked."""
    observation = observer.find(targetId)
    kept, first = list(observation.ring), observation.ring.first_seq
    others = await other_bodies(observer, observation)

    def made() -> bytes:
        older = observation.older(first, HAR_EVENTS)
        seen = [(seq, one.unpack()) for seq, one in (*older.items, *kept)]
        missing, redactor = older.missed, observer.redactor
        with observation.kept_bodies() as kept_body:

            def body_of(request_id: str) -> Body | None:
                return kept_body(request_id) or others.get(request_id)

            return pack(har(seen, body_of, redactor, version=__version__, missing=missing))

    # Masking thousands of entries takes a while; the event loop goes on meanwhile.
    return (await to_thread.run_sync(made)).decode()


TOOLS = (
    cdp_list_targets,
    cdp_observe,
    cdp_stop_observe,
    cdp_read_events,
    cdp_clear_events,
    cdp_get_response_body,
    cdp_set_filters,
    cdp_get_filters,
)
RESOURCES = (cdp_events, cdp_har)

"""The dashboard's API: what a page asks, answered in JSON, pictures and one stream of events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.declare.faults import (
    Fault,
    Internal,
    InvalidInput,
    NoSuchPath,
    PermissionDenied,
    WrongMethod,
)
from pilothouse.dashboard.ports import no_such_agent
from pilothouse.dashboard.rows import check_cursor, packed
from pilothouse.dashboard.stream import PageStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from pilothouse.dashboard.ports import Agents

    type Answer = Callable[[Request], Awaitable[ASGIApp]]
    type Report = Callable[[str, Exception], None]
    """Callback for what should never happen, with the path that was requested."""

FRESH_S = 0.9
"""Seconds for which one overview is shown to every page that asks."""
ANY = "*"
"""Stands for an agent that is live, whichever it is, in a request for a stream: a page that has
just been opened needs no other request first."""
MOST_PAGES = 32
"""Limit of streams that are open at the same time."""
_HEADERS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
_OWN_SITES = (None, "same-origin", "none")
"""Accepted values of `sec-fetch-site`: none sent, our own page, the user's own navigation."""
FILE_POLICY = (
    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_FILE_TYPES = {"html": "text/html; charset=utf-8", "png": "image/png"}


class TooManyPages(Fault):
    """So many pages are open that there is no room for another."""

    code = "too_many_pages"
    status = 503


def api(agents: Agents, report: Report) -> dict[str, ASGIApp]:
    """Return the applications of the API by their paths; who may call them is not judged here."""
    shared = _Shared(agents)
    pages = _Pages(agents, shared, report)

    async def overview(request: Request) -> Response:
        return _json(await shared.overview())

    async def moment(request: Request) -> Response:
        return _json(await agents.moment(_given(request, "agent"), _given(request, "id")))

    async def body(request: Request) -> Response:
        return _json(await agents.body(_given(request, "agent"), _given(request, "req")))

    async def viewport(request: Request) -> Response:
        where = _given(request, "agent"), _given(request, "app"), _given(request, "tab", "")
        picture = await agents.picture(*where)
        if not picture:
            return Response(status_code=204, headers=_HEADERS)
        return Response(picture, headers=_HEADERS, media_type="image/jpeg")

    async def file(request: Request) -> Response:
        name = _given(request, "name")
        content = await agents.file(_given(request, "agent"), _given(request, "app"), name)
        kind = _FILE_TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        policy = {"content-security-policy": FILE_POLICY}
        return Response(content, headers={**_HEADERS, **policy}, media_type=kind)

    async def nowhere(request: Request) -> Response:
        raise NoSuchPath(
            f"there is no {request.url.path[:80]}", hint="GET /api/overview is where to begin"
        )

    answers: dict[str, Answer] = {
        "/api/overview": overview,
        "/api/stream": pages.stream,
        "/api/moment": moment,
        "/api/body": body,
        "/api/viewport": viewport,
        "/api/file": file,
        # It comes last: the first path that fits answers.
        "/api/{rest:path}": nowhere,
    }
    return {path: _Path(answer, report) for path, answer in answers.items()}


class _Path:
    """One path: an ASGI application that answers, or says what was wrong."""

    def __init__(self, answer: Answer, report: Report) -> None:
        self._answer = answer
        self._report = report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        response: ASGIApp
        try:
            response = await self._respond(request)
        except Fault as fault:
            response = _failed(fault)
        except Exception as error:
            self._report(request.url.path, error)
            response = _failed(Internal("the dashboard failed at this; its log says how"))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> ASGIApp:
        if request.method != "GET":
            raise WrongMethod(f"{request.method[:20]} is not taken here", hint="use GET")
        # A picture or a script that another site embeds comes without an Origin.
        if request.headers.get("sec-fetch-site") not in _OWN_SITES:
            raise PermissionDenied(
                "another site has asked for this", hint="open the dashboard itself, at /"
            )
        return await self._answer(request)


class _Pages:
    """The pages that are open, each with its stream."""

    def __init__(self, agents: Agents, shared: _Shared, report: Report) -> None:
        self._agents = agents
        self._shared = shared
        self._report = report
        self._open = 0

    async def stream(self, request: Request) -> ASGIApp:
        if self._open >= MOST_PAGES:
            raise TooManyPages(f"{MOST_PAGES} pages are open", hint="close one that nobody reads")
        agent, cursor = _given(request, "agent", ""), _given(request, "cursor", "")
        check_cursor(cursor)
        overview = await self._shared.overview()
        if agent == ANY:
            live = (one["id"] for one in overview["sessions"] if one["state"] == "live")
            agent = next(live, "")
        if agent and all(one["id"] != agent for one in overview["sessions"]):
            raise no_such_agent(agent)
        stream = PageStream(self._shared.overview, self._agents.rows, agent, cursor)

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            self._open += 1
            try:
                await stream.serve(receive, send)
            except Exception as error:
                # The answer has begun: all that is left is to end it, and the page connects again.
                self._report("/api/stream", error)
                await send({"type": "http.response.body", "body": b""})
            finally:
                self._open -= 1

        return serve


class _Shared:
    """The overview, requested once when several pages want it at the same time."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._asking = anyio.Lock()
        self._overview: dict[str, Any] = {}
        self._asked_at = float("-inf")

    async def overview(self) -> dict[str, Any]:
        async with self._asking:
            if time.monotonic() - self._asked_at > FRESH_S:
                self._overview = await self._agents.overview()
                self._asked_at = time.monotonic()
            return self._overview


def _given(request: Request, name: str, default: str | None = None) -> str:
    """Return a parameter of the query. Raises InvalidInput if it is missing without a default."""
    value = request.query_params.get(name, default)
    if value is None:
        raise InvalidInput(f"{name}: it is missing", hint=f"add {name}= to the query", field=name)
    return value


def _json(value: Any) -> Response:
    return Response(packed(value), headers=_HEADERS, media_type="application/json")


def _failed(fault: Fault) -> Response:
    error = {"code": fault.code, "message": fault.message, "hint": fault.hint}
    allow = {"allow": "GET"} if isinstance(fault, WrongMethod) else {}
    return Response(
        packed({"error": error}),
        fault.status,
        {**_HEADERS, **allow},
        media_type="application/json",
    )

"""The REST API: the tools over HTTP, with the token in a header.

Each route builds the arguments of its tool and calls the tool's own handler.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pilothouse.core.declare.faults import (
    Envelope,
    Fault,
    Internal,
    InvalidInput,
    NoSuchPath,
    RateLimited,
    WrongMethod,
)
from pilothouse.core.declare.fence import visible_json
from pilothouse.intercept.model import TokenRefused
from pilothouse.intercept.rest.json_body import TooLarge, read_json
from pilothouse.intercept.rest.openapi import Operation, document, operations

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from pydantic import BaseModel
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pilothouse.core.declare.tool import Tool
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.intercept.ports import Interceptor

    type Parse = Callable[[Tool, Mapping[str, Any]], BaseModel]
    type Answer = Callable[[Request, str | None], Awaitable[dict[str, Any]]]

_INTEGER = re.compile(r"-?[0-9]{1,100}", re.ASCII)
_WORDS = {"true": True, "false": False}
_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestService:
    """Parts that the API is made of; the composition root hands them in."""

    interceptor: Interceptor
    parse: Parse
    """Function that makes a tool's argument model of raw values; raises InvalidInput."""
    incident: Callable[[Exception], str]
    """Function that logs a defect of ours and gives the id under which it was."""
    tools_listing: Callable[[], list[dict[str, Any]]] = list
    """Function that lists the tools as `tools/list` shows them."""
    token: Callable[[Request], str | None] = lambda request: offered_token(request)
    """Function that gives the token that a request brings."""


def rest_app(service: RestService, guard: Callable[[ASGIApp], ASGIApp]) -> ASGIApp:
    """Make the app; `guard` refuses foreign Hosts and Origins before anything else is read."""
    paths: dict[str, dict[str, Answer]] = {
        "/mcp/tools": {"GET": _shown(service, lambda: {"tools": service.tools_listing()})},
        "/openapi.json": {"GET": _shown(service, document)},
    }
    for operation in operations():
        paths.setdefault(operation.path, {})[operation.method] = _called(service, operation)

    async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            await _Path(service, {})(scope, receive, send)

    routes = [Route(path, endpoint=_Path(service, answers)) for path, answers in paths.items()]
    app = Starlette(routes=routes)
    app.router.default = nowhere
    app.router.redirect_slashes = False
    return guard(app)


def read_app(service: RestService, operation: Operation) -> ASGIApp:
    """Make an app of one operation by itself, for a server that is another's."""
    return _Path(service, {operation.method: _called(service, operation)})


class _Path:
    """One path with the methods that it takes; none if there is no such path."""

    def __init__(self, service: RestService, answers: Mapping[str, Answer]) -> None:
        self._service = service
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = self._answers.get(request.method) or self._refuse(request)
            response = _json(200, await answer(request, self._service.token(request)))
        except Fault as fault:
            response = self._failed(fault)
        except Exception as error:
            incident = self._service.incident(error)
            response = self._failed(
                Internal(
                    f"the request failed inside Pilothouse (incident {incident})",
                    hint=f"its log has the details under incident {incident}; please report it",
                    incident=incident,
                )
            )
        await response(scope, receive, send)

    def _refuse(self, request: Request) -> NoReturn:
        if not self._answers:
            raise NoSuchPath(
                f"there is no {request.url.path[:80]}", hint="GET /openapi.json lists all paths"
            )
        raise WrongMethod(
            f"{request.method[:20]} is not for {request.url.path[:80]}",
            hint=f"use {' or '.join(self._answers)}",
        )

    def _failed(self, fault: Fault) -> Response:
        allow = {"allow": ", ".join(self._answers)} if isinstance(fault, WrongMethod) else {}
        return failure(fault, self._service.interceptor.redactor, allow)


def failure(fault: Fault, redactor: Redactor, headers: Mapping[str, str] | None = None) -> Response:
    """Return a fault as this API answers it."""
    more = dict(headers or {})
    if isinstance(fault, TokenRefused):
        more["www-authenticate"] = 'Bearer realm="pilothouse"'
    elif isinstance(fault, RateLimited):
        wait = fault.details.get("retryAfterSec")
        more["retry-after"] = str(math.ceil(wait) if isinstance(wait, int | float) else 60)
    elif isinstance(fault, TooLarge):
        more["connection"] = "close"
    return _json(fault.status, {"error": redactor.texts(fault.render(Envelope.NUMBER))}, more)


def offered_token(request: Request) -> str | None:
    """Return the token of a Bearer header, None without one."""
    offered = request.headers.getlist("authorization")
    if len(offered) != 1:
        return None  # two are an attempt to have two readers disagree
    scheme, _, token = offered[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _shown(service: RestService, make: Callable[[], dict[str, Any]]) -> Answer:
    async def answer(request: Request, token: str | None) -> dict[str, Any]:
        await service.interceptor.admit(token)
        values_of(request.query_params.multi_items(), {})
        return make()

    return answer


def _called(service: RestService, operation: Operation) -> Answer:
    tool = operation.tool
    arguments = operation.arguments
    in_query = {operation.renamed.get(n, n): arguments[n] for n in operation.in_query}
    own_names = {public: name for name, public in operation.renamed.items()}
    in_path = {name: arguments[name] for name in operation.in_path}

    async def answer(request: Request, token: str | None) -> dict[str, Any]:
        # Nothing is read of a request, and nothing answered, before the token is found right.
        await service.interceptor.admit(token, writes=tool.effect != "read")
        asked = values_of(request.query_params.multi_items(), in_query)
        raw = {
            **{own_names.get(name, name): value for name, value in asked.items()},
            **values_of(request.path_params.items(), in_path),
        }
        if operation.whole_body:
            raw[operation.whole_body] = await read_json(request)
        elif operation.has_body:
            raw |= _members(await read_json(request, empty={}), operation)
        raw |= {**operation.fixed, "access_token": token}
        result = await tool.handler(strictly(service.parse, tool, raw), service.interceptor)
        return result.dump()

    return answer


def values_of(
    given: Iterable[tuple[str, str]], schemas: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Read the values of a query or a path by the type that their schema has.

    A text that is none of that type stays a text, which the tool's own check then refuses.

    Raises:
        InvalidInput: one is unknown, or stands twice.
    """
    values: dict[str, Any] = {}
    for name, text in given:
        if name not in schemas:
            raise _refused(name, f"there is no parameter {name[:80]!r}", _listed(schemas), text)
        kind = schemas[name]["type"]
        if kind == "array":
            values.setdefault(name, []).extend(text.split(","))
        elif name in values:
            raise _refused(name, "it stands twice", "one value", text)
        elif kind == "integer":
            values[name] = int(text) if _INTEGER.fullmatch(text) else text
        else:
            values[name] = _WORDS.get(text, text) if kind == "boolean" else text
    return values


def strictly(parse: Parse, tool: Tool, raw: Mapping[str, Any]) -> BaseModel:
    """Parse the arguments, each of the very type that the API's document has.

    Raises:
        InvalidInput
    """
    args = parse(tool, raw)
    try:
        # As JSON, since in strict mode nested objects are taken from there alone.
        tool.args.model_validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        (problem, *_) = error.errors(include_url=False)
        field = ".".join(map(str, problem["loc"]))
        raise _refused(
            field, problem["msg"], "the type of the document", problem["input"]
        ) from None
    return args


def _members(body: Any, operation: Operation) -> dict[str, Any]:
    names = operation.arguments.keys() - {*operation.in_path}
    if not isinstance(body, dict):
        raise _refused("body", "it is no object", "a JSON object", body)
    for name in body:
        if name not in names:
            raise _refused(name, f"there is no member {name[:80]!r}", _listed(sorted(names)), name)
    return body


def _listed(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}" if names else "no parameters"


def _refused(field: str, what: str, expected: str, received: object) -> InvalidInput:
    return InvalidInput(
        f"{field[:80]}: {what}",
        hint="GET /openapi.json tells what each path takes",
        field=field[:80],
        expected=expected,
        received=repr(received)[:80],
    )


def _json(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    text = visible_json(body).encode("utf-8", "replace")
    return Response(text, status, {**_HEADERS, **(headers or {})}, media_type="application/json")

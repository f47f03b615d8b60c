"""The endpoint by which PacketProxyHub and its clients exchange configurations: `/config`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from pilothouse.core.declare.faults import Envelope, Fault, RateLimited
from pilothouse.intercept.model import TokenRefused
from pilothouse.intercept.rest.json_body import read_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

PATH = "/config"
METHODS = ["GET", "POST", "PUT", "OPTIONS"]


class ConfigService(Protocol):
    """The part of the proxy that the endpoint needs; an `Interceptor` has it."""

    async def admit(self, token: str | None, *, writes: bool = False) -> None:
        """Let a call in; raises TokenRefused, RateLimited, ReadOnly."""

    async def config(self) -> dict[str, list[dict[str, Any]]]:
        """Return the four categories."""

    async def update_config(self, config: dict[str, Any], *, backup: bool) -> dict[str, Any]:
        """Replace the configuration and return what was done.

        Raises:
            BadConfig, EngineUnreachable
        """


def config_app(service: ConfigService, guard: Callable[[ASGIApp], ASGIApp]) -> ASGIApp:
    """Make the app; `guard` refuses foreign Hosts and Origins before anything else is read."""

    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            # No CORS headers: no page of another site may read or write a configuration.
            return Response(status_code=204, headers={"allow": ", ".join(METHODS)})
        writes = request.method != "GET"
        await service.admit(offered_token(request.headers.getlist("authorization")), writes=writes)
        if not writes:
            return _json(200, await service.config())
        done = await service.update_config(await read_json(request), backup=True)
        return _json(200, {"status": "ok", **done})

    routes = [Route(PATH, endpoint, methods=METHODS)]
    handlers: dict[Any, Any] = {Fault: _refused, HTTPException: _not_here}
    return guard(Starlette(routes=routes, exception_handlers=handlers))


def offered_token(headers: list[str]) -> str | None:
    """Return the Authorization header's token, with or without the word Bearer before it."""
    if len(headers) != 1:
        return None  # two are an attempt to have two readers disagree
    scheme, _, token = headers[0].strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers[0].strip()


def _json(status: int, body: Any, headers: dict[str, str] | None = None) -> Response:
    text = json.dumps(body, indent=2) + "\n"
    safe = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
    return Response(text, status, {**safe, **(headers or {})}, media_type="application/json")


async def _refused(_: Request, fault: Fault) -> Response:
    headers = {}
    if isinstance(fault, TokenRefused):
        headers["www-authenticate"] = "Bearer"
    if isinstance(fault, RateLimited):
        headers["retry-after"] = str(round(float(str(fault.details.get("retryAfterSec", 60)))))
    return _json(fault.status, {"error": fault.render(Envelope.NUMBER)}, headers)


async def _not_here(request: Request, error: HTTPException) -> Response:
    said = f"{request.method} {request.url.path}: {error.detail}; {PATH} takes {', '.join(METHODS)}"
    body = {"error": {"code": error.status_code, "message": said}}
    return _json(error.status_code, body, dict(error.headers or {}))

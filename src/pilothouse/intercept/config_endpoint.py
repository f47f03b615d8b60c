"""The endpoint by which PacketProxyHub and its clients exchange configurations: `/config`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from pilothouse.core.faults import Envelope, Fault, InvalidInput, RateLimited
from pilothouse.intercept.model import TokenRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

PATH = "/config"
METHODS = ["GET", "POST", "PUT", "OPTIONS"]
MAX_BYTES = 4 * 1024 * 1024
_DRAINED = 4
"""A body up to this many times the limit is read to its end before it is refused."""


class ConfigService(Protocol):
    """What the endpoint needs of the proxy; an `Interceptor` has it."""

    def admit(self, token: str | None, *, writes: bool = False) -> None:
        """Raises TokenRefused, RateLimited, ReadOnly."""

    async def config(self) -> dict[str, list[dict[str, Any]]]:
        """The four categories."""

    async def update_config(self, config: dict[str, Any], *, backup: bool) -> dict[str, Any]:
        """Replace the configuration and say what was done.

        Raises:
            BadConfig, EngineUnreachable
        """


class TooLarge(InvalidInput):
    """The body is larger than a configuration can be."""

    status = 413


def config_app(service: ConfigService, guard: Callable[[ASGIApp], ASGIApp]) -> ASGIApp:
    """The application; `guard` refuses foreign Hosts and Origins before anything else is read."""

    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            # No CORS headers: no page of another site may read or write a configuration.
            return Response(status_code=204, headers={"allow": ", ".join(METHODS)})
        writes = request.method != "GET"
        service.admit(offered_token(request.headers.getlist("authorization")), writes=writes)
        if not writes:
            return _json(200, await service.config())
        done = await service.update_config(await _body(request), backup=True)
        return _json(200, {"status": "ok", **done})

    routes = [Route(PATH, endpoint, methods=METHODS)]
    handlers: dict[Any, Any] = {Fault: _refused, HTTPException: _not_here}
    return guard(Starlette(routes=routes, exception_handlers=handlers))


def offered_token(headers: list[str]) -> str | None:
    """The token in the Authorization header, with or without the word Bearer before it."""
    if len(headers) != 1:
        return None  # two are an attempt to have two readers disagree
    scheme, _, token = headers[0].strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers[0].strip()


async def _body(request: Request) -> Any:
    """The body as JSON; one that is too large is read on for a while, so that the client hears."""
    data = bytearray()
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= MAX_BYTES:
            data += part
        elif size > _DRAINED * MAX_BYTES:
            break
    if size > MAX_BYTES:
        raise TooLarge(f"the body is larger than {MAX_BYTES} bytes")
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise InvalidInput(
            f"the body is not JSON: {reason}", hint=f"GET {PATH} answers a configuration"
        ) from None


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

"""Answers that the hub gives itself."""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from pilothouse.core.net.http1 import write_head

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pilothouse.hub.model import GatewayFault

JSON = "application/json"
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
_COMMON = [("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store")]

type Id = str | int | None


class Reply(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes = b""
    kind: str = ""
    """Content type; empty without a body."""
    headers: tuple[tuple[str, str], ...] = ()

    def wire(self, method: str, *, stays_open: bool) -> bytes:
        """Return the bytes that are sent to a request of that method."""
        kind = [("Content-Type", self.kind)] if self.kind else []
        end = [] if stays_open else [("Connection", "close")]
        length = ("Content-Length", str(len(self.body)))
        head = write_head(status_line(self.status), [*kind, length, *_COMMON, *self.headers, *end])
        return head if method == "HEAD" else head + self.body

    def with_headers(self, *more: tuple[str, str]) -> Reply:
        return self._replace(headers=(*self.headers, *more))


def status_line(status: int) -> str:
    try:
        return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP/1.1 {status} "


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def result_text(id: Id, result: str) -> bytes:
    """Return a JSON-RPC response around a result that is JSON already."""
    return f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"result":{result}}}'.encode()


def error_text(id: Id, code: int, message: str, data: object = None) -> bytes:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return compact({"jsonrpc": "2.0", "id": id, "error": error}).encode()


def error(
    status: int,
    code: int,
    message: str,
    id: Id = None,
    *,
    data: object = None,
    headers: Iterable[tuple[str, str]] = (),
) -> Reply:
    return Reply(status, error_text(id, code, message, data), JSON, tuple(headers))


def of_fault(fault: GatewayFault, id: Id = None) -> Reply:
    """Return a fault as the client reads it: the agent sees the message, its program the rest."""
    after = math.ceil(fault.retry_after)
    return error(
        fault.status,
        fault.code,
        fault.message,
        id,
        data={"retryAfterSec": after} if after else None,
        headers=[("Retry-After", str(after))] if after else [],
    )

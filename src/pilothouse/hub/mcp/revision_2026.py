"""What must hold for a request of the 2026 era before anything is started for it. Pure.

The worker checks the same once more; but a request that it would only refuse should not start it,
and one whose headers say something else than its body must not be routed by either.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from pilothouse.hub.http.replies import INVALID_PARAMS, INVALID_REQUEST, error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.http.replies import Id, Reply

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
VERSION_HEADER = "mcp-protocol-version"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


def unsupported(requested: str, supported: Sequence[str], id: Id = None) -> Reply:
    data = {"supported": list(supported), "requested": requested}
    return error(400, UNSUPPORTED_VERSION, "Unsupported protocol version", id, data=data)


def refuse(
    head: RequestHead, message: dict[str, Any], supported: Sequence[str], fallback: Sequence[str]
) -> Reply | None:
    """Return why this message is not taken, None if it may pass.

    Args:
        head: Of the POST that carries it.
        message: A sound JSON-RPC message.
        supported: The revisions of this era that the worker speaks.
        fallback: Those that begin with `initialize`, told where none of this era is spoken.
    """
    requested = head.one(VERSION_HEADER) or ""
    if not supported:
        return unsupported(requested, fallback, message.get("id"))
    if "id" not in message:
        return None if requested in supported else unsupported(requested, supported)
    if "method" not in message:
        return error(400, INVALID_REQUEST, "Body must be a single JSON-RPC request object")
    id = message["id"]
    meta = message.get("params", {}).get("_meta")
    missing = _missing(meta)
    if missing:
        return error(400, INVALID_PARAMS, missing, id)
    mismatch = _mismatch(head, message, meta[VERSION_KEY])
    if mismatch:
        return error(400, HEADER_MISMATCH, mismatch, id)
    return None if requested in supported else unsupported(requested, supported, id)


def _missing(meta: object) -> str:
    if not isinstance(meta, dict):
        keys = f"{VERSION_KEY!r} and {CAPABILITIES_KEY!r}"
        return f"params._meta must be an object carrying the required {keys} envelope keys"
    absent = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
    listed = ", ".join(absent)
    return f"params._meta is missing the required envelope key(s): {listed}" if absent else ""


def _mismatch(head: RequestHead, message: dict[str, Any], version: object) -> str:
    for name in (VERSION_HEADER, "mcp-method", "mcp-name"):
        if len(head.values.get(name, ())) > 1:
            return f"{name} header appears more than once"
    if head.one(VERSION_HEADER) != version:
        return f"{VERSION_HEADER} header does not match the request envelope's protocol version"
    method = message["method"]
    if head.one("mcp-method") != method:
        return "mcp-method header does not match the request body's method"
    field = NAMED_BY.get(method)
    named = message["params"].get(field) if field else None
    if named is not None and decoded(head.one("mcp-name")) != named:
        return f"mcp-name header does not match the request body's {field!r} parameter"
    return ""


def encoded(value: str) -> str:
    """Return a value as it stands in a header; what could not is wrapped in base64."""
    is_plain = value.isascii() and value.isprintable() and value == value.strip()
    if is_plain and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decoded(value: str | None) -> str | None:
    """Return a header's value, unwrapped where base64 stands for it; None if that is malformed."""
    wrapped = _ENCODED.fullmatch(value or "")
    if wrapped is None:
        return value
    try:
        content = base64.b64decode(wrapped[1], validate=True)
        # The same value has one spelling.
        if base64.b64encode(content).decode() != wrapped[1]:
            return None
        return content.decode()
    except (binascii.Error, UnicodeDecodeError):
        return None

"""The REST API as one list of operations, and its OpenAPI 3.1 document.

An operation is a tool over HTTP: its arguments come from the path, the query and the body,
and its answer and its faults are the tool's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilothouse import __version__
from pilothouse.core.declare.faults import COMMON
from pilothouse.intercept.rest import openapi_schemas
from pilothouse.intercept.tools.config import get_config, restore_config, update_config
from pilothouse.intercept.tools.history import get_history, get_logs, get_packet_detail
from pilothouse.intercept.tools.resend import resend_packet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pilothouse.core.declare.faults import Fault
    from pilothouse.core.declare.tool import Tool

HIDDEN = frozenset({"access_token", "all_sessions"})
"""Arguments that REST does not take: the token is a header, and all sessions are shown."""
_VARIABLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A tool as REST offers it."""

    method: str
    path: str
    tool: Tool
    whole_body: str = ""
    """The argument that the body is."""
    has_body: bool = False
    """True if the body is an object of all arguments that are not in the path."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that always have these values."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names that arguments have in the query, where they are others."""
    refined: Mapping[str, Any] = field(default_factory=dict)
    """Additions to the schemas of arguments for which `tools/list` has no room."""
    one_of: Sequence[dict[str, Any]] = ()
    """Schemas of which the body has to fit one at least."""

    @property
    def arguments(self) -> dict[str, dict[str, Any]]:
        """All arguments that REST takes, with their schemas."""
        properties: dict[str, dict[str, Any]] = self.tool.input_schema["properties"]
        return {
            name: {**schema, **self.refined.get(name, {})}
            for name, schema in properties.items()
            if name not in HIDDEN
        }

    @property
    def in_path(self) -> list[str]:
        return _VARIABLE.findall(self.path)

    @property
    def in_query(self) -> list[str]:
        if self.has_body:
            return []
        elsewhere = {*self.in_path, self.whole_body}
        return [name for name in self.arguments if name not in elsewhere]


def operations() -> tuple[Operation, ...]:
    """Return the spec's routes, apart from `/mcp/tools`, which is no tool."""
    return (
        Operation(
            method="GET",
            path="/mcp/history",
            tool=get_history,
            fixed={"all_sessions": True},
            refined={
                "filter": openapi_schemas.FILTER,
                "order": openapi_schemas.ORDER,
                "fields": openapi_schemas.FIELD_NAMES,
            },
        ),
        Operation(method="GET", path="/mcp/packet/{packet_id}", tool=get_packet_detail),
        Operation(method="GET", path="/mcp/configs", tool=get_config),
        Operation(
            method="PUT",
            path="/mcp/configs",
            tool=update_config,
            whole_body="config_json",
            refined={"config_json": {"$ref": "#/components/schemas/Config"}},
        ),
        Operation(
            method="POST",
            path="/mcp/resend/{packet_id}",
            tool=resend_packet,
            has_body=True,
            refined={"modifications": openapi_schemas.MODIFICATIONS},
            one_of=openapi_schemas.SOON_ENOUGH,
        ),
        Operation(
            method="GET",
            path="/mcp/logs",
            tool=get_logs,
            refined={"since": openapi_schemas.SINCE, "filter": openapi_schemas.RE2},
        ),
        Operation(method="POST", path="/mcp/restore/{backup_id}", tool=restore_config),
    )


# The document

_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "data"],
            "properties": {
                "code": {"type": "integer", "description": "As the MCP tools answer it"},
                "message": {"type": "string", "description": "What was wrong"},
                "data": {
                    "type": "object",
                    "description": "Facts for a program; hint is the next call worth making",
                },
            },
        }
    },
}
_TOOL_LIST: dict[str, Any] = {
    "type": "object",
    "required": ["tools"],
    "properties": {
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "description", "inputSchema"],
                "properties": {
                    "name": {"type": "string"},
                    "description": {"type": "string"},
                    "inputSchema": {"type": "object"},
                },
            },
        }
    },
}
_HTTP_REFUSALS = {
    401: "The access token is missing or wrong.",
    429: "Too many calls, or too many wrong tokens, in the last minute.",
}
_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    429: {"Retry-After": {"schema": {"type": "string"}}},
}


def document() -> dict[str, Any]:
    """Return the API as an OpenAPI 3.1 document."""
    paths: dict[str, Any] = {
        "/mcp/tools": {"get": _plain("list_tools", "List the MCP tools.", _TOOL_LIST)},
        "/openapi.json": {"get": _plain("openapi", "Get this document.", {"type": "object"})},
    }
    for operation in operations():
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pilothouse intercept",
            "version": __version__,
            "description": "Recorded traffic, the proxy's configuration and resending.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token that `pilothouse token` prints.",
                }
            },
            "schemas": {"Error": _ERROR, **openapi_schemas.config_schemas()},
        },
    }


def _plain(name: str, summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": _answer(schema), **_failures(_HTTP_REFUSALS)},
    }


def _operation(operation: Operation) -> dict[str, Any]:
    tool, arguments = operation.tool, operation.arguments
    required = tool.input_schema.get("required", [])
    parameters = [
        _parameter(name, "path", arguments[name], required=True) for name in operation.in_path
    ] + [
        _parameter(name, "query", arguments[name], required=name in required)
        for name in operation.in_query
    ]
    made: dict[str, Any] = {
        "operationId": tool.name,
        "summary": tool.summary,
        "parameters": parameters,
        "responses": {"200": _answer(tool.output_schema), **_failures(_reasons(operation))},
    }
    if operation.whole_body:
        made["requestBody"] = _body(operation.refined[operation.whole_body], required=True)
    elif operation.has_body:
        members = {name: s for name, s in arguments.items() if name not in operation.in_path}
        schema = {"type": "object", "properties": members, "additionalProperties": False}
        if operation.one_of:
            schema["anyOf"] = list(operation.one_of)
        made["requestBody"] = _body(schema, required=False)
    return made


def _parameter(name: str, place: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    described = {key: value for key, value in schema.items() if key != "description"}
    made = {
        "name": name,
        "in": place,
        "required": required,
        "description": schema["description"],
        "schema": described,
    }
    if schema["type"] == "array":
        # One parameter with commas, as in ?fields=id,url; an empty list is none at all.
        described["minItems"] = 1
        made |= {"style": "form", "explode": False}
    return made


def _body(schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def _answer(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "Done.", "content": {"application/json": {"schema": schema}}}


def _reasons(operation: Operation) -> dict[int, str]:
    """Return why an operation may fail, by HTTP status."""
    reasons = dict(_HTTP_REFUSALS)
    faults: list[type[Fault]] = [*operation.tool.raises, *COMMON]
    for fault in faults:
        if fault.status not in _HTTP_REFUSALS:
            said = (fault.__doc__ or "").split("\n", 1)[0]
            before = reasons.get(fault.status, "")
            reasons[fault.status] = f"{before} {said}".strip()
    if operation.in_path:
        reasons.setdefault(404, "There is no such path.")
    if operation.has_body or operation.whole_body:
        reasons[413] = "The body is too large."
    return reasons


def _failures(reasons: Mapping[int, str]) -> dict[str, Any]:
    return {
        str(status): {
            "description": reason,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            **({"headers": _HEADERS[status]} if status in _HEADERS else {}),
        }
        for status, reason in sorted(reasons.items())
    }

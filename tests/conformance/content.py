"""Kinds of content, a schema and a stream that no tool of Pilothouse uses."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import anyio
import mcp_types as types

from tests.conformance.declared import PIXEL, STEP_S
from tests.conformance.protocol import raw_tool, text

if TYPE_CHECKING:
    from tests.conformance.protocol import Context

PICTURE = types.ImageContent(data=base64.b64encode(PIXEL).decode(), mime_type="image/png")

# A RIFF header, a format of 8 kHz mono and one silent sample.
_WAV = bytes.fromhex(
    "52494646 26000000 57415645 666d7420 10000000 01000100"
    "401f0000 803e0000 02001000 64617461 02000000 0000"
)

LEVELS: tuple[types.LoggingLevel, ...] = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip


@raw_tool()
async def test_audio_content(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Answer a sound."""
    sound = types.AudioContent(data=base64.b64encode(_WAV).decode(), mime_type="audio/wav")
    return types.CallToolResult(content=[sound])


def embedded(uri: str, mime_type: str, said: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=said)
    )


@raw_tool()
async def test_embedded_resource(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Answer a resource with its content."""
    said = "This is an embedded resource content."
    return types.CallToolResult(content=[embedded("test://embedded-resource", "text/plain", said)])


@raw_tool()
async def test_multiple_content_types(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Answer a sentence, a picture and a resource."""
    data = '{"test": "data", "value": 123}'
    return types.CallToolResult(
        content=[
            types.TextContent(text="Multiple content types test:"),
            PICTURE,
            embedded("test://mixed-content-resource", "application/json", data),
        ]
    )


@raw_tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Carry a schema with keywords of JSON Schema 2020-12."""
    return text(f"Got {sorted(params.arguments or {})}.")


async def log(ctx: Context, said: str) -> None:
    """Log to a client that wants this level: 2025 says so once, 2026 in each request."""
    wanted = ctx.session._connection.state.get("log_level", "debug")
    if LEVELS.index("info") >= LEVELS.index(wanted):
        await ctx.session.send_log_message("info", said, related_request_id=ctx.request_id)


async def set_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    ctx.session._connection.state["log_level"] = params.level
    return types.EmptyResult()


async def _log_three_times(ctx: Context) -> types.CallToolResult:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(ctx, said)
        await anyio.sleep(STEP_S)
    return text("Logged.")


@raw_tool()
async def test_tool_with_logging(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Log three lines to a 2025 client."""
    return await _log_three_times(ctx)


@raw_tool()
async def test_logging_tool(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Log three lines to a 2026 client, if it asked for them."""
    return await _log_three_times(ctx)


@raw_tool()
async def test_reconnection(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Break the connection before the answer, which the client then comes back for."""
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
        await anyio.sleep(STEP_S)
    return text("Answered after the connection broke.")


TOOLS = (
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    json_schema_2020_12_tool,
    test_tool_with_logging,
    test_logging_tool,
    test_reconnection,
)

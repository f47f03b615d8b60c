"""2025: tools that ask the client something while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as types

from tests.conformance.protocol import raw_tool, text

if TYPE_CHECKING:
    from tests.conformance.protocol import Context


def _one_string(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


def _titled(value: str, title: str) -> dict[str, str]:
    return {"const": value, "title": title}


@raw_tool(_one_string("prompt"))
async def test_sampling(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Have the client's model answer a prompt."""
    prompt = types.TextContent(text=str((params.arguments or {})["prompt"]))
    reply = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=prompt)],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    said = reply.content.text if isinstance(reply.content, types.TextContent) else ""
    return text(f"LLM response: {said}")


async def _elicit(ctx: Context, message: str, schema: dict[str, Any]) -> types.CallToolResult:
    reply = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return text(f"Elicitation completed: action={reply.action}, content={reply.content}")


@raw_tool(_one_string("message"))
async def test_elicitation(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Ask the user for a name and an address."""
    return await _elicit(
        ctx,
        str((params.arguments or {})["message"]),
        {
            "type": "object",
            "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            },
            "required": ["username", "email"],
        },
    )


@raw_tool()
async def test_elicitation_sep1034_defaults(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Ask with a default for each kind of value."""
    states = ["active", "inactive", "pending"]
    return await _elicit(
        ctx,
        "Please check these values",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": states, "default": "active"},
                "verified": {"type": "boolean", "default": True},
            },
        },
    )


@raw_tool()
async def test_elicitation_sep1330_enums(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Ask with each way there is to offer a choice."""
    options = ["option1", "option2", "option3"]
    titled = [
        _titled("value1", "First Option"),
        _titled("value2", "Second Option"),
        _titled("value3", "Third Option"),
    ]
    return await _elicit(
        ctx,
        "Please choose",
        {
            "type": "object",
            "properties": {
                "untitledSingle": {"type": "string", "enum": options},
                "titledSingle": {"type": "string", "oneOf": titled},
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
                "titledMulti": {"type": "array", "items": {"anyOf": titled}},
            },
        },
    )


TOOLS = (
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
)

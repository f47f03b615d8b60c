"""2026: calls that answer `input_required`, and are made again with what was missing.

The server keeps nothing between two rounds. What it must remember travels as `requestState`,
signed, because a client could change it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance.protocol import ToolResult, raw_tool, text

if TYPE_CHECKING:
    from tests.conformance.protocol import Context

_KEY = secrets.token_bytes(32)


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def opened(request_state: str | None) -> str:
    """What a client brought back. Raises MCPError when it is not as it was sent."""
    state = (request_state or "").rpartition(".")[0]
    if not hmac.compare_digest(sealed(state).encode(), (request_state or "").encode()):
        raise MCPError(types.INVALID_PARAMS, "requestState is not as the server sent it")
    return state


def form(message: str, field: str, kind: str = "string") -> types.ElicitRequest:
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message=message,
            requested_schema={
                "type": "object",
                "properties": {field: {"type": kind}},
                "required": [field],
            },
        )
    )


def question(prompt: str) -> types.CreateMessageRequest:
    said = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[said], max_tokens=100)
    )


def ask(state: str | None = None, /, **requests: types.InputRequest) -> types.InputRequiredResult:
    return types.InputRequiredResult(
        input_requests=requests, request_state=None if state is None else sealed(state)
    )


def filled(params: types.InputResponseRequestParams, key: str, field: str) -> Any:
    """What the user wrote into a form, or None when this was not answered."""
    reply = (params.input_responses or {}).get(key)
    if isinstance(reply, types.ElicitResult) and reply.content:
        return reply.content.get(field)
    return None


@raw_tool()
async def test_input_required_result_elicitation(
    ctx: Context, params: types.CallToolRequestParams
) -> ToolResult:
    """Ask the user for a name."""
    name = filled(params, "user_name", "name")
    return text(f"Hello, {name}!") if name else ask(user_name=form("What is your name?", "name"))


@raw_tool()
async def test_input_required_result_sampling(
    ctx: Context, params: types.CallToolRequestParams
) -> ToolResult:
    """Ask the client's model a question."""
    reply = (params.input_responses or {}).get("capital_question")
    if isinstance(reply, types.CreateMessageResult) and isinstance(
        reply.content, types.TextContent
    ):
        return text(reply.content.text)
    return ask(capital_question=question("What is the capital of France?"))


@raw_tool()
async def test_input_required_result_list_roots(
    ctx: Context, params: types.CallToolRequestParams
) -> ToolResult:
    """Ask the client for its roots."""
    reply = (params.input_responses or {}).get("client_roots")
    if isinstance(reply, types.ListRootsResult):
        return text(f"Roots: {', '.join(str(root.uri) for root in reply.roots)}")
    return ask(client_roots=types.ListRootsRequest())


async def _confirm(params: types.CallToolRequestParams) -> ToolResult:
    if params.input_responses is None:
        return ask("confirming", confirm=form("Please confirm", "ok", "boolean"))
    opened(params.request_state)
    return text("state-ok")


@raw_tool()
async def test_input_required_result_request_state(
    ctx: Context, params: types.CallToolRequestParams
) -> ToolResult:
    """Get its own state back."""
    return await _confirm(params)


@raw_tool()
async def test_input_required_result_tampered_state(
    ctx: Context, params: types.CallToolRequestParams
) -> ToolResult:
    """Refuse a state that was changed on the way."""
    return await _confirm(params)


@raw_tool()
async def test_input_required_result_multiple_inputs(
    ctx: Context, params: types.CallToolRequestParams
) -> ToolResult:
    """Ask for three things at once."""
    wanted: dict[str, types.InputRequest] = {
        "user_name": form("What is your name?", "name"),
        "greeting": question("Generate a greeting"),
        "client_roots": types.ListRootsRequest(),
    }
    if not wanted.keys() <= (params.input_responses or {}).keys():
        return ask("waiting for three", **wanted)
    opened(params.request_state)
    return text("Got all three.")


@raw_tool()
async def test_input_required_result_multi_round(
    ctx: Context, params: types.CallToolRequestParams
) -> ToolResult:
    """Ask twice; the second question comes with what the first one brought."""
    if params.request_state is None:
        return ask("first", step1=form("Step 1: What is your name?", "name"))
    state = opened(params.request_state)
    if state == "first":
        name = filled(params, "step1", "name")
        return ask(f"name={name}", step2=form("Step 2: What is your favorite color?", "color"))
    return text(f"{state}, color={filled(params, 'step2', 'color')}")


@raw_tool()
async def test_input_required_result_capabilities(
    ctx: Context, params: types.CallToolRequestParams
) -> ToolResult:
    """Ask only for what the client said it can do."""
    can = ctx.session.client_capabilities or types.ClientCapabilities()
    wanted: dict[str, types.InputRequest] = {}
    if can.sampling is not None:
        wanted["greeting"] = question("Generate a greeting")
    if can.elicitation is not None:
        wanted["user_name"] = form("What is your name?", "name")
    return ask(**wanted) if wanted else text("The client can be asked nothing.")


@raw_tool()
async def test_streaming_elicitation(
    ctx: Context, params: types.CallToolRequestParams
) -> ToolResult:
    """Ask the user, never with a request of the server's own."""
    return ask(confirm=form("Please confirm", "ok", "boolean"))


@raw_tool()
async def test_missing_capability(ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
    """Work only for a client that offers sampling."""
    needed = types.ClientCapabilities(sampling=types.SamplingCapability())
    if not ctx.session.check_client_capability(needed):
        about = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs a client that offers sampling",
            about.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
    return text("The client offers sampling.")


TOOLS = (
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_tampered_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_capabilities,
    test_streaming_elicitation,
    test_missing_capability,
)

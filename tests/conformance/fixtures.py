"""Everything that the conformance suite calls by name, registered on Pilothouse's own app.

`GROUP_SPEC` comes in as tools and resources of any group do. `extend` adds what our declarations
cannot express to the SDK server below them, and leaves every other request to Pilothouse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.caching import CacheHint

from tests.conformance import asking, content, rounds
from tests.conformance.declared import GROUP_SPEC
from tests.conformance.prompts import complete, get_prompt, list_prompts

if TYPE_CHECKING:
    from mcp.server import Server

    from tests.conformance.protocol import Context

__all__ = ["GROUP_SPEC", "extend"]

RAW_TOOLS = {tool.name: tool for tool in (*content.TOOLS, *asking.TOOLS, *rounds.TOOLS)}


def extend(server: Server[Any]) -> None:
    """Add prompts, completion and logging, and put the raw tools before Pilothouse's own."""
    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, content.set_level)
    server.cache_hints["prompts/list"] = CacheHint()

    ours_list = server.get_request_handler("tools/list")
    ours_call = server.get_request_handler("tools/call")
    assert ours_list is not None
    assert ours_call is not None

    async def list_tools(ctx: Context, params: types.PaginatedRequestParams) -> Any:
        listed = await ours_list.handler(ctx, params)
        assert isinstance(listed, types.ListToolsResult)
        raw = [tool.described for tool in RAW_TOOLS.values()]
        return listed.model_copy(update={"tools": [*listed.tools, *raw]})

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
        raw = RAW_TOOLS.get(params.name)
        return await (ours_call.handler if raw is None else raw.handler)(ctx, params)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)

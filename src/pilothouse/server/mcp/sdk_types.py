"""Our values as the SDK's types: tools, answers; and what a client says of itself."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from pilothouse.core.declare.model import Image

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

    from pilothouse.core.declare.listing import Listing
    from pilothouse.core.declare.tool import Tool
    from pilothouse.server.render import Answer

ROOTS_S = 2.0
"""Seconds that a client may take to name the folders it works in."""


async def roots_of(client: ServerSession) -> list[str]:
    """Return the folders that a client names as its roots; none if it does not answer soon."""
    offered = client.client_capabilities
    if offered is None or offered.roots is None or not client.can_send_request:
        return []
    try:
        with anyio.fail_after(ROOTS_S):
            # Not by its own method, which warns: the 2026 revision has no roots any more.
            listed = await client.send_request(types.ListRootsRequest(), types.ListRootsResult)
    except (TimeoutError, MCPError, ValueError):  # the last: a root that is no file:// address
        return []
    places = [urlsplit(str(root.uri)) for root in listed.roots]
    return [
        unquote(place.path)
        for place in places
        if place.scheme == "file" and place.netloc in ("", "localhost")
    ]


def describe(listing: Listing, tool: Tool | None) -> types.Tool:
    """Describe a tool for `tools/list`, with what it returns if the declaration is given too."""
    return types.Tool(
        name=listing.name,
        description=listing.description,
        input_schema=listing.input_schema,
        output_schema=tool.output_schema if tool else None,
        annotations=types.ToolAnnotations.model_validate(listing.annotations),
    )


def to_result(answer: Answer) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(text=answer.text)]
    for block in answer.blocks:
        if isinstance(block, Image):
            data = base64.b64encode(block.data).decode()
            content.append(types.ImageContent(data=data, mime_type=block.mime_type))
        else:
            content.append(
                types.ResourceLink(
                    uri=block.uri, name=block.name, mime_type=block.mime_type or None
                )
            )
    meta: dict[str, Any] | None = None
    if answer.afterword is not None:
        # Last, and apart: the first block is what the tool itself answers.
        content.append(types.TextContent(text=answer.afterword.text))
        meta = answer.afterword.meta
    return types.CallToolResult(
        content=content,
        structured_content=answer.structured,
        is_error=answer.is_error,
        meta=cast("Any", meta),
    )
